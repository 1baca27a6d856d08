//! Garbage collection of one object of the graph. Pure.
//!
//! An owner is *solid* if it exists, in a scope where it may own the object, and does not wait for its own
//! dependents; *waiting* if it does wait; *dangling* if it does not exist. An object with a solid owner
//! stays, and loses its other references. Without a solid owner it is deleted: in the foreground if an owner
//! waits and it has dependents itself, otherwise as its own finalizers say. An owner that the graph does not
//! know counts as dangling only after a read has confirmed it. Objects and owners are addressed as `kinds`
//! says now: the version of a custom kind may change while its objects stay.

use super::graph::{FOREGROUND, Graph, Node, ORPHAN, Uid, WorkItem};
use crate::action::{Action, PatchKind, Propagation, Target};
use crate::resource::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kstore_informer::Reference;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Addressing of a kind that an owner reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerKind {
    /// Resource of the kind in the API.
    pub resource: Resource,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
}

/// Kinds by group and kind.
pub(crate) type Kinds = BTreeMap<(String, String), OwnerKind>;

/// The key of a kind in [`Kinds`].
pub(crate) fn kind_key(group: &str, kind: &str) -> (String, String) {
    (group.to_owned(), kind.to_owned())
}

/// The group of an `apiVersion`.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Result of a read of an owner that the graph does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The object does not exist with that uid.
    Absent,
    /// The object exists.
    Present,
}

/// A read of an owner that the graph does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRead {
    /// Kind of the owner.
    pub resource: Resource,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the owner.
    pub name: String,
    /// Uid that the owner must have.
    pub uid: String,
}

/// Decision about an object.
#[derive(Debug, PartialEq)]
pub(crate) enum CollectDecision {
    /// Read these owners first, then decide again.
    Ask(Vec<OwnerRead>),
    /// Execute these writes, and process these work items.
    Act(Vec<Action>, Vec<WorkItem>),
}

const KEEP: CollectDecision = CollectDecision::Act(vec![], vec![]);

#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    Solid,
    Waiting,
    Dangling,
}

/// Decides about the object `uid`.
pub(crate) fn collect(
    graph: &Graph,
    kinds: &Kinds,
    answers: &BTreeMap<String, Presence>,
    uid: &Uid,
) -> CollectDecision {
    let Some(item) = graph.get(uid) else { return KEEP };
    let Some(address) = Address::of(kinds, uid, item) else { return KEEP };
    if item.waits_for_dependents() {
        return foreground(graph, &address);
    }
    if item.deleting || item.owners.is_empty() {
        return KEEP;
    }
    let mut questions = vec![];
    let mut notices = vec![];
    let mut states = vec![];
    for owner in &item.owners {
        match resolve(graph, kinds, answers, item, owner) {
            ResolvedOwners::Is(state) => states.push(state),
            ResolvedOwners::Misplaced(state) => {
                states.push(state);
                notices.push(address.misplaced(owner));
            }
            ResolvedOwners::Ask(question) => questions.push(question),
        }
    }
    if !questions.is_empty() {
        return CollectDecision::Ask(questions);
    }
    let mut actions = notices;
    actions.extend(evaluate(graph, &address, &states));
    CollectDecision::Act(actions, vec![])
}

fn evaluate(graph: &Graph, address: &Address<'_>, states: &[OwnerState]) -> Vec<Action> {
    let Address { uid, item, .. } = *address;
    let some = |state| states.contains(&state);
    if some(OwnerState::Solid) {
        if !some(OwnerState::Waiting) && !some(OwnerState::Dangling) {
            return vec![];
        }
        let stay =
            item.owners.iter().zip(states).filter(|(_, s)| **s == OwnerState::Solid).map(|(o, _)| o.clone());
        return vec![address.set_owners(&stay.collect::<Vec<_>>())];
    }
    if some(OwnerState::Waiting) && graph.has_dependents(uid) {
        // Breaks a cycle of objects that wait for one another.
        if graph.dependents(uid).any(|(_, d)| d.waits_for_dependents()) {
            let mut open = item.owners.clone();
            open.iter_mut().for_each(|o| o.block_owner_deletion = Some(false));
            if open != item.owners {
                return vec![address.set_owners(&open)];
            }
        }
        return vec![address.delete(Propagation::Foreground)];
    }
    let propagation = if item.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if item.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    vec![address.delete(propagation)]
}

/// Foreground deletion: complete when no dependent blocks; until then processes the dependents.
fn foreground(graph: &Graph, address: &Address<'_>) -> CollectDecision {
    let uid = address.uid;
    let blocks =
        |node: &Node| node.owners.iter().any(|o| *o.uid == **uid && o.block_owner_deletion == Some(true));
    let blocking: Vec<_> = graph.dependents(uid).filter(|(_, d)| blocks(d)).collect();
    if blocking.is_empty() {
        return CollectDecision::Act(vec![address.drop_finalizer(FOREGROUND)], vec![]);
    }
    let work =
        blocking.into_iter().filter(|(_, d)| !d.deleting).map(|(uid, _)| WorkItem::Collect(Arc::clone(uid)));
    CollectDecision::Act(vec![], work.collect())
}

/// One step of an orphaning deletion: removes the references of all dependents to `uid`, or its orphan
/// finalizer if no dependent is left.
///
/// The two are never planned together. The graph shows a dependent without its reference only after that
/// write is stored, so a patch that fails keeps the finalizer; the change of the last dependent asks for the
/// next step.
///
/// The finalizer also stays while a dependent is of a kind that cannot be addressed now.
pub(crate) fn orphan(graph: &Graph, kinds: &Kinds, uid: &Uid) -> Vec<Action> {
    let item = graph.get(uid).filter(|n| n.orphans_dependents());
    let Some(address) = item.and_then(|item| Address::of(kinds, uid, item)) else { return vec![] };
    if !graph.has_dependents(uid) {
        return vec![address.drop_finalizer(ORPHAN)];
    }
    let free = |(dependent, node): (&Uid, &Arc<Node>)| {
        let stay: Vec<_> = node.owners.iter().filter(|o| *o.uid != **uid).cloned().collect();
        Some(Address::of(kinds, dependent, node)?.set_owners(&stay))
    };
    graph.dependents(uid).filter_map(free).collect()
}

enum ResolvedOwners {
    Is(OwnerState),
    /// The reference names an object in a scope where it must not be.
    Misplaced(OwnerState),
    Ask(OwnerRead),
}

fn resolve(
    graph: &Graph,
    kinds: &Kinds,
    answers: &BTreeMap<String, Presence>,
    item: &Node,
    owner: &OwnerReference,
) -> ResolvedOwners {
    let group = group_of(&owner.api_version);
    let Some(kind) = kinds.get(&kind_key(group, &owner.kind)) else {
        // The existence of an object of a never served kind is unknown: the dependent stays.
        return ResolvedOwners::Is(OwnerState::Solid);
    };
    if item.namespace.is_empty() && kind.namespaced {
        return ResolvedOwners::Misplaced(OwnerState::Solid);
    }
    if let Some(node) = graph.get(&owner.uid) {
        if kind.namespaced && node.namespace != item.namespace {
            return ResolvedOwners::Misplaced(OwnerState::Dangling);
        }
        let is_it = node.is_of(&owner.api_version, &owner.kind) && node.name == owner.name;
        return ResolvedOwners::Is(match (is_it, node.waits_for_dependents()) {
            (true, false) => OwnerState::Solid,
            (true, true) => OwnerState::Waiting,
            (false, _) => OwnerState::Dangling,
        });
    }
    match answers.get(&owner.uid) {
        Some(Presence::Absent) => ResolvedOwners::Is(OwnerState::Dangling),
        Some(Presence::Present) => ResolvedOwners::Is(OwnerState::Solid),
        None => ResolvedOwners::Ask(OwnerRead {
            resource: kind.resource.clone(),
            namespace: if kind.namespaced { item.namespace.clone() } else { String::new() },
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }),
    }
}

/// An object with its resource.
struct Address<'a> {
    uid: &'a Uid,
    item: &'a Node,
    resource: &'a Resource,
}

impl<'a> Address<'a> {
    /// The address of an object; `None` if its kind is not served.
    fn of(kinds: &'a Kinds, uid: &'a Uid, item: &'a Node) -> Option<Self> {
        let kind = kinds.get(&kind_key(&item.group, &item.kind))?;
        Some(Self { uid, item, resource: &kind.resource })
    }

    fn target(&self) -> Target {
        Target {
            resource: self.resource.clone(),
            namespace: self.item.namespace.clone(),
            name: self.item.name.clone(),
            uid: self.uid.to_string(),
            resource_version: Some(self.item.resource_version.clone()),
        }
    }

    fn delete(&self, propagation: Propagation) -> Action {
        Action::Delete { target: self.target(), propagation, force: false }
    }

    fn set_owners(&self, owners: &[OwnerReference]) -> Action {
        self.patch(json!({"ownerReferences": owners}))
    }

    fn drop_finalizer(&self, name: &str) -> Action {
        let rest: Vec<_> = self.item.finalizers.iter().filter(|f| *f != name).collect();
        self.patch(json!({"finalizers": rest}))
    }

    fn patch(&self, mut metadata: serde_json::Value) -> Action {
        metadata["uid"] = json!(&**self.uid);
        metadata["resourceVersion"] = json!(self.item.resource_version);
        let patch = json!({"metadata": metadata});
        Action::Patch { target: self.target(), status: false, kind: PatchKind::Merge, patch }
    }

    /// The event about an owner reference to an invalid scope.
    fn misplaced(&self, owner: &OwnerReference) -> Action {
        let Resource { group, version, .. } = self.resource;
        let about = Reference {
            api_version: if group.is_empty() { version.to_string() } else { format!("{group}/{version}") },
            kind: self.item.kind.to_string(),
            namespace: self.item.namespace.clone(),
            name: self.item.name.clone(),
            uid: self.uid.to_string(),
            ..Reference::default()
        };
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let namespace = &self.item.namespace;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
        );
        Action::warning(about, "OwnerRefInvalidNamespace", message)
    }
}
