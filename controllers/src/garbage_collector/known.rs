//! [`Known`]: what the streams of objects have said, with the kinds that there are. Pure but for its lock: deltas go in, keys come out.

use super::graph::{Graph, Work};
use super::latest::Latest;
use super::member::Member;
use super::plan::{Kinds, OwnerKind, kind_key};
use crate::definition::CustomKind;
use crate::limits::{ABSENT_OWNERS, WITHDRAWN_KINDS};
use crate::resource::Resource;
use kstore_informer::{Delta, Key, Object};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The key of the first look at everything, which comes when the whole first state is known.
pub(super) fn review_key() -> Key {
    Key::new("", "review")
}

/// What is known, shared by the streams that feed it and the workers that read it.
pub(super) struct Shared {
    known: Mutex<Known>,
    /// The resources of the custom kinds by the uids of their definitions.
    custom: Latest<BTreeMap<String, Resource>>,
}

impl Shared {
    /// Nothing but the built-in kinds.
    pub(super) fn new(kinds: &Kinds) -> Self {
        let known = Known { kinds: kinds.clone(), ..Known::default() };
        Self { known: Mutex::new(known), custom: Latest::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// The resources of the custom kinds by the uids of their definitions: a kind that was defined anew is another.
    pub(super) fn custom(&self) -> &Latest<BTreeMap<String, Resource>> {
        &self.custom
    }

    /// Takes a change in; gives back the keys of what it asks for.
    pub(super) fn take(&self, delta: &Delta<Member>) -> Vec<Key> {
        let mut known = self.known.lock();
        let work = known.take(delta);
        if delta.object().is_definition() {
            let resources = known.custom.values().map(|(uid, kind)| (uid.clone(), kind.resource.clone()));
            self.custom.set(resources.collect());
        }
        known.keys(work)
    }

    /// Takes in that an object is gone which no delta speaks of.
    pub(super) fn gone(&self, uid: &str) -> Vec<Key> {
        let mut known = self.known.lock();
        let work = known.gone(uid);
        known.keys(work)
    }
}

/// What the streams have said.
#[derive(Default)]
pub(super) struct Known {
    pub(super) graph: Graph,
    /// The kinds by which owners and objects are addressed: built-in, custom, and withdrawn ones.
    pub(super) kinds: Kinds,
    pub(super) absent: Absent,
    /// The established custom kinds, with the uids of their definitions, by the names of these.
    custom: BTreeMap<String, (String, Arc<CustomKind>)>,
    /// Kinds whose definitions are gone; the oldest first. Their objects are gone too, but what these owned may remain.
    withdrawn: VecDeque<(String, String)>,
    /// The whole first state is in the graph and was looked at. Before, any owner may still come.
    reviewed: bool,
}

impl Known {
    /// Begins with all that needs a look.
    pub(super) fn review(&mut self) -> BTreeSet<Work> {
        self.reviewed = true;
        self.graph.review()
    }

    fn keys(&self, work: Vec<Work>) -> Vec<Key> {
        if self.reviewed { work.iter().map(Work::key).collect() } else { vec![review_key()] }
    }

    fn take(&mut self, delta: &Delta<Member>) -> Vec<Work> {
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

    fn put(&mut self, member: &Member) -> Vec<Work> {
        self.graph.put(member.uid(), Arc::clone(member.node()))
    }

    fn gone(&mut self, uid: &str) -> Vec<Work> {
        self.graph.gone(uid)
    }

    /// The definition of this name has this uid and declares this kind from now on, or declares none.
    pub(super) fn define(&mut self, name: &str, kind: Option<(String, Arc<CustomKind>)>) -> BTreeSet<Work> {
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
        let address = OwnerKind { resource: kind.resource.clone(), namespaced: kind.namespaced };
        self.kinds.insert(key.clone(), address);
        self.graph.review_kind(&key.0, &key.1)
    }

    fn withdraw(&mut self, key: (String, String)) {
        self.withdrawn.push_back(key);
        if self.withdrawn.len() > WITHDRAWN_KINDS
            && let Some(oldest) = self.withdrawn.pop_front()
        {
            self.kinds.remove(&oldest);
        }
    }
}

/// Uids that certainly are no more; the oldest is forgotten first.
#[derive(Default)]
pub(super) struct Absent(VecDeque<String>);

impl Absent {
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
