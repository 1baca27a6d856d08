//! ControllerRevisions: the template history of a StatefulSet or DaemonSet, which `kubectl rollout` shows and
//! restores. This module finds the newest revision, obsolete revisions, and handles name collisions. Pure.
//!
//! A revision contains a strategic merge patch that restores its template: only `spec.template`, with
//! `$patch: replace`. A template that existed before is found by its content and gets a new number; its name
//! never changes.
//!
//! Follows `NewControllerRevision` and `EqualRevision`.

mod cache;
#[cfg(test)]
mod tests;

use crate::action::{Action, Propagation, Target};
use crate::claim::{ControlledObject, controller_of, controller_ref};
use crate::object::Object;
use crate::selector;
use crate::template::{encoded, pruned_value};
pub(crate) use cache::{ControllerRevisions, owner_of};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kstore_api::json::value_of;
use kstore_api::lenient;
use kstore_client::Obj;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Pod label with the revision: its name (StatefulSet) or its hash (DaemonSet).
pub(crate) const POD_LABEL: &str = "controller-revision-hash";

/// Largest length of the owner's name in a revision name, as upstream, so that the name with the hash is
/// valid.
const NAME_PREFIX: usize = 223;

/// Default number of kept revisions beside those in use.
const DEFAULT_LIMIT: i32 = 10;

/// Owner of revisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    /// Kind, in the group apps/v1.
    pub kind: &'static str,
    /// Metadata of the owner.
    pub metadata: &'a ObjectMeta,
    /// Selector for adopting revisions.
    pub selector: &'a LabelSelector,
    /// Pod template.
    pub template: &'a PodTemplateSpec,
    /// `status.collisionCount`.
    pub collisions: Option<i32>,
    /// `spec.revisionHistoryLimit`.
    pub limit: Option<i32>,
    /// Label of a revision with its hash.
    pub label: &'static str,
}

/// The revision of the owner's template.
#[derive(Debug, PartialEq)]
pub(crate) enum NewestRevision<'a> {
    /// This revision, and its number is the highest.
    Is(&'a ControllerRevision),
    /// This write is needed first: it creates a revision, or gives an earlier one the highest number.
    After(Box<Action>),
}

/// Kind of name collision of a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevisionCollision {
    /// Temporary: the holder is the wanted revision, not yet visible or not yet adopted, or is about to be
    /// deleted.
    Temporary,
    /// Permanent: another revision has the name, so the collision count must change.
    Permanent,
}

/// The patch that restores `template`, byte for byte as Kubernetes' controllers write it, because clients
/// compare it.
pub(crate) fn data(template: &PodTemplateSpec) -> Value {
    let mut template = value_of(template).expect("a pod template serializes");
    add_structs_without_omission(&mut template);
    template["$patch"] = "replace".into();
    json!({ "spec": { "template": template } })
}

/// Adds the empty objects that Go writes for struct fields without `omitempty`.
fn add_structs_without_omission(template: &mut Value) {
    fn add<'v>(object: &'v mut Value, member: &str) -> &'v mut Value {
        let members = object.as_object_mut().expect("these members are objects");
        members.entry(member).or_insert_with(|| json!({}))
    }
    fn each<'v>(object: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
        object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
    }
    add(template, "metadata");
    let spec = add(template, "spec");
    for list in ["containers", "initContainers"] {
        each(spec, list).for_each(|container| _ = add(container, "resources"));
    }
    for volume in each(spec, "volumes") {
        if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate") {
            add(claim, "metadata");
            add(add(claim, "spec"), "resources");
        }
    }
}

/// The template of a revision; `None` if its data has another form.
pub(crate) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    lenient::from_value(&template).ok()
}

/// Hash of a revision's data and the collision count: FNV-1, as upstream. Two revisions may share it; their
/// names then collide.
fn hash(data: &Value, collisions: i32) -> String {
    let bytes = data.to_string().into_bytes().into_iter().chain(collisions.to_string().into_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |h, b| h.wrapping_mul(0x0100_0193) ^ u32::from(b));
    encoded(hash)
}

/// A new revision of the owner's template.
fn create(owner: Owner<'_>, number: i64) -> ControllerRevision {
    let data = data(owner.template);
    let hash = hash(&data, owner.collisions.unwrap_or(0));
    let mut labels = owner.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    labels.insert(owner.label.into(), hash.clone());
    let name = owner.metadata.name.as_deref().unwrap_or_default();
    let prefix = name.get(..NAME_PREFIX).unwrap_or(name);
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}-{hash}")),
            namespace: owner.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: owner.metadata.annotations.clone(),
            owner_references: Some(vec![controller_ref("apps/v1", owner.kind, owner.metadata)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// Sort key of revisions, oldest first: by number, age, then name.
fn order(revision: &ControllerRevision) -> impl Ord + use<'_> {
    let created = revision.metadata.creation_timestamp.as_ref().map(|t| t.0);
    (revision.revision, created, revision.metadata.name.as_deref())
}

fn has_template(revision: &ControllerRevision, wanted: &Value) -> bool {
    revision.data.as_ref().is_some_and(|data| pruned_value(data.0.clone()) == *wanted)
}

/// The revisions with the owner's template, oldest first. Adopted or copied revisions can lead to several.
pub(crate) fn equal<'a>(
    owner: Owner<'_>,
    revisions: &[&'a ControllerRevision],
) -> Vec<&'a ControllerRevision> {
    let wanted = pruned_value(data(owner.template));
    let mut equal: Vec<_> = revisions.iter().copied().filter(|r| has_template(r, &wanted)).collect();
    equal.sort_by(|a, b| order(a).cmp(&order(b)));
    equal
}

/// Finds the revision of the owner's template. Of several equal ones, the last counts. Its number must be
/// higher than those of other templates, so a restored template gets a new number.
pub(crate) fn newest<'a>(owner: Owner<'_>, revisions: &[&'a ControllerRevision]) -> NewestRevision<'a> {
    let equal = equal(owner, revisions);
    let is_other = |r: &&&ControllerRevision| !equal.iter().any(|e| e.metadata.name == r.metadata.name);
    let highest = revisions.iter().filter(is_other).map(|r| r.revision).max().unwrap_or(0);
    match equal.last() {
        Some(found) if found.revision > highest => NewestRevision::Is(found),
        Some(found) => {
            let renumbered = ControllerRevision { revision: highest + 1, ..(*found).clone() };
            NewestRevision::After(Box::new(Action::Update(Object::of(&renumbered))))
        }
        None => NewestRevision::After(Box::new(Action::Create(Object::of(&create(owner, highest + 1))))),
    }
}

/// Deletes the oldest of the `old` revisions beyond the owner's limit. Revisions in use stay.
pub(crate) fn surplus(
    owner: Owner<'_>,
    old: &[&ControllerRevision],
    is_live: impl Fn(&ControllerRevision) -> bool,
) -> Vec<Action> {
    let limit = usize::try_from(owner.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(0);
    let excess = old.len().saturating_sub(limit);
    let mut unused: Vec<_> = old.iter().copied().filter(|r| !is_live(r)).collect();
    unused.sort_by(|a, b| order(a).cmp(&order(b)));
    unused.into_iter().take(excess).map(remove).collect()
}

/// Deletes a revision, if its uid is unchanged.
pub(crate) fn remove(revision: &ControllerRevision) -> Action {
    let target = Target { resource_version: None, ..revision.at_version() };
    Action::Delete { target, propagation: Propagation::Default, force: false }
}

/// Classifies a collision with the `holder` of the name of a new revision.
pub(crate) fn clash(owner: Owner<'_>, holder: &ControllerRevision) -> RevisionCollision {
    let is_same = has_template(holder, &pruned_value(data(owner.template)));
    let is_reachable = match controller_of(holder.owners()) {
        // An earlier owner of the same name is gone, and its revisions will be collected.
        Some(reference) => {
            reference.kind == owner.kind && Some(&reference.name) == owner.metadata.name.as_ref()
        }
        None => selector::matches(owner.selector, holder.labels()),
    };
    if holder.deleting() || is_same && is_reachable {
        RevisionCollision::Temporary
    } else {
        RevisionCollision::Permanent
    }
}

/// The revision names in the labels of pods.
pub(crate) fn labels_of<'a>(
    pods: impl IntoIterator<Item = &'a BTreeMap<String, String>>,
) -> BTreeSet<&'a str> {
    pods.into_iter().filter_map(|labels| labels.get(POD_LABEL)).map(String::as_str).collect()
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

impl ControlledObject for ControllerRevision {
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

impl ControlledObject for Obj<ControllerRevision> {
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
