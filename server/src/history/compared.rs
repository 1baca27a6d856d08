//! [`ClusterDiff`]: what differs between two states of the cluster, by kind and object. Pure.

use super::change::{Change, changes, mask};
use serde::Serialize;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What differs between two states of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterDiff {
    /// Numbers of objects by kind, for kinds with differences.
    pub kinds: Vec<KindDiff>,
    /// The objects that differ, by kind, namespace and name.
    pub objects: Vec<ObjectDiff>,
    /// Kinds that the user may not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_kinds: Vec<String>,
    /// Numbers of objects that differ, by kinds that change all the time and are not compared further.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub heartbeats: BTreeMap<String, usize>,
}

/// Numbers of objects of one kind that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KindDiff {
    /// Plural, followed by the group if there is one.
    pub resource: String,
    pub added: usize,
    pub changed: usize,
    pub removed: usize,
    /// Those of `changed` of which only the status differs.
    pub status_only: usize,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DiffEffect {
    Added,
    Changed,
    Removed,
}

/// An object that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectDiff {
    /// Plural, followed by the group if there is one.
    pub resource: String,
    /// Empty for kinds without namespaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub effect: DiffEffect,
    /// Kind and name of the controller that owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What changed; of an added object what says most about it.
    pub changes: Vec<Change>,
}

impl ObjectDiff {
    /// Whether nothing but the status differs.
    pub(super) fn is_status_only(&self) -> bool {
        self.effect == DiffEffect::Changed
            && self.changes.iter().all(|change| change.is_at("status") && !change.path.is_empty())
    }

    /// The kind of the owner, if it has one.
    pub(super) fn owner_kind(&self) -> Option<&str> {
        self.owner.as_deref()?.split_once('/').map(|(kind, _)| kind)
    }
}

/// How states are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    /// Whether members count that every write changes.
    pub all_fields: bool,
    /// Whether values are hidden: those of Secrets.
    pub hides_values: bool,
    /// Whether a difference of the status alone does not count.
    pub ignores_status: bool,
}

impl ClusterDiff {
    /// Whether nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds the objects of a kind that differ, and their numbers.
    pub(super) fn add(&mut self, resource: &str, objects: Vec<ObjectDiff>) {
        let count = |effect| objects.iter().filter(|object| object.effect == effect).count();
        if !objects.is_empty() {
            self.kinds.push(KindDiff {
                resource: resource.to_owned(),
                added: count(DiffEffect::Added),
                changed: count(DiffEffect::Changed),
                removed: count(DiffEffect::Removed),
                status_only: objects.iter().filter(|object| object.is_status_only()).count(),
            });
        }
        self.objects.extend(objects);
    }
}

/// Compares two objects of one name, of which one may be missing; `None` if nothing differs.
pub(super) fn compared(
    resource: &str,
    old: Option<&Value>,
    new: Option<&Value>,
    comparison: Comparison,
) -> Option<ObjectDiff> {
    let (effect, mut found) = match (old, new) {
        (None, Some(new)) => (DiffEffect::Added, super::created(new)),
        (Some(_), None) => (DiffEffect::Removed, Vec::new()),
        (Some(old), Some(new)) if version(old) == version(new) => return None,
        (Some(old), Some(new)) => (DiffEffect::Changed, changes(old, new, comparison.all_fields)),
        (None, None) => return None,
    };
    // Of Secrets: an added one shows no value anyway.
    if comparison.hides_values {
        mask(&mut found);
    }
    let metadata = &old.or(new)?["metadata"];
    let text = |member: &str| metadata[member].as_str().unwrap_or_default().to_owned();
    let owner = new.or(old).and_then(controller);
    let diff = ObjectDiff {
        resource: resource.to_owned(),
        namespace: text("namespace"),
        name: text("name"),
        effect,
        owner,
        changes: found,
    };
    let is_equal = diff.effect == DiffEffect::Changed && diff.changes.is_empty();
    let is_ignored = comparison.ignores_status && diff.is_status_only();
    (!is_equal && !is_ignored).then_some(diff)
}

fn version(object: &Value) -> (&Value, &Value) {
    (&object["metadata"]["uid"], &object["metadata"]["resourceVersion"])
}

/// Kind and name of the controller that owns an object.
fn controller(object: &Value) -> Option<String> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    let owner = references.iter().find(|reference| reference["controller"] == true)?;
    Some(format!("{}/{}", owner["kind"].as_str()?, owner["name"].as_str()?))
}

/// The order of objects in lists: that of their keys in the storage.
pub(super) fn order(one: &Value, other: &Value) -> Ordering {
    let key = |object: &Value| {
        let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    key(one).cmp(&key(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, version: &str, spec: i64, status: i64) -> Value {
        json!({"metadata": {"name": name, "namespace": "ns", "uid": "u", "resourceVersion": version,
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}]},
            "spec": {"replicas": spec}, "status": {"ready": status}})
    }

    fn diff(old: Option<&Value>, new: Option<&Value>) -> Option<ObjectDiff> {
        compared("pods", old, new, Comparison::default())
    }

    #[test]
    fn objects_are_added_changed_removed_or_equal() {
        let (old, new) = (object("a", "1", 1, 1), object("a", "2", 2, 1));
        let changed = diff(Some(&old), Some(&new)).unwrap();
        assert_eq!((changed.effect, &*changed.changes[0].path), (DiffEffect::Changed, "spec.replicas"));
        assert_eq!((&*changed.namespace, changed.owner.as_deref()), ("ns", Some("ReplicaSet/web")));
        assert_eq!(diff(None, Some(&new)).unwrap().effect, DiffEffect::Added);
        assert_eq!(diff(Some(&new), None).unwrap().effect, DiffEffect::Removed);
        assert_eq!(diff(Some(&old), Some(&old)), None);
        assert_eq!(diff(Some(&old), Some(&object("a", "9", 1, 1))), None, "nothing but the version differs");
        assert_eq!(diff(None, None), None);
    }

    #[test]
    fn a_difference_of_the_status_alone_can_be_ignored() {
        let (old, new) = (object("a", "1", 1, 1), object("a", "2", 1, 2));
        assert!(diff(Some(&old), Some(&new)).unwrap().is_status_only());
        let comparison = Comparison { ignores_status: true, ..Comparison::default() };
        assert_eq!(compared("pods", Some(&old), Some(&new), comparison), None);
        let both = object("a", "2", 2, 2);
        assert!(!compared("pods", Some(&old), Some(&both), comparison).unwrap().is_status_only());
    }

    #[test]
    fn kinds_count_their_objects() {
        let (old, status, spec) = (object("a", "1", 1, 1), object("a", "2", 1, 2), object("a", "3", 2, 2));
        let mut all = ClusterDiff::default();
        let found = [diff(Some(&old), Some(&status)), diff(Some(&old), Some(&spec)), diff(None, Some(&spec))];
        all.add("pods", found.into_iter().flatten().collect());
        all.add("nodes", Vec::new());
        let expected =
            KindDiff { resource: "pods".to_owned(), added: 1, changed: 2, removed: 0, status_only: 1 };
        assert_eq!((all.kinds, all.objects.len()), (vec![expected], 3));
    }
}
