//! Discovery of custom kinds: entries of `APIResourceList` and aggregated discovery, and the APIServices of
//! their group versions. All names are accepted names.

use super::definition::{Definition, Version};
use crate::group_version::by_priority;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Verbs of a custom kind, in discovery's order.
pub const VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs of a custom kind while its definition is terminating.
pub const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];
/// Verbs of `status` and `scale`.
pub const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// Bytes of the hash of a storage version.
const STORAGE_HASH_BYTES: usize = 8;
/// Priority of a custom group among all groups.
const GROUP_PRIORITY: u32 = 1000;
/// Priority of a custom version inside its group.
const VERSION_PRIORITY: u32 = 100;

/// Current verbs of the kind.
#[must_use]
pub fn verbs(definition: &Definition) -> &'static [&'static str] {
    if definition.terminating { TERMINATING_VERBS } else { VERBS }
}

/// Subresources of a version, with group, version and kind of their bodies, in discovery's order.
fn subresources<'d>(definition: &'d Definition, version: &'d Version) -> Vec<(&'static str, [&'d str; 3])> {
    let own = [&*definition.group, &*version.name, &*definition.accepted.kind];
    let status = version.has_status.then_some(("status", own));
    let scale = version.scale.is_some().then_some(("scale", ["autoscaling", "v1", "Scale"]));
    status.into_iter().chain(scale).collect()
}

/// Entries of `/apis/<group>/<version>`: the kind, then its subresources.
#[must_use]
pub fn api_resources(definition: &Definition, version: &Version) -> Vec<Value> {
    let accepted = &definition.accepted;
    let mut own = json!({
        "name": &*accepted.plural,
        "singularName": &*accepted.singular,
        "namespaced": definition.namespaced,
        "kind": &*accepted.kind,
        "verbs": verbs(definition),
    });
    extend(&mut own, definition);
    let storage = definition.storage_version();
    own["storageVersionHash"] =
        storage_version_hash(&definition.group, &storage.name, &definition.names.kind).into();
    let below = subresources(definition, version).into_iter().map(|(name, [group, version, kind])| {
        let mut entry = json!({
            "name": format!("{}/{name}", accepted.plural),
            "singularName": "",
            "namespaced": definition.namespaced,
            "kind": kind,
            "verbs": SUBRESOURCE_VERBS,
        });
        if group != &*definition.group {
            entry["group"] = group.into();
            entry["version"] = version.into();
        }
        entry
    });
    std::iter::once(own).chain(below).collect()
}

/// Adds short names and categories, if there are any.
fn extend(entry: &mut Value, definition: &Definition) {
    let accepted = &definition.accepted;
    for (member, names) in [("shortNames", &accepted.short_names), ("categories", &accepted.categories)] {
        if !names.is_empty() {
            entry[member] = names.iter().map(|name| Value::from(&**name)).collect();
        }
    }
}

/// Entry of aggregated discovery: an `APIResourceDiscovery` of `apidiscovery.k8s.io/v2`.
#[must_use]
pub fn aggregated_resource(definition: &Definition, version: &Version) -> Value {
    let accepted = &definition.accepted;
    let kind_of =
        |[group, version, kind]: [&str; 3]| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": &*accepted.plural,
        "responseKind": kind_of([&definition.group, &version.name, &accepted.kind]),
        "scope": if definition.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*accepted.singular,
        "verbs": verbs(definition),
    });
    extend(&mut entry, definition);
    let below = subresources(definition, version).into_iter().map(|(name, body)| {
        json!({"subresource": name, "responseKind": kind_of(body), "verbs": SUBRESOURCE_VERBS})
    });
    let below: Vec<Value> = below.collect();
    if !below.is_empty() {
        entry["subresources"] = below.into();
    }
    entry
}

/// Value of `storageVersionHash` for a storage version.
#[must_use]
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&hash[..STORAGE_HASH_BYTES])
}

/// Served versions of one group over all its definitions, preferred first, without duplicates. Definitions
/// that are not established do not count.
#[must_use]
pub fn group_versions<'a>(definitions: impl IntoIterator<Item = &'a Definition>) -> Vec<Arc<str>> {
    let established = definitions.into_iter().filter(|definition| definition.established);
    let names: BTreeSet<&Arc<str>> =
        established.flat_map(|definition| definition.served().map(|version| &version.name)).collect();
    let mut names: Vec<Arc<str>> = names.into_iter().map(Arc::clone).collect();
    names.sort_by(|a, b| by_priority(a, b));
    names
}

/// The automatically managed APIService of a group and version, without system metadata.
#[must_use]
pub fn api_service(group: &str, version: &str) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "true"},
        },
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
        },
    })
}
