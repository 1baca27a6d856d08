//! Validation: all errors of an object, with the paths and texts of Kubernetes. Objects were decoded,
//! defaulted and prepared (`strategy`) before. Functions here are pure; other code checks what needs another
//! object, such as a namespace or an allocated address.

pub(crate) mod batch;
pub(crate) mod claim;
pub(crate) mod config;
pub(crate) mod endpoints;
pub(crate) mod event;
mod former;
mod generated;
pub(crate) mod groups;
mod later;
pub(crate) mod limit_range;
pub(crate) mod metadata;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod quota;
pub(crate) mod ratchet;
mod resource;
mod selector;
pub(crate) mod service;
mod shown;
pub(crate) mod volume;
pub(crate) mod warning;
pub(crate) mod workload;

#[cfg(test)]
mod tests;

use crate::field::{ErrorList, FieldError, FieldErrorKind};
use crate::resource::Resource;
pub(crate) use generated::is_of_rules as is_gate_of_rules;
pub use groups::trust_bundle;
pub(crate) use resource::{CLASS_PREFIX, is_extended_of_quotas, is_of_devices};
use serde_json::Value;
pub use warning::warnings;

/// Errors of a new object: metadata first, then content. Generated names are filled in before.
pub fn create(resource: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    metadata::create(resource, object, &mut errors);
    later::metadata(resource, &mut errors);
    (resource.rules.content)(object, None, &mut errors);
    (resource.rules.create)(object, &mut errors);
    later::errors(resource, object, &mut errors);
    former::change_policy(resource, object, None, &mut errors);
    shown::as_in_go(resource, object, &mut errors);
    generated::errors(resource, object, None, &mut errors);
    former::errors(resource, &mut errors);
    errors
}

/// Errors of an object that is answered and not stored, such as a review.
pub fn review(resource: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    (resource.rules.content)(object, None, &mut errors);
    shown::as_in_go(resource, object, &mut errors);
    former::errors(resource, &mut errors);
    errors
}

/// Errors of an update through the object's own path.
pub fn update(resource: &Resource, new: &Value, old: &Value) -> ErrorList {
    update_subresource(resource, "", new, old)
}

/// Errors of an update through a subresource (empty: the object's own path). Status subresources do not
/// validate the rest of the object again.
///
/// Some rules are newer than stored objects: objects that broke such a rule before may still break it.
pub fn update_subresource(resource: &Resource, subresource: &str, new: &Value, old: &Value) -> ErrorList {
    let mut errors = judge(resource, subresource, new, old);
    if errors.iter().any(|error| (resource.rules.ratcheted)(new, error).is_some()) {
        let before = judge(resource, subresource, old, old);
        ratchet::drop_tolerated(resource, (new, &mut errors), (old, &before));
    }
    if subresource.is_empty() {
        later::errors(resource, new, &mut errors);
        former::change_policy(resource, new, Some(old), &mut errors);
    }
    later::statuses(resource, &mut errors);
    shown::as_in_go(resource, new, &mut errors);
    generated::errors(resource, new, Some(old), &mut errors);
    former::errors(resource, &mut errors);
    errors
}

fn judge(resource: &Resource, subresource: &str, new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    metadata::update(resource, new, old, &mut errors);
    later::metadata(resource, &mut errors);
    match resource.rules.subresource(subresource).validate {
        Some(validate) => validate(new, old, &mut errors),
        None => {
            (resource.rules.content)(new, Some(old), &mut errors);
            (resource.rules.change)(new, old, &mut errors);
        }
    }
    errors
}

/// The error of an update without a resourceVersion, for kinds that require one.
pub fn resource_version_required() -> ErrorList {
    let mut errors = ErrorList::new();
    errors.push(FieldError {
        kind: FieldErrorKind::Invalid,
        field: "metadata.resourceVersion".to_owned(),
        value: Some("0x0".to_owned()),
        detail: "must be specified for an update".to_owned(),
    });
    errors
}
