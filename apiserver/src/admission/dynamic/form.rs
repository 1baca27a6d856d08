//! Objects in the version that a webhook's rules name: the version of the request, or an equivalent one to which they are converted.

use crate::kinds::Kinds;
use crate::pipeline::in_version;
use kstore_api::admission::{Attributes, GroupVersionKind, MatchedForm};
use kstore_api::convert;
use kstore_api::kind::Resource;
use kstore_api::schema;
use kstore_api::status::Status;
use serde_json::Value;
use std::borrow::Cow;

/// The other version in which a webhook sees the objects of a request; `None` if it sees them as the request has them. A body of a
/// subresource that is a kind of its own, such as a Scale, is the same in all versions.
pub(super) fn other_version(
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

/// An object of the request, which has the version `own`, in the version `row`.
///
/// # Errors
/// 500 if it cannot be converted.
pub(super) fn converted<'v>(
    kinds: &Kinds,
    object: &'v Value,
    (own, row): (&'static Resource, Option<&'static Resource>),
) -> Result<Cow<'v, Value>, Status> {
    match row {
        None => Ok(Cow::Borrowed(object)),
        Some(row) => between(kinds, object.clone(), own, row).map(Cow::Owned),
    }
}

/// An object of the request as webhooks and policies see it: in the version that their rules name, with the zero members that Kubernetes
/// always prints (`resources: {}`), which objects have here only when they are stored.
///
/// # Errors
/// As [`converted`].
pub(super) fn shown<'v>(
    kinds: &Kinds,
    object: &'v Value,
    versions: (&'static Resource, Option<&'static Resource>),
    kind: GroupVersionKind<'_>,
) -> Result<Cow<'v, Value>, Status> {
    Ok(filled(converted(kinds, object, versions)?, kind))
}

/// An object of this kind with the zero members that Kubernetes always prints; one of a custom kind as it is.
pub(super) fn filled<'v>(object: Cow<'v, Value>, kind: GroupVersionKind<'_>) -> Cow<'v, Value> {
    let Some(ty) = schema::of(kind.group, kind.version, kind.kind) else { return object };
    let mut object = object.into_owned();
    schema::fill::fill(&mut object, ty);
    Cow::Owned(object)
}

/// An object in the version `row`, in the version `own` of the request again.
///
/// # Errors
/// As [`converted`].
pub(super) fn restored(
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
        convert::to_storage(from, &mut object);
    }
    Ok(in_version(to, object))
}
