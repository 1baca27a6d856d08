//! Conversion of objects to the version that a webhook's rules name: the request's version or an equivalent
//! one.

use kstore_api::admission::{Attributes, GroupVersionKind, MatchedForm};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::{schema, stored};
use kstore_registry::conversion::in_version;
use kstore_registry::kinds::Kinds;
use serde_json::Value;
use std::borrow::Cow;

/// The equivalent version in which a webhook sees a request's objects; `None` if it is the request's. The
/// body of a subresource with a kind of its own, such as Scale, is the same in all versions.
pub(crate) fn other_version(
    kinds: &Kinds,
    attributes: &Attributes<'_>,
    form: &MatchedForm<'_>,
) -> Option<&'static Resource> {
    if form.kind == attributes.kind {
        return None;
    }
    let wanted = &form.resource;
    let served = kinds.lookup(wanted.group, wanted.version, wanted.resource);
    served.map(|served| served.resource)
}

/// Converts an object from version `own` of the request to version `row`.
///
/// # Errors
/// 500 if it cannot be converted.
pub(crate) fn converted<'v>(
    kinds: &Kinds,
    object: &'v Value,
    (own, row): (&'static Resource, Option<&'static Resource>),
) -> Result<Cow<'v, Value>, Status> {
    match row {
        None => Ok(Cow::Borrowed(object)),
        Some(row) => between(kinds, object.clone(), own, row).map(Cow::Owned),
    }
}

/// The object as webhooks and policies see it: in the version that their rules name, with the zero values
/// that Kubernetes always prints (`resources: {}`). Objects have these here only after they are stored.
///
/// # Errors
/// The errors of [`converted`].
pub(crate) fn shown<'v>(
    kinds: &Kinds,
    object: &'v Value,
    versions: (&'static Resource, Option<&'static Resource>),
    kind: GroupVersionKind<'_>,
) -> Result<Cow<'v, Value>, Status> {
    Ok(filled(converted(kinds, object, versions)?, kind))
}

/// Adds the zero values that Kubernetes always prints. Custom objects stay unchanged.
pub(crate) fn filled<'v>(object: Cow<'v, Value>, kind: GroupVersionKind<'_>) -> Cow<'v, Value> {
    let Some(ty) = schema::of(kind.group, kind.version, kind.kind) else { return object };
    let mut object = object.into_owned();
    schema::fill::fill(&mut object, ty);
    Cow::Owned(object)
}

/// Converts an object from version `row` back to version `own` of the request.
///
/// # Errors
/// The errors of [`converted`].
pub(crate) fn restored(
    kinds: &Kinds,
    object: Value,
    (own, row): (&'static Resource, Option<&'static Resource>),
) -> Result<Value, Status> {
    match row {
        None => Ok(object),
        Some(row) => between(kinds, object, row, own),
    }
}

fn between(
    kinds: &Kinds,
    mut object: Value,
    from: &'static Resource,
    to: &'static Resource,
) -> Result<Value, Status> {
    if let Some(custom) = kinds.custom(to) {
        return custom.converted(object);
    }
    if !from.is_same_version(from.storage_row()) {
        stored::to_storage(from, &mut object);
    }
    Ok(in_version(to, object))
}
