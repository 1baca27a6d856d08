//! Preparation of objects for create and update: which members an endpoint may write, the first status, and
//! the generation. Functions here are pure; they run after defaults and admission and before validation. The
//! apiserver allocates addresses and ports, and does all that needs other objects.
//!
//! Follows `PrepareForCreate` and `PrepareForUpdate`.

pub(crate) mod api_service;
pub(crate) mod certificate;
pub(crate) mod claim;
pub(crate) mod daemon_set;
pub(crate) mod devices;
pub(crate) mod disabled;
mod gated;
mod generation;
pub(crate) mod job;
pub(crate) mod limit_range;
pub(crate) mod namespace;
mod owners;
pub(crate) mod pod;
pub(crate) mod service;
pub(crate) mod volume;

#[cfg(test)]
mod tests;

use crate::resource::{Resource, copy};
use crate::version::Minor;
pub(crate) use gated::is_of_members as is_gate_of_members;
pub use owners::drop_same_owners;
pub use pod::qos_class;
use serde_json::Value;

/// Features of built-in kinds that are off by default in Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether pods can project ClusterTrustBundles (`ClusterTrustBundleProjection`).
    pub trust_bundle_projection: bool,
    /// Whether pods can name a PodGroup or, in 1.35, a Workload (`GenericWorkload`).
    pub scheduling_groups: bool,
    /// Whether webhooks and policies may come from files, so that names of such are refused (`ManifestBasedAdmissionControlConfig`).
    pub static_manifests: bool,
}

/// Prepares an object for create. The caller has wiped and filled the metadata before
/// (`meta::wipe_system_fields`, `meta::fill_system_fields`). On return the object has its kind's first status
/// and its generation.
pub fn prepare_create(resource: &Resource, object: &mut Value) {
    generation::first(resource, object);
    disabled::drop_disabled_fields(resource, object, None);
    gated::drop_gated(resource, object, None);
    if resource.has_status() && !resource.rules.keeps_status_at_create {
        remove(object, "status");
    }
    (resource.rules.prepare_create)(object);
}

/// Whether the labels of a new object will be those of its template, by its defaults. In Kubernetes both are one map from then on, so
/// that the labels which [`prepare_create`] generates in a template are the object's, too.
#[derive(Clone, Copy, Debug)]
pub struct SharedLabels(bool);

impl SharedLabels {
    /// Looks at an object before its defaults are set.
    #[must_use]
    pub fn before_defaults(resource: &Resource, object: &Value) -> Self {
        let none = crate::meta::labels(object).is_none_or(serde_json::Map::is_empty);
        Self(none && resource.rules.shares_template_labels)
    }

    /// Gives a prepared object the labels of its template, unless admission gave it others.
    pub fn after_preparation(self, object: &mut Value) {
        let template = &object["spec"]["template"]["metadata"]["labels"];
        let own = crate::meta::labels(object);
        let are_shared = own.is_none_or(|own| own.iter().all(|(key, value)| template[key] == *value));
        if self.0 && are_shared && template.is_object() {
            let template = template.clone();
            crate::meta::metadata_mut(object).insert("labels".to_owned(), template);
        }
    }
}

/// Prepares an update through one endpoint; `subresource` is empty for the object itself. On return only
/// members that the endpoint may write differ from `old`. The generation is incremented if the kind's rule
/// says so.
pub fn prepare_update(resource: &Resource, subresource: &str, new: &mut Value, old: &Value) {
    crate::meta::carry_system_fields(new, old);
    gated::drop_gated(resource, new, Some(old));
    match resource.rules.subresource(subresource).prepare {
        Some(prepare) => prepare(new, old),
        None if resource.has_status() => copy(new, old, "status"),
        None => {}
    }
    if subresource.is_empty() {
        disabled::drop_disabled_fields(resource, new, Some(old));
        (resource.rules.prepare_update)(new, old);
    }
    if subresource == "status" {
        (resource.rules.drop_disabled)(new);
        if resource.minor >= Minor::V37 && resource.is("", "pods") {
            pod::keep_claims(new, old);
        }
        crate::meta::set_generation(new, crate::meta::generation(old));
    } else {
        generation::next(resource, new, old);
    }
}

/// Drops members of optional features that the server does not have; runs before [`prepare_create`] and, for
/// writes of the object itself, before [`prepare_update`]. `old` is the object that an update replaces: a feature
/// that it uses may stay in use.
pub fn drop_optional(resource: &Resource, object: &mut Value, old: Option<&Value>, features: Features) {
    if !features.trust_bundle_projection {
        disabled::drop_trust_bundles(resource, object, old);
    }
    if !features.scheduling_groups {
        disabled::drop_scheduling_group(resource, object, old);
    }
}

/// Sets missing times of conditions in a write through `subresource`; runs after [`prepare_update`]. `now`
/// returns RFC 3339 in whole seconds, and is called only if the kind has such times.
pub fn date_update(
    resource: &Resource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
    now: impl FnOnce() -> String,
) {
    if let Some(date) = resource.rules.subresource(subresource).date {
        date(new, old, &now());
    }
}

/// Reduces the secrets of a service account to their names, which are all that Kubernetes keeps of the references.
pub(crate) fn account_secrets(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(members) = secret.as_object_mut() {
            members.retain(|name, _| name == "name");
        }
    }
}

/// Copies a member of the metadata from `old`.
pub(crate) fn copy_metadata(new: &mut Value, old: &Value, member: &str) {
    if new["metadata"].is_object() {
        copy(&mut new["metadata"], &old["metadata"], member);
    }
}

fn remove(object: &mut Value, member: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(member);
    }
}
