//! [`CompleteState`]: a complete state of a source before it reaches the cache. Unchanged objects are replaced by the
//! cache's own on arrival, so an unchanged list costs memory for its keys, not its objects. Pure.

use crate::any_object::SharedObject;
use crate::{Frame, Key, Object, Page, Revision, Undecodable};
use std::collections::BTreeMap;

/// Lookup in the cache, which does not change while a state is collected.
pub(crate) type Cached<'a> = &'a dyn Fn(&Key) -> Option<SharedObject>;

/// All objects at one revision.
pub(crate) struct CompleteState {
    /// Objects in key order, unique. The cache's own object where it has the same state.
    pub objects: Vec<(Key, SharedObject)>,
    pub undecodable: BTreeMap<Key, Undecodable>,
    pub revision: Revision,
    /// Whether the source has a new history: equal names, uids and revisions mean nothing.
    pub other_history: bool,
}

impl CompleteState {
    /// Whether an object of this name exists, decodable or not.
    pub(crate) fn has(&self, key: &Key) -> bool {
        find(&self.objects, key).is_ok() || self.undecodable.contains_key(key)
    }
}

/// A complete state that is still being received.
pub(crate) struct StateCollector {
    /// Objects that arrived in key order, as in most lists: each costs one push.
    sorted: Vec<(Key, SharedObject)>,
    /// Objects that arrived out of order; none of them is in `sorted`.
    late: BTreeMap<Key, SharedObject>,
    undecodable: BTreeMap<Key, Undecodable>,
    other_history: bool,
}

fn find(sorted: &[(Key, SharedObject)], key: &Key) -> Result<usize, usize> {
    match sorted.last() {
        Some((last, _)) if last < key => Err(sorted.len()),
        _ => sorted.binary_search_by(|(other, _)| other.cmp(key)),
    }
}

impl StateCollector {
    /// An empty collection. It reuses no cached objects if the state belongs to another history.
    pub(crate) fn new(other_history: bool) -> Self {
        Self { sorted: Vec::new(), late: BTreeMap::new(), undecodable: BTreeMap::new(), other_history }
    }

    /// Adds one page of a list.
    pub(crate) fn page(&mut self, page: Page<SharedObject>, cached: Cached<'_>) {
        page.items.into_iter().for_each(|object| self.put(object, cached));
        page.undecodable.into_iter().for_each(|what| self.quarantine(what));
    }

    /// Adds one frame of an initial state.
    pub(crate) fn frame(&mut self, frame: Frame<SharedObject>, cached: Cached<'_>) {
        match frame {
            Frame::Put(object) => self.put(object, cached),
            Frame::Gone { key, .. } => {
                self.remove(&key);
                self.undecodable.remove(&key);
            }
            Frame::Undecodable(what) => self.quarantine(what),
            Frame::Progress { .. } => {}
        }
    }

    /// Whether the state belongs to another history, so that no cached object is reused.
    pub(crate) fn other_history(&self) -> bool {
        self.other_history
    }

    /// Completes the state.
    pub(crate) fn whole(self, revision: Revision) -> CompleteState {
        let Self { sorted, late, undecodable, other_history } = self;
        CompleteState { objects: merge(sorted, late), undecodable, revision, other_history }
    }

    /// Adds an object; the newer of two with the same key wins.
    fn put(&mut self, object: SharedObject, cached: Cached<'_>) {
        let key = object.key();
        let position = find(&self.sorted, &key);
        let other = position.ok().map(|position| &self.sorted[position].1).or_else(|| self.late.get(&key));
        if other.is_some_and(|other| other.revision() > object.revision()) {
            return;
        }
        if !self.undecodable.is_empty() {
            self.undecodable.remove(&key);
        }
        let same = |old: &SharedObject| old.revision() == object.revision() && old.uid() == object.uid();
        let (key, object) = match cached(&key).filter(|old| !self.other_history && same(old)) {
            Some(old) => (old.key(), old),
            None => (key, object),
        };
        match position {
            Ok(position) => self.sorted[position] = (key, object),
            Err(position) if position == self.sorted.len() && self.late.is_empty() => {
                self.sorted.push((key, object));
            }
            Err(_) => drop(self.late.insert(key, object)),
        }
    }

    fn remove(&mut self, key: &Key) {
        self.late.remove(key);
        if let Ok(position) = find(&self.sorted, key) {
            self.sorted.remove(position);
        }
    }

    fn quarantine(&mut self, what: Undecodable) {
        self.remove(&what.key);
        self.undecodable.insert(what.key.clone(), what);
    }
}

/// Merges both collections in key order.
fn merge(sorted: Vec<(Key, SharedObject)>, late: BTreeMap<Key, SharedObject>) -> Vec<(Key, SharedObject)> {
    if late.is_empty() {
        return sorted;
    }
    let mut merged = Vec::with_capacity(sorted.len() + late.len());
    let mut late = late.into_iter().peekable();
    for entry in sorted {
        while let Some(earlier) = late.next_if(|(key, _)| *key < entry.0) {
            merged.push(earlier);
        }
        merged.push(entry);
    }
    merged.extend(late);
    merged
}
