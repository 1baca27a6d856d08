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

/// The version and kind in which a webhook sees the objects of a request.
pub(crate) struct ObjectForm<'a> {
    kinds: &'a Kinds,
    /// The resource in the version of the request.
    own: &'static Resource,
    /// The equivalent resource in another version; `None` if the webhook sees the request's version.
    other: Option<&'static Resource>,
    kind: GroupVersionKind<'a>,
}

impl<'a> ObjectForm<'a> {
    /// The form for a webhook whose rules matched `matched`. The body of a subresource with a kind of its own, such as
    /// Scale, is the same in all versions.
    pub(crate) fn of(
        kinds: &'a Kinds,
        own: &'static Resource,
        attributes: &Attributes<'_>,
        matched: &MatchedForm<'a>,
    ) -> Self {
        let MatchedForm { resource: wanted, kind } = *matched;
        let served = || kinds.lookup(wanted.group, wanted.version, wanted.resource);
        let other = if kind == attributes.kind { None } else { served().map(|served| served.resource) };
        Self { kinds, own, other, kind }
    }

    /// The object as webhooks see it, with the zero values that Kubernetes always prints (`resources: {}`). Objects have
    /// these here only after they are stored.
    ///
    /// # Errors
    /// The errors of [`converted`].
    pub(crate) fn shown<'v>(&self, object: &'v Value) -> Result<Cow<'v, Value>, Status> {
        let object = match self.other {
            None => Cow::Borrowed(object),
            Some(row) => Cow::Owned(converted(self.kinds, object.clone(), self.own, row)?),
        };
        Ok(filled(object, self.kind))
    }

    /// Converts an object that a webhook has changed back to the version of the request.
    ///
    /// # Errors
    /// The errors of [`converted`].
    pub(crate) fn restored(&self, object: Value) -> Result<Value, Status> {
        match self.other {
            None => Ok(object),
            Some(row) => converted(self.kinds, object, row, self.own),
        }
    }
}

/// Adds the zero values that Kubernetes always prints. Custom objects stay unchanged.
pub(crate) fn filled<'v>(object: Cow<'v, Value>, kind: GroupVersionKind<'_>) -> Cow<'v, Value> {
    let Some(ty) = schema::of(kind.group, kind.version, kind.kind) else { return object };
    let mut object = object.into_owned();
    schema::fill::fill(&mut object, ty);
    Cow::Owned(object)
}

/// Converts an object between two versions of its resource.
///
/// # Errors
/// 500 if it cannot be converted.
pub(crate) fn converted(
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
