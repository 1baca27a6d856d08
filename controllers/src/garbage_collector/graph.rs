//! Who owns whom, by uid, over all kinds. Pure: events go in, work comes out. What the work means is `plan`'s matter.

use super::plan::group_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kstore_informer::Key;
use kstore_nondet::HashMap;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The finalizer of an object that waits for its dependents to go.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are to stay.
pub(crate) const ORPHAN: &str = "orphan";

const COLLECT: &str = "collect";

/// The identity of an object.
pub(crate) type Uid = Arc<str>;

/// An object, as far as ownership goes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// The group of its kind. Not the version: an object is the same in all versions of its kind.
    pub group: Cow<'static, str>,
    /// Its kind as owner references name it.
    pub kind: Cow<'static, str>,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The newest version seen.
    pub resource_version: String,
    /// Who owns it.
    pub owners: Vec<OwnerReference>,
    /// What must happen before it can go.
    pub finalizers: Vec<String>,
    /// Deletion was asked for.
    pub deleting: bool,
}

impl Node {
    /// Whether this is its kind, in any version.
    pub(crate) fn is_of(&self, api_version: &str, kind: &str) -> bool {
        self.group == group_of(api_version) && self.kind == kind
    }

    /// Being deleted, and waiting for its dependents to go first.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(FOREGROUND)
    }

    /// Being deleted, and its dependents are to be set free first.
    pub(crate) fn orphans_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(ORPHAN)
    }

    /// Carries this finalizer.
    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|f| f == name)
    }
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Work {
    /// It may have lost its last owner, or wait for dependents that are gone.
    Collect(Uid),
    /// Its dependents are to be set free.
    Orphan(Uid),
}

impl Work {
    /// What a queue knows it by.
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Collect(uid) => Key::new(COLLECT, uid),
            Self::Orphan(uid) => Key::new(ORPHAN, uid),
        }
    }

    /// The work that has this key, if any has.
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
    /// By owner, known or not.
    dependents: HashMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    /// An object by its uid.
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid).map(|node| &**node)
    }

    /// The objects that name `uid` as an owner, in order of their uids.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Uid, &Arc<Node>)> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|d| self.nodes.get_key_value(d))
    }

    /// Some object names `uid` as an owner.
    pub(crate) fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }

    /// The uids of all objects.
    #[cfg(test)]
    pub(crate) fn uids(&self) -> BTreeSet<Uid> {
        self.nodes.keys().cloned().collect()
    }

    /// Everything that needs a look; for the moment at which the first state is complete.
    pub(crate) fn review(&self) -> BTreeSet<Work> {
        self.nodes.iter().flat_map(|(uid, node)| self.concerns(uid, node)).collect()
    }

    /// The work that objects of this kind and objects with owners of this kind ask for, once it is known how the kind is addressed.
    pub(crate) fn review_kind(&self, group: &str, kind: &str) -> BTreeSet<Work> {
        let owned = |owner: &OwnerReference| group_of(&owner.api_version) == group && owner.kind == kind;
        let concerned =
            |node: &Node| node.group == group && node.kind == kind || node.owners.iter().any(owned);
        let nodes = self.nodes.iter().filter(|(_, node)| concerned(node));
        nodes.flat_map(|(uid, node)| self.concerns(uid, node)).collect()
    }

    /// An object came or changed.
    pub(crate) fn put(&mut self, uid: &str, node: Arc<Node>) -> Vec<Work> {
        let Some((uid, old)) = self.nodes.get_key_value(uid).map(|(u, n)| (Arc::clone(u), n)) else {
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

    /// An object went.
    pub(crate) fn gone(&mut self, uid: &str) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return vec![] };
        self.unlink(uid, &node.owners);
        let orphans = self.dependents.get(uid).into_iter().flatten().cloned();
        let mut work: Vec<Work> = orphans.map(Work::Collect).collect();
        work.extend(self.released(&node.owners, &[]));
        work.extend(self.orphaning(&node.owners, &[]));
        work
    }

    /// What an object in this state asks for.
    fn concerns(&self, uid: &Uid, node: &Node) -> Vec<Work> {
        let mut work = vec![];
        if node.orphans_dependents() {
            work.push(Work::Orphan(Arc::clone(uid)));
        }
        if node.waits_for_dependents() {
            work.extend(self.dependents.get(uid).into_iter().flatten().cloned().map(Work::Collect));
            work.push(Work::Collect(Arc::clone(uid)));
        } else if !node.deleting && node.owners.iter().any(|o| self.is_in_doubt(o, &node.namespace)) {
            work.push(Work::Collect(Arc::clone(uid)));
        }
        work
    }

    /// Not certainly there, in reach, and meant to stay.
    fn is_in_doubt(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.nodes.get(owner.uid.as_str()).is_none_or(|n| {
            let in_reach = n.namespace.is_empty() || n.namespace == namespace;
            n.waits_for_dependents()
                || !in_reach
                || !n.is_of(&owner.api_version, &owner.kind)
                || n.name != owner.name
        })
    }

    /// Owners that wait for their dependents and are no longer held up by one whose references changed like this.
    fn released(&self, before: &[OwnerReference], after: &[OwnerReference]) -> Vec<Work> {
        let blocks = |o: &OwnerReference| o.block_owner_deletion == Some(true);
        let freed = before.iter().filter(|b| match after.iter().find(|a| a.uid == b.uid) {
            None => true,
            Some(a) => blocks(b) && !blocks(a),
        });
        freed
            .filter_map(|o| self.nodes.get_key_value(o.uid.as_str()))
            .filter(|(_, owner)| owner.waits_for_dependents())
            .map(|(uid, _)| Work::Collect(Arc::clone(uid)))
            .collect()
    }

    /// Owners with the orphan finalizer that gained a dependent by this change of references, or lost their last one: the
    /// first kind has one more reference to remove, the second may lose its finalizer.
    fn orphaning(&self, before: &[OwnerReference], after: &[OwnerReference]) -> Vec<Work> {
        let names = |owners: &[OwnerReference], uid: &str| owners.iter().any(|o| o.uid == uid);
        let gained = after.iter().filter(|o| !names(before, &o.uid));
        let lost = before.iter().filter(|o| !names(after, &o.uid) && !self.has_dependents(&o.uid));
        gained
            .chain(lost)
            .filter_map(|o| self.nodes.get_key_value(o.uid.as_str()))
            .filter(|(_, owner)| owner.orphans_dependents())
            .map(|(uid, _)| Work::Orphan(Arc::clone(uid)))
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
