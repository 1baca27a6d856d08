//! The groups and versions in which Kubernetes registers the kinds that every group has, DeleteOptions and WatchEvent: the extension
//! `x-kubernetes-group-version-kind` of their schemas lists them, also those that the server does not serve.
//!
//! # Notation of `schema/registered.txt`
//!
//! ```text
//! apps v1beta1                     a group and a version; `-` is the core group
//! autoscaling v2beta1 until=1.35   of these versions of Kubernetes; `since=` likewise
//! ```

use super::GroupVersion;
use crate::kind;
use crate::version::{Minor, Versions};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const FILE: &str = include_str!("../../schema/registered.txt");

/// Extension that lists the kinds with a schema.
pub(super) const KINDS: &str = "x-kubernetes-group-version-kind";

/// The kinds that are registered in every group.
const KINDS_OF_ALL_GROUPS: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// A kind that every group has, as the extension lists it in a version of Kubernetes: by group and version.
pub(super) fn in_all_groups(minor: Minor, kind: &str) -> Value {
    let served = kind::every_of(minor).map(|row| (row.group, row.version));
    let all: BTreeSet<(&str, &str)> = registered(minor).chain(served).collect();
    let each = |(group, version)| json!({"group": group, "version": version, "kind": kind});
    all.into_iter().map(each).collect()
}

/// Reduces the extension of these kinds to the group and version of a v3 document and the core group, as Kubernetes does since 1.36.
pub(super) fn scope(minor: Minor, gv: &GroupVersion, schemas: &mut Map<String, Value>) {
    if minor < Minor::V36 {
        return;
    }
    let is_kept = |entry: &Value| {
        let (group, version) = (&entry["group"], &entry["version"]);
        (group == "" && version == "v1") || (group == gv.group.as_str() && version == gv.version.as_str())
    };
    for schema in schemas.values_mut() {
        if let Some(Value::Array(kinds)) = schema.get_mut(KINDS)
            && kinds.first().is_some_and(|kind| KINDS_OF_ALL_GROUPS.iter().any(|name| kind["kind"] == *name))
        {
            kinds.retain(is_kept);
        }
    }
}

/// Groups and versions of the table in a version of Kubernetes. A malformed table is a bug of this crate and panics; a test reads it all.
fn registered(minor: Minor) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = FILE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(move |line| {
        let mut words = line.split(' ');
        let (group, version) = (words.next()?, words.next().expect("a line has a version"));
        let versions = Versions::marked(words).unwrap_or_else(|| panic!("wrong versions: {line}"));
        versions.has(minor).then_some((if group == "-" { "" } else { group }, version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(minor: Minor) -> Vec<String> {
        let listed = in_all_groups(minor, "DeleteOptions");
        let name =
            |gvk: &Value| format!("{}/{}", gvk["group"].as_str().unwrap(), gvk["version"].as_str().unwrap());
        listed.as_array().unwrap().iter().map(name).collect()
    }

    #[test]
    fn delete_options_are_listed_in_the_registered_groups_of_the_version() {
        for (minor, count) in [(Minor::V33, 62), (Minor::V34, 62), (Minor::V35, 62), (Minor::V36, 60)] {
            assert_eq!(names(minor).len(), count, "{minor}");
        }
        let has = |minor, name: &str| names(minor).iter().any(|listed| listed == name);
        assert!(has(Minor::V36, "admission.k8s.io/v1") && has(Minor::V36, "extensions/v1beta1"));
        assert!(has(Minor::V35, "autoscaling/v2beta1") && !has(Minor::V36, "autoscaling/v2beta1"));
        assert!(
            has(Minor::V37, "storagemigration.k8s.io/v1") && !has(Minor::V36, "storagemigration.k8s.io/v1")
        );
    }

    #[test]
    fn v3_documents_list_the_kinds_of_all_groups_for_their_own_group_since_1_36() {
        let document = |minor| {
            let mut schemas = Map::new();
            schemas.insert("options".to_owned(), json!({KINDS: in_all_groups(minor, "DeleteOptions")}));
            let gv = GroupVersion { group: "apps".to_owned(), version: "v1".to_owned() };
            scope(minor, &gv, &mut schemas);
            schemas["options"][KINDS].clone()
        };
        assert_eq!(
            document(Minor::V36),
            json!([{"group": "", "version": "v1", "kind": "DeleteOptions"},
                {"group": "apps", "version": "v1", "kind": "DeleteOptions"}])
        );
        assert_eq!(document(Minor::V35).as_array().unwrap().len(), 62);
    }
}
