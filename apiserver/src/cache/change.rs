//! One change of one object, as every watcher of it sees it: shared, and encoded at most once per form.

use super::entry::Entry;
use super::filter::Filter;
use super::form::{Form, frame, watch_line};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};

/// A change at a revision. At least one of `new` and `old` is there.
#[derive(Debug)]
pub struct Change {
    /// The revision of the commit.
    pub revision: i64,
    /// The state after; `None`: deleted.
    pub new: Option<Arc<Entry>>,
    /// The state before; `None`: created.
    pub old: Option<Arc<Entry>>,
    /// The state before with this revision, for DELETED events; made when first needed.
    gone: OnceLock<Arc<Entry>>,
    /// The event as a line of JSON, by what is seen.
    lines: [OnceLock<Bytes>; 3],
    /// The event in the other forms, by what is seen; few changes are ever asked for these.
    others: OnceLock<Box<[[OnceLock<Bytes>; Form::OTHERS]; 3]>>,
}

/// How a change looks through a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It did not match and does now.
    Added,
    /// It matched and still does.
    Modified,
    /// It matched and no longer does, or is gone.
    Deleted,
}

impl Seen {
    /// The type of the watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Change {
    /// A change from `old` to `new`.
    ///
    /// # Panics
    /// When both are `None`.
    pub fn new(revision: i64, new: Option<Arc<Entry>>, old: Option<Arc<Entry>>) -> Self {
        assert!(new.is_some() || old.is_some(), "a change has a state before or after");
        let (gone, lines, others) = Default::default();
        Self { revision, new, old, gone, lines, others }
    }

    /// The object before or after: for what never changes (kind, namespace, name).
    pub fn any(&self) -> &Arc<Entry> {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has a state before or after")
    }

    /// How the change looks through `filter`; `None`: not at all.
    pub fn seen_by(&self, filter: &Filter) -> Option<Seen> {
        let was = self.old.as_ref().is_some_and(|e| filter.matches(e));
        let is = self.new.as_ref().is_some_and(|e| filter.matches(e));
        match (was, is) {
            (false, true) => Some(Seen::Added),
            (true, true) => Some(Seen::Modified),
            (true, false) => Some(Seen::Deleted),
            (false, false) => None,
        }
    }

    /// The object that an event of this kind carries.
    pub fn object(&self, seen: Seen) -> &Arc<Entry> {
        match seen {
            Seen::Added | Seen::Modified => self.new.as_ref().expect("what was added or modified is there"),
            Seen::Deleted => self.gone.get_or_init(|| {
                let old = self.old.as_ref().expect("what is deleted was there");
                Arc::new(old.deleted_at(self.revision))
            }),
        }
    }

    /// The event as a line of a JSON watch stream; encoded once, shared by all watchers.
    pub fn line(&self, seen: Seen) -> Bytes {
        self.lines[seen as usize].get_or_init(|| watch_line(seen.as_str(), &self.object(seen).json())).clone()
    }

    /// The object of the event as JSON: a part of its line.
    pub fn json(&self, seen: Seen) -> Bytes {
        let line = self.line(seen);
        let end = line.len() - b"}\n".len();
        line.slice(end - self.object(seen).json_len()..end)
    }

    /// The event in any form; encoded once, shared by all watchers. `None` if the object has no such form.
    pub fn event(&self, seen: Seen, form: Form) -> Option<Bytes> {
        let Some(place) = form.place() else { return Some(self.line(seen)) };
        let place = &self.others.get_or_init(Box::default)[seen as usize][place];
        if place.get().is_none() {
            let _ = place.set(frame(seen, self.object(seen), form)?);
        }
        place.get().cloned()
    }

    /// Roughly what holding this change costs, in bytes: the object, and its event in one form.
    pub fn weight(&self) -> usize {
        256 + 2 * self.new.as_ref().map_or(0, |e| e.weight())
    }
}
