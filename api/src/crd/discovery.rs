//! What discovery says about custom kinds: entries of `APIResourceList` and of aggregated discovery, and the APIServices of their
//! group versions.

use serde_json::Value;

use super::definition::{Definition, Version};

/// Verbs of a custom kind, in the order of discovery.
pub const VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs while the definition is terminating.
pub const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// Verbs of the kind now.
#[must_use]
pub fn verbs(definition: &Definition) -> &'static [&'static str] {
    if definition.terminating { TERMINATING_VERBS } else { VERBS }
}

/// Entries of `/apis/<group>/<version>`: the kind, then its subresources.
#[must_use]
pub fn api_resources(definition: &Definition, version: &Version) -> Vec<Value> {
    let _ = (definition, version);
    todo!()
}

/// Entry of aggregated discovery (`apidiscovery.k8s.io/v2` `APIResourceDiscovery`).
#[must_use]
pub fn aggregated_resource(definition: &Definition, version: &Version) -> Value {
    let _ = (definition, version);
    todo!()
}

/// `storageVersionHash` of a storage version.
#[must_use]
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let _ = (group, version, kind);
    todo!()
}

/// Served versions of one group over its definitions, preferred first, each once. Definitions whose names are not accepted have none.
#[must_use]
pub fn group_versions<'a>(definitions: impl IntoIterator<Item = &'a Definition>) -> Vec<String> {
    let _ = definitions.into_iter();
    todo!()
}

/// The automanaged APIService of a group and version, without system metadata.
#[must_use]
pub fn api_service(group: &str, version: &str) -> Value {
    let _ = (group, version);
    todo!()
}
