//! [`DeltaFifo`]: what one subscriber has not yet taken, merged per key. Bounded: at most one entry for each live object and
//! for each deletion that the subscriber has to hear of. Pure.

use std::sync::Arc;

use kstore_nondet::HashMap;

use crate::{Key, Object, indexer::Change};

/// How an object changed, as one subscriber sees it. Per key, `Added`, any number of `Updated`, and `Deleted` alternate; the
/// `old` of an update is the state this subscriber was told of last. States in between may be skipped.
#[derive(Debug)]
pub enum Delta<T> {
    /// The object is new to the subscriber.
    Added(Arc<T>),
    /// The same object (same uid) in another state.
    Updated {
        /// What the subscriber was told last.
        old: Arc<T>,
        /// The state now.
        new: Arc<T>,
    },
    /// The object is gone. The last known state; its revision is the deletion's own if the source told it.
    Deleted(Arc<T>),
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(object) => Self::Deleted(object.clone()),
        }
    }
}

impl<T> Delta<T> {
    /// The newest state that the delta tells of.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => object,
        }
    }
}

/// See the module.
pub(crate) struct DeltaFifo<T> {
    /// In order of the first untaken change of each key; `None` where changes cancelled out.
    entries: Vec<Option<(Key, Pending<T>)>>,
    places: HashMap<Key, usize>,
    empty: usize,
}

struct Pending<T> {
    /// What the subscriber was told last.
    seen: Option<Arc<T>>,
    /// The last state of the object that the subscriber saw, if that one is gone.
    gone: Option<Arc<T>>,
    now: Option<Arc<T>>,
}

impl<T> Default for DeltaFifo<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::default(), empty: 0 }
    }
}

impl<T: Object> DeltaFifo<T> {
    /// Merges one change of the cache.
    pub(crate) fn record(&mut self, change: &Change<T>) {
        let place = match self.places.get(&change.key) {
            Some(place) => *place,
            None => {
                let pending = Pending { seen: change.old.clone(), gone: None, now: change.old.clone() };
                self.entries.push(Some((change.key.clone(), pending)));
                self.places.insert(change.key.clone(), self.entries.len() - 1);
                self.entries.len() - 1
            }
        };
        let Some((_, pending)) = &mut self.entries[place] else { return };
        pending.now.clone_from(&change.new);
        if pending.gone.is_none() {
            pending.gone = pending.seen.as_ref().and_then(|seen| seen.death(change));
        }
        if pending.seen.is_none() && pending.now.is_none() {
            self.entries[place] = None;
            self.places.remove(&change.key);
            self.empty += 1;
            self.compact();
        }
    }

    /// Keeps cancelled entries from outnumbering the others, so that memory follows what is pending.
    fn compact(&mut self) {
        if self.empty < 64 || self.empty * 2 < self.entries.len() {
            return;
        }
        self.entries.retain(Option::is_some);
        self.empty = 0;
        self.places.clear();
        for (place, entry) in self.entries.iter().enumerate() {
            if let Some((key, _)) = entry {
                self.places.insert(key.clone(), place);
            }
        }
    }

    /// Everything pending, which the subscriber has thereby seen.
    pub(crate) fn drain(&mut self) -> Vec<Delta<T>> {
        self.places.clear();
        self.empty = 0;
        let mut deltas = Vec::with_capacity(self.entries.len());
        for (_, pending) in self.entries.drain(..).flatten() {
            match (pending.seen, pending.gone, pending.now) {
                (Some(old), _, Some(new)) if old.uid() == new.uid() => {
                    deltas.push(Delta::Updated { old, new });
                }
                (_, gone, now) => {
                    deltas.extend(gone.map(Delta::Deleted));
                    deltas.extend(now.map(Delta::Added));
                }
            }
        }
        deltas
    }

    /// Keys with something pending.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

trait Death<T> {
    /// The last state of this object if `change` ends it: by deletion, or by another object of the same name.
    fn death(&self, change: &Change<T>) -> Option<Arc<T>>;
}

impl<T: Object> Death<T> for Arc<T> {
    fn death(&self, change: &Change<T>) -> Option<Arc<T>> {
        let last = match &change.new {
            None => change.last.as_ref(),
            Some(new) if new.uid() != self.uid() => change.old.as_ref(),
            Some(_) => return None,
        };
        Some(last.filter(|last| last.uid() == self.uid()).unwrap_or(self).clone())
    }
}
