//! [`KnownObjects`]: the ownership graph and the kinds, as reported by the streams. Pure except for its lock: deltas
//! go in, keys come out.

use super::graph::{Graph, WorkItem};
use super::latest::LatestValue;
use super::member::{self, OwnershipRecord};
use super::plan::{Kinds, OwnerKind, kind_key};
use crate::aggregated::{AggregatedKind, AggregatedKinds};
use crate::definition::CustomKind;
use crate::limits::{ABSENT_OWNERS, WITHDRAWN_KINDS};
use crate::resource::Resource;
use kstore_informer::{Delta, Key, Object};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Queue key of the first review, when the complete initial state is known.
pub(super) fn review_key() -> Key {
    Key::new("", "review")
}

/// Graph and kinds, shared by the streams and the workers.
pub(super) struct Shared {
    known: Mutex<KnownObjects>,
    /// Resources of the custom kinds by the uids of their definitions.
    custom: LatestValue<BTreeMap<String, Resource>>,
}

impl Shared {
    /// Only these kinds.
    pub(super) fn new(kinds: &Kinds) -> Self {
        let known = KnownObjects { kinds: kinds.clone(), ..KnownObjects::default() };
        Self { known: Mutex::new(known), custom: LatestValue::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, KnownObjects> {
        self.known.lock()
    }

    /// Resources of the custom kinds by the uids of their definitions: a recreated definition is another
    /// kind.
    pub(super) fn custom(&self) -> &LatestValue<BTreeMap<String, Resource>> {
        &self.custom
    }

    /// Applies a change; returns the queue keys of the resulting work.
    pub(super) fn take(&self, delta: &Delta<OwnershipRecord>) -> Vec<Key> {
        let mut known = self.known.lock();
        let work = known.take(delta);
        if delta.object().is_definition() {
            let resources = known.custom.values().map(|(uid, kind)| (uid.clone(), kind.resource.clone()));
            self.custom.set(resources.collect());
        }
        known.keys(work)
    }

    /// Replaces the kinds of aggregated API servers, except those whose server does not answer. Returns the
    /// queue keys of the resulting work.
    pub(super) fn aggregate(&self, found: &AggregatedKinds) -> Vec<Key> {
        let mut known = self.known.lock();
        let work = known.aggregate(found);
        known.keys(work.into_iter().collect())
    }

    /// Adds built-in kinds that not every server has. Returns the queue keys of the resulting work.
    pub(super) fn serve(&self, kinds: Kinds) -> Vec<Key> {
        let mut known = self.known.lock();
        let mut work = BTreeSet::new();
        for (key, kind) in kinds {
            work.extend(known.graph.review_kind(&key.0, &key.1));
            known.kinds.insert(key, kind);
        }
        known.keys(work.into_iter().collect())
    }

    /// Removes an object without a delta.
    pub(super) fn gone(&self, uid: &str) -> Vec<Key> {
        let mut known = self.known.lock();
        let work = known.gone(uid);
        known.keys(work)
    }
}

/// Data that the streams have reported.
#[derive(Default)]
pub(super) struct KnownObjects {
    pub(super) graph: Graph,
    /// Kinds for addressing owners and objects: built-in, custom, aggregated and withdrawn.
    pub(super) kinds: Kinds,
    pub(super) absent: AbsentOwnerCache,
    /// Established custom kinds with the uids of their definitions, by the definitions' names.
    custom: BTreeMap<String, (String, Arc<CustomKind>)>,
    /// Kinds of aggregated API servers.
    aggregated: Kinds,
    /// Kinds with deleted definitions, oldest first. Their objects are gone too, but dependents may remain.
    withdrawn: VecDeque<(String, String)>,
    /// Whether the complete initial state was reviewed. Before, an owner may still arrive.
    reviewed: bool,
}

impl KnownObjects {
    /// Starts collection and returns all work items of the initial state.
    pub(super) fn review(&mut self) -> BTreeSet<WorkItem> {
        self.reviewed = true;
        self.graph.review()
    }

    fn keys(&self, work: Vec<WorkItem>) -> Vec<Key> {
        if self.reviewed { work.iter().map(WorkItem::key).collect() } else { vec![review_key()] }
    }

    fn take(&mut self, delta: &Delta<OwnershipRecord>) -> Vec<WorkItem> {
        let mut work = match delta {
            Delta::Updated { old, new } if old.uid() != new.uid() => {
                let mut work = self.gone(old.uid());
                work.extend(self.put(new));
                work
            }
            Delta::Added(new) | Delta::Updated { new, .. } | Delta::Resync(new) => self.put(new),
            Delta::Deleted(old) => self.gone(old.uid()),
        };
        let object = delta.object();
        if object.is_definition() {
            let kind = match delta {
                Delta::Deleted(_) => None,
                Delta::Added(_) | Delta::Updated { .. } | Delta::Resync(_) => object.declares(),
            };
            let kind = kind.map(|kind| (object.uid().to_owned(), Arc::clone(kind)));
            work.extend(self.define(&object.node().name, kind));
        }
        work
    }

    fn put(&mut self, member: &OwnershipRecord) -> Vec<WorkItem> {
        self.graph.put(Arc::clone(member.shared_uid()), Arc::clone(member.node()))
    }

    fn gone(&mut self, uid: &str) -> Vec<WorkItem> {
        self.graph.gone(uid)
    }

    /// Updates or removes the definition of this name, with its uid and kind.
    pub(super) fn define(
        &mut self,
        name: &str,
        kind: Option<(String, Arc<CustomKind>)>,
    ) -> BTreeSet<WorkItem> {
        let Some((uid, kind)) = kind else {
            if let Some((_, old)) = self.custom.remove(name) {
                self.withdraw(kind_key(&old.resource.group, &old.kind));
            }
            return BTreeSet::new();
        };
        let before = self.custom.insert(name.to_owned(), (uid, Arc::clone(&kind)));
        if before.is_some_and(|(_, before)| before == kind) {
            return BTreeSet::new();
        }
        let key = kind_key(&kind.resource.group, &kind.kind);
        self.withdrawn.retain(|withdrawn| *withdrawn != key);
        if self.aggregated.contains_key(&key) {
            return BTreeSet::new();
        }
        let address = OwnerKind { resource: kind.resource.clone(), namespaced: kind.namespaced };
        self.kinds.insert(key.clone(), address);
        self.graph.review_kind(&key.0, &key.1)
    }

    /// Replaces the kinds of aggregated API servers, except those whose server does not answer.
    ///
    /// A kind that is no longer served has an unknown address: its objects may exist, so they keep their
    /// dependents and stay in the graph.
    pub(super) fn aggregate(&mut self, found: &AggregatedKinds) -> BTreeSet<WorkItem> {
        let mut now: Kinds = self.aggregated.clone();
        now.retain(|_, kind| found.is_unavailable(&kind.resource));
        for AggregatedKind { kind, resource, namespaced, .. } in &found.kinds {
            let key = kind_key(&resource.group, kind);
            if !member::kinds().contains_key(&key) {
                now.insert(key, OwnerKind { resource: resource.clone(), namespaced: *namespaced });
            }
        }
        let before = std::mem::replace(&mut self.aggregated, now);
        for key in before.keys().filter(|key| !self.aggregated.contains_key(*key)) {
            let custom = self.custom.values().map(|(_, kind)| kind);
            let mut custom = custom.filter(|kind| kind_key(&kind.resource.group, &kind.kind) == *key);
            match custom.next() {
                Some(kind) => {
                    let address = OwnerKind { resource: kind.resource.clone(), namespaced: kind.namespaced };
                    self.kinds.insert(key.clone(), address);
                }
                None => drop(self.kinds.remove(key)),
            }
        }
        let mut work = BTreeSet::new();
        for (key, kind) in self.aggregated.iter().filter(|(key, kind)| before.get(*key) != Some(*kind)) {
            self.kinds.insert(key.clone(), kind.clone());
            work.extend(self.graph.review_kind(&key.0, &key.1));
        }
        work
    }

    fn withdraw(&mut self, key: (String, String)) {
        self.withdrawn.push_back(key);
        if self.withdrawn.len() > WITHDRAWN_KINDS
            && let Some(oldest) = self.withdrawn.pop_front()
            && !self.aggregated.contains_key(&oldest)
        {
            self.kinds.remove(&oldest);
        }
    }
}

/// Uids that are known to be absent; the oldest is forgotten first.
#[derive(Default)]
pub(super) struct AbsentOwnerCache(VecDeque<String>);

impl AbsentOwnerCache {
    pub(super) fn add(&mut self, uid: &str) {
        if !self.knows(uid) {
            if self.0.len() >= ABSENT_OWNERS {
                self.0.pop_front();
            }
            self.0.push_back(uid.to_owned());
        }
    }

    pub(super) fn knows(&self, uid: &str) -> bool {
        self.0.iter().rev().any(|known| known == uid)
    }
}
