//! Encodes discovery documents and `/version` with members in the order of Kubernetes, since people read them
//! and scripts cut them as text. Objects are encoded in the order of their stored members: by name.

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The order of members of a resource and of a kind.
const RESOURCE: [&str; 10] = [
    "name",
    "singularName",
    "namespaced",
    "group",
    "version",
    "kind",
    "verbs",
    "shortNames",
    "categories",
    "storageVersionHash",
];

/// The order of members of all other objects.
const REST: [&str; 36] = [
    "kind",
    "apiVersion",
    "metadata",
    "name",
    "groupVersion",
    "version",
    "versions",
    "preferredVersion",
    "resource",
    "subresource",
    "responseKind",
    "scope",
    "singularResource",
    "verbs",
    "shortNames",
    "categories",
    "subresources",
    "resources",
    "freshness",
    "groups",
    "items",
    "clientCIDR",
    "serverAddress",
    "major",
    "minor",
    "emulationMajor",
    "emulationMinor",
    "minCompatibilityMajor",
    "minCompatibilityMinor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
];

/// A value whose members are written in that order; members that are not listed come last, by name.
pub(super) struct Ordered<'v>(pub &'v Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => {
                serializer.collect_map(members(map).into_iter().map(|(name, value)| (name, Ordered(value))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Ordered)),
            scalar => scalar.serialize(serializer),
        }
    }
}

fn members(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let order =
        if map.contains_key("namespaced") || map.contains_key("group") { &RESOURCE[..] } else { &REST };
    let mut members: Vec<_> = map.iter().collect();
    members.sort_by_key(|(name, _)| order.iter().position(|o| o == name).unwrap_or(order.len()));
    members
}
