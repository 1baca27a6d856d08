//! Controller references, and the rule by which a controller claims, adopts and releases objects. Pure.

use crate::action::{Action, PatchKind, Target};
use crate::{selector, view};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fields of an object that the claim rule reads.
pub(crate) trait ControlledObject {
    /// Labels of the object.
    fn labels(&self) -> &BTreeMap<String, String>;
    /// Owner references of the object.
    fn owners(&self) -> &[OwnerReference];
    /// Whether the object has a deletion timestamp.
    fn deleting(&self) -> bool;
    /// Reference to the object with its uid and resourceVersion.
    fn at_version(&self) -> Target;
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

impl ControlledObject for view::Pod {
    fn labels(&self) -> &BTreeMap<String, String> {
        &self.metadata.labels
    }
    fn owners(&self) -> &[OwnerReference] {
        &self.metadata.owner_references
    }
    fn deleting(&self) -> bool {
        self.metadata.is_deleting()
    }
    fn at_version(&self) -> Target {
        let version = self.metadata.resource_version.clone();
        Target { resource_version: Some(version), ..view::Pod::target(self) }
    }
}

impl ControlledObject for ReplicaSet {
    fn labels(&self) -> &BTreeMap<String, String> {
        self.metadata.labels.as_ref().unwrap_or(&NO_LABELS)
    }
    fn owners(&self) -> &[OwnerReference] {
        self.metadata.owner_references.as_deref().unwrap_or_default()
    }
    fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
    fn at_version(&self) -> Target {
        Target::of(self)
    }
}

impl<T: ControlledObject> ControlledObject for Arc<T> {
    fn labels(&self) -> &BTreeMap<String, String> {
        (**self).labels()
    }
    fn owners(&self) -> &[OwnerReference] {
        (**self).owners()
    }
    fn deleting(&self) -> bool {
        (**self).deleting()
    }
    fn at_version(&self) -> Target {
        (**self).at_version()
    }
}

/// The owner reference of the managing controller, if any.
pub(crate) fn controller_of(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|o| o.controller == Some(true))
}

/// A controller reference to `owner` that blocks the owner's foreground deletion.
pub(crate) fn controller_ref(api_version: &str, kind: &str, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Result of the claim rule.
#[derive(Debug)]
pub(crate) struct Claim<T> {
    /// Objects that the controller owns and whose labels match.
    pub owned: Vec<T>,
    /// Matching objects without a controller, to be adopted after an uncached read confirms the owner.
    pub adopt: Vec<T>,
    /// Owned objects that no longer match.
    pub release: Vec<T>,
}

/// Applies the claim rule to `candidates`. Owned and matching: owned. Owned and not matching: release.
/// Without controller, matching and not being deleted: adopt. A controller that is being deleted adopts and
/// releases nothing. All others are ignored.
pub(crate) fn claim<T: ControlledObject>(
    me: &ObjectMeta,
    wanted: &LabelSelector,
    candidates: impl IntoIterator<Item = T>,
) -> Claim<T> {
    let mut result = Claim { owned: vec![], adopt: vec![], release: vec![] };
    let leaving = me.deletion_timestamp.is_some();
    for candidate in candidates {
        let fits = selector::matches(wanted, candidate.labels());
        match controller_of(candidate.owners()) {
            Some(owner) if Some(&owner.uid) != me.uid.as_ref() => {}
            Some(_) if fits => result.owned.push(candidate),
            Some(_) if !leaving => result.release.push(candidate),
            None if fits && !leaving && !candidate.deleting() => result.adopt.push(candidate),
            Some(_) | None => {}
        }
    }
    result
}

/// The patch that adds `owner` to the owner references, unless the object has changed.
pub(crate) fn adopt(object: &impl ControlledObject, owner: &OwnerReference) -> Action {
    let owners: Vec<_> = object.owners().iter().filter(|o| o.uid != owner.uid).chain([owner]).collect();
    set_owners(object, &json!(owners))
}

/// The patch that removes the owner with `uid`, unless the object has changed.
pub(crate) fn release(object: &impl ControlledObject, uid: &str) -> Action {
    let owners: Vec<_> = object.owners().iter().filter(|o| o.uid != uid).collect();
    set_owners(object, &json!(owners))
}

fn set_owners(object: &impl ControlledObject, owners: &serde_json::Value) -> Action {
    let target = object.at_version();
    let patch = json!({"metadata": {
        "uid": target.uid, "resourceVersion": target.resource_version, "ownerReferences": owners,
    }});
    Action::Patch { target, status: false, kind: PatchKind::Merge, patch }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Pod;
    use serde_json::{Value, from_value};

    fn pod(name: &str, app: &str, metadata: Value) -> Pod {
        let mut pod = json!({ "metadata": { "name": name, "labels": { "app": app } } });
        for (field, value) in metadata.as_object().unwrap() {
            pod["metadata"][field] = value.clone();
        }
        from_value(pod).unwrap()
    }

    fn claimed(me: &Value) -> [Vec<String>; 3] {
        let owned_by = |uid: &str| {
            json!({ "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid, "controller": true }] })
        };
        let ending = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let pods = [
            pod("owned", "web", owned_by("me")),
            pod("relabelled", "other", owned_by("me")),
            pod("free", "web", json!({})),
            pod("ending", "web", ending),
            pod("of-another", "web", owned_by("you")),
            pod("unrelated", "other", json!({})),
        ];
        let selector: LabelSelector = from_value(json!({ "matchLabels": { "app": "web" } })).unwrap();
        let Claim { owned, adopt, release } = claim(&from_value(me.clone()).unwrap(), &selector, pods);
        [owned, adopt, release].map(|pods| pods.into_iter().map(|pod| pod.metadata.name).collect())
    }

    #[test]
    fn a_controller_adopts_free_objects_that_stay_and_releases_relabelled_ones() {
        assert_eq!(claimed(&json!({ "uid": "me" })), [vec!["owned"], vec!["free"], vec!["relabelled"]]);
    }

    #[test]
    fn a_controller_that_is_being_deleted_adopts_and_releases_nothing() {
        let me = json!({ "uid": "me", "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(claimed(&me), [vec!["owned".to_owned()], vec![], vec![]]);
    }
}
