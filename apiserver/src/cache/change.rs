//! One change of one object, as every watcher of it sees it: shared, and encoded at most once per form.

use super::entry::Entry;
use super::filter::Filter;
use bytes::{BufMut, Bytes, BytesMut};
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
    lines: [OnceLock<Bytes>; 3],
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
        Self { revision, new, old, gone: OnceLock::new(), lines: Default::default() }
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
        self.lines[seen as usize].get_or_init(|| watch_line(seen.as_str(), &self.object(seen).json)).clone()
    }

    /// Roughly what holding this change costs, in bytes.
    pub fn weight(&self) -> usize {
        256 + self.new.as_ref().map_or(0, |e| e.json.len())
    }
}

/// `{"type":…,"object":…}` and a newline.
pub fn watch_line(kind: &str, json: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(json.len() + kind.len() + 24);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(json);
    line.put_slice(b"}\n");
    line.freeze()
}
