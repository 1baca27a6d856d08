//! Ownership graph of all objects, by uid. Pure: events go in, work items come out. `plan` decides what a
//! work item leads to.

use super::plan::group_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kstore_informer::Key;
use kstore_nondet::HashMap;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Finalizer of an object that waits for the deletion of its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents must be orphaned.
pub(crate) const ORPHAN: &str = "orphan";

const COLLECT: &str = "collect";

/// Uid of an object.
pub(crate) type Uid = Arc<str>;

/// Ownership data of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// API group of the kind. Without the version: an object is the same in all versions.
    pub group: Cow<'static, str>,
    /// Kind as in owner references.
    pub kind: Cow<'static, str>,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The newest version seen.
    pub resource_version: String,
    /// Owner references of the object.
    pub owners: Vec<OwnerReference>,
    /// Finalizers of the object.
    pub finalizers: Vec<String>,
    /// Whether the object has a deletion timestamp.
    pub deleting: bool,
}

impl Node {
    /// Whether the object has this kind, in any version.
    pub(crate) fn is_of(&self, api_version: &str, kind: &str) -> bool {
        self.group == group_of(api_version) && self.kind == kind
    }

    /// Whether the object is being deleted in the foreground and waits for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(FOREGROUND)
    }

    /// Whether the object is being deleted and its dependents must be orphaned first.
    pub(crate) fn orphans_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(ORPHAN)
    }

    /// Whether the object has this finalizer.
    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|f| f == name)
    }
}

/// A work item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkItem {
    /// The object may have lost its last owner, or may wait for dependents that are gone.
    Collect(Uid),
    /// The dependents of the object must be orphaned.
    Orphan(Uid),
}

impl WorkItem {
    /// The queue key of the work item.
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Collect(uid) => Key::new(COLLECT, uid),
            Self::Orphan(uid) => Key::new(ORPHAN, uid),
        }
    }

    /// The work item of a queue key.
    pub(crate) fn of(key: &Key) -> Option<Self> {
        match key.namespace() {
            COLLECT => Some(Self::Collect(key.name().into())),
            ORPHAN => Some(Self::Orphan(key.name().into())),
            _ => None,
        }
    }
}

/// All objects and their ownership.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: HashMap<Uid, Arc<Node>>,
    /// Dependents by owner, including unknown owners.
    dependents: HashMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    /// An object by its uid.
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid).map(|node| &**node)
    }

    /// The objects that reference `uid` as an owner, by uid.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Uid, &Arc<Node>)> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|d| self.nodes.get_key_value(d))
    }

    /// Whether an object references `uid` as an owner.
    pub(crate) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// The uids of all objects.
    #[cfg(test)]
    pub(crate) fn uids(&self) -> BTreeSet<Uid> {
        self.nodes.keys().cloned().collect()
    }

    /// All work items of the complete initial state.
    pub(crate) fn review(&self) -> BTreeSet<WorkItem> {
        self.nodes.iter().flat_map(|(uid, node)| self.concerns(uid, node)).collect()
    }

    /// Work items of objects of this kind, and of objects with owners of this kind, after the kind became
    /// known.
    pub(crate) fn review_kind(&self, group: &str, kind: &str) -> BTreeSet<WorkItem> {
        let owned = |owner: &OwnerReference| group_of(&owner.api_version) == group && owner.kind == kind;
        let concerned =
            |node: &Node| node.group == group && node.kind == kind || node.owners.iter().any(owned);
        let nodes = self.nodes.iter().filter(|(_, node)| concerned(node));
        nodes.flat_map(|(uid, node)| self.concerns(uid, node)).collect()
    }

    /// Adds or updates an object. A [`Uid`] is shared, any other text is copied.
    pub(crate) fn put(&mut self, uid: impl AsRef<str> + Into<Uid>, node: Arc<Node>) -> Vec<WorkItem> {
        let Some((uid, old)) = self.nodes.get_key_value(uid.as_ref()).map(|(u, n)| (Arc::clone(u), n)) else {
            let uid: Uid = uid.into();
            self.link(&uid, &node.owners);
            let mut work = self.concerns(&uid, &node);
            work.extend(self.orphaning(&[], &node.owners));
            self.nodes.insert(uid, node);
            return work;
        };
        let same =
            old.owners == node.owners && old.finalizers == node.finalizers && old.deleting == node.deleting;
        if same {
            self.nodes.insert(uid, node);
            return vec![];
        }
        let old_owners = old.owners.clone();
        let mut work = self.released(&old_owners, &node.owners);
        if old_owners != node.owners {
            self.unlink(&uid, &old_owners);
            self.link(&uid, &node.owners);
            work.extend(self.orphaning(&old_owners, &node.owners));
        }
        work.extend(self.concerns(&uid, &node));
        self.nodes.insert(uid, node);
        work
    }

    /// Removes an object.
    pub(crate) fn gone(&mut self, uid: &str) -> Vec<WorkItem> {
        let Some(node) = self.nodes.remove(uid) else { return vec![] };
        self.unlink(uid, &node.owners);
        let orphans = self.dependents.get(uid).into_iter().flatten().cloned();
        let mut work: Vec<WorkItem> = orphans.map(WorkItem::Collect).collect();
        work.extend(self.released(&node.owners, &[]));
        work.extend(self.orphaning(&node.owners, &[]));
        work
    }

    /// Work items of an object in its current state.
    fn concerns(&self, uid: &Uid, node: &Node) -> Vec<WorkItem> {
        let mut work = vec![];
        if node.orphans_dependents() {
            work.push(WorkItem::Orphan(Arc::clone(uid)));
        }
        if node.waits_for_dependents() {
            work.extend(self.dependents.get(uid).into_iter().flatten().cloned().map(WorkItem::Collect));
            work.push(WorkItem::Collect(Arc::clone(uid)));
        } else if !node.deleting && node.owners.iter().any(|o| self.is_in_doubt(o, &node.namespace)) {
            work.push(WorkItem::Collect(Arc::clone(uid)));
        }
        work
    }

    /// Whether an owner may be missing, misplaced, or being deleted.
    fn is_in_doubt(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.nodes.get(owner.uid.as_str()).is_none_or(|n| {
            let in_reach = n.namespace.is_empty() || n.namespace == namespace;
            n.waits_for_dependents()
                || !in_reach
                || !n.is_of(&owner.api_version, &owner.kind)
                || n.name != owner.name
        })
    }

    /// Owners that wait for their dependents and are no longer blocked after this change of references.
    fn released(&self, before: &[OwnerReference], after: &[OwnerReference]) -> Vec<WorkItem> {
        let blocks = |o: &OwnerReference| o.block_owner_deletion == Some(true);
        let freed = before.iter().filter(|b| match after.iter().find(|a| a.uid == b.uid) {
            None => true,
            Some(a) => blocks(b) && !blocks(a),
        });
        freed
            .filter_map(|o| self.nodes.get_key_value(o.uid.as_str()))
            .filter(|(_, owner)| owner.waits_for_dependents())
            .map(|(uid, _)| WorkItem::Collect(Arc::clone(uid)))
            .collect()
    }

    /// Owners with the orphan finalizer that gained a dependent by this change, or lost their last one. The
    /// former have another reference to remove; the latter may lose their finalizer.
    fn orphaning(&self, before: &[OwnerReference], after: &[OwnerReference]) -> Vec<WorkItem> {
        let names = |owners: &[OwnerReference], uid: &str| owners.iter().any(|o| o.uid == uid);
        let gained = after.iter().filter(|o| !names(before, &o.uid));
        let lost = before.iter().filter(|o| !names(after, &o.uid) && !self.has_dependents(&o.uid));
        gained
            .chain(lost)
            .filter_map(|o| self.nodes.get_key_value(o.uid.as_str()))
            .filter(|(_, owner)| owner.orphans_dependents())
            .map(|(uid, _)| WorkItem::Orphan(Arc::clone(uid)))
            .collect()
    }

    fn link(&mut self, uid: &Uid, owners: &[OwnerReference]) {
        for owner in owners {
            self.dependents.entry(owner.uid.as_str().into()).or_default().insert(Arc::clone(uid));
        }
    }

    fn unlink(&mut self, uid: &str, owners: &[OwnerReference]) {
        for owner in owners {
            if let Some(set) = self.dependents.get_mut(owner.uid.as_str()) {
                set.remove(uid);
                if set.is_empty() {
                    self.dependents.remove(owner.uid.as_str());
                }
            }
        }
    }
}
