//! [`DeltaFifo`]: changes in the order of their first, merged per key. Bounded: at most one entry for each live object and
//! for each deletion that a reader has to hear of. Pure. [`Delta`] is what comes out of it.

use std::sync::Arc;

use kstore_nondet::HashMap;

use crate::{Key, Object, indexer::Change};

/// How an object changed, as one subscriber sees it. Per key, `Added`, any number of `Updated`, and `Deleted` alternate; the
/// `old` of an update is the state this subscriber was told of last. States in between may be skipped, unless the
/// subscription is [`crate::Delivery::Lossless`]. An update that is merged with the deletion after it still comes as an update:
/// the owner that only the old state names must hear of the object, too.
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
    /// Nothing changed: the state that the subscriber was told last, again. Only for those who asked with
    /// [`crate::Subscription::resync_every`].
    Resync(Arc<T>),
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::Resync(object) => Self::Resync(object.clone()),
        }
    }
}

impl<T> Delta<T> {
    /// The newest state that the delta tells of.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added(object)
            | Self::Updated { new: object, .. }
            | Self::Deleted(object)
            | Self::Resync(object) => object,
        }
    }
}

impl<T: Object> Change<T> {
    /// The change by itself, not merged with others.
    pub(crate) fn deltas(&self) -> impl Iterator<Item = Delta<T>> + use<T> {
        let (first, second) = match (&self.old, &self.new) {
            (Some(old), Some(new)) if old.uid() == new.uid() => {
                (Some(Delta::Updated { old: old.clone(), new: new.clone() }), None)
            }
            (Some(old), new) => {
                let last = self.last.as_ref().filter(|last| last.uid() == old.uid()).unwrap_or(old);
                (Some(Delta::Deleted(last.clone())), new.clone().map(Delta::Added))
            }
            (None, new) => (new.clone().map(Delta::Added), None),
        };
        first.into_iter().chain(second)
    }
}

/// See the module.
pub(crate) struct DeltaFifo<T> {
    /// In order of the first change of each key; `None` where changes cancelled out.
    entries: Vec<Option<(Key, Pending<T>)>>,
    places: HashMap<Key, usize>,
    empty: usize,
}

struct Pending<T> {
    /// What the reader was told last.
    seen: Option<Arc<T>>,
    /// How the object ended that the reader saw, if it is gone.
    gone: Option<Ended<T>>,
    now: Option<Arc<T>>,
}

/// The end of one object.
struct Ended<T> {
    /// Its newest state in the cache.
    cached: Arc<T>,
    /// Its last state: the deletion's own if the source told it, else that of the cache.
    last: Arc<T>,
}

impl<T> Clone for Ended<T> {
    fn clone(&self) -> Self {
        Self { cached: self.cached.clone(), last: self.last.clone() }
    }
}

impl<T> Default for DeltaFifo<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::default(), empty: 0 }
    }
}

impl<T> Clone for DeltaFifo<T> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), places: self.places.clone(), empty: self.empty }
    }
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self { seen: self.seen.clone(), gone: self.gone.clone(), now: self.now.clone() }
    }
}

impl<T: Object> DeltaFifo<T> {
    /// Merges one change of the cache.
    pub(crate) fn record(&mut self, change: &Change<T>) {
        let place = self.place(&change.key, change.old.as_ref());
        let Some((_, pending)) = &mut self.entries[place] else { return };
        pending.now.clone_from(&change.new);
        if pending.gone.is_none() {
            pending.gone = pending.seen.as_ref().and_then(|seen| seen.death(change));
        }
        self.cancel(&change.key, place);
    }

    /// Merges everything that came after what is here.
    pub(crate) fn absorb(&mut self, later: &Self) {
        for (key, after) in later.entries.iter().flatten() {
            let place = self.place(key, after.seen.as_ref());
            let Some((_, pending)) = &mut self.entries[place] else { continue };
            pending.now.clone_from(&after.now);
            if pending.gone.is_none() && pending.seen.is_some() {
                // What the later part saw last is what the earlier part ended with: the same object.
                pending.gone.clone_from(&after.gone);
            }
            self.cancel(key, place);
        }
    }

    /// The entry of a key, which the reader knows in the state `seen`.
    fn place(&mut self, key: &Key, seen: Option<&Arc<T>>) -> usize {
        if let Some(place) = self.places.get(key) {
            return *place;
        }
        let pending = Pending { seen: seen.cloned(), gone: None, now: seen.cloned() };
        self.entries.push(Some((key.clone(), pending)));
        self.places.insert(key.clone(), self.entries.len() - 1);
        self.entries.len() - 1
    }

    /// Forgets an object that came and went unread.
    fn cancel(&mut self, key: &Key, place: usize) {
        if matches!(&self.entries[place], Some((_, Pending { seen: None, now: None, .. }))) {
            self.entries[place] = None;
            self.places.remove(key);
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

    /// Everything pending, which the reader has thereby seen.
    pub(crate) fn drain(&mut self) -> Vec<Delta<T>> {
        self.places.clear();
        self.empty = 0;
        let mut deltas = Vec::with_capacity(self.entries.len());
        for (_, pending) in self.entries.drain(..).flatten() {
            match (pending.seen, pending.gone, pending.now) {
                (Some(old), _, Some(new)) if old.uid() == new.uid() => {
                    deltas.push(Delta::Updated { old, new });
                }
                (seen, gone, now) => {
                    if let (Some(old), Some(Ended { cached, last })) = (seen, gone) {
                        if !Arc::ptr_eq(&old, &cached) {
                            deltas.push(Delta::Updated { old, new: cached });
                        }
                        deltas.push(Delta::Deleted(last));
                    }
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
    /// How this object ends if `change` ends it: by deletion, or by another object of the same name.
    fn death(&self, change: &Change<T>) -> Option<Ended<T>>;
}

impl<T: Object> Death<T> for Arc<T> {
    fn death(&self, change: &Change<T>) -> Option<Ended<T>> {
        let own = |state: Option<&Self>| state.filter(|state| state.uid() == self.uid()).cloned();
        let cached = own(change.old.as_ref()).unwrap_or_else(|| self.clone());
        let last = match &change.new {
            None => own(change.last.as_ref()).unwrap_or_else(|| cached.clone()),
            Some(new) if new.uid() != self.uid() => cached.clone(),
            Some(_) => return None,
        };
        Some(Ended { cached, last })
    }
}
