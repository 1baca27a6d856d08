//! [`Whole`]: a complete state of a source on its way to the cache. Objects that the cache holds already are the cache's own
//! from the moment they arrive, so a list that finds nothing new costs its names, not its objects. Pure.

use std::{collections::BTreeMap, sync::Arc};

use crate::{Frame, Key, Object, Page, Revision, Undecodable};

/// Looks into the cache, which does not move while a state is collected.
pub(crate) type Cached<'a, T> = &'a dyn Fn(&Key) -> Option<Arc<T>>;

/// All objects at one revision.
pub(crate) struct Whole<T> {
    /// The cache's own where it has the same state of the same object.
    pub objects: BTreeMap<Key, Arc<T>>,
    pub undecodable: BTreeMap<Key, Undecodable>,
    pub revision: Revision,
    /// The source's history is another one now: equal names, uids and revisions mean nothing.
    pub other_history: bool,
}

/// A state that is not complete yet.
pub(crate) struct Collected<T> {
    objects: BTreeMap<Key, Arc<T>>,
    undecodable: BTreeMap<Key, Undecodable>,
    other_history: bool,
}

impl<T: Object> Collected<T> {
    /// Nothing yet. Nothing will be taken from the cache if the state belongs to another history.
    pub(crate) fn new(other_history: bool) -> Self {
        Self { objects: BTreeMap::new(), undecodable: BTreeMap::new(), other_history }
    }

    /// One page of a list.
    pub(crate) fn page(&mut self, page: Page<T>, cached: Cached<'_, T>) {
        page.items.into_iter().for_each(|object| self.put(object, cached));
        page.undecodable.into_iter().for_each(|what| self.quarantine(what));
    }

    /// One frame of an initial state.
    pub(crate) fn frame(&mut self, frame: Frame<T>, cached: Cached<'_, T>) {
        match frame {
            Frame::Put(object) => self.put(object, cached),
            Frame::Gone { key, .. } => {
                self.objects.remove(&key);
                self.undecodable.remove(&key);
            }
            Frame::Undecodable(what) => self.quarantine(what),
            Frame::Progress { .. } => {}
        }
    }

    /// Whether nothing was taken from the cache.
    pub(crate) fn other_history(&self) -> bool {
        self.other_history
    }

    /// The complete state.
    pub(crate) fn whole(self, revision: Revision) -> Whole<T> {
        let Self { objects, undecodable, other_history } = self;
        Whole { objects, undecodable, revision, other_history }
    }

    /// Of two objects with one key the newer counts.
    fn put(&mut self, object: T, cached: Cached<'_, T>) {
        let key = object.key();
        if self.objects.get(&key).is_some_and(|other| other.revision() > object.revision()) {
            return;
        }
        self.undecodable.remove(&key);
        let same = |old: &Arc<T>| old.revision() == object.revision() && old.uid() == object.uid();
        match cached(&key).filter(|old| !self.other_history && same(old)) {
            Some(old) => self.objects.insert(old.key(), old),
            None => self.objects.insert(key, Arc::new(object)),
        };
    }

    fn quarantine(&mut self, what: Undecodable) {
        self.objects.remove(&what.key);
        self.undecodable.insert(what.key.clone(), what);
    }
}
