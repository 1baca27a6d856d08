//! A watch and everything that came out of it, in order.

use serde::{Deserialize, Serialize};

use super::{KeyValue, Keys};

/// What was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRequest {
    /// Which keys.
    #[serde(flatten)]
    pub keys: Keys,
    /// The first revision to see; zero is the one after the revision of [`Said::Created`].
    pub start: i64,
    /// Whether each event was to come with the version before.
    #[serde(default)]
    pub prev_kv: bool,
    /// Whether puts were left out.
    #[serde(default)]
    pub no_put: bool,
    /// Whether deletions were left out.
    #[serde(default)]
    pub no_delete: bool,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventKind {
    /// It was created or changed.
    Put,
    /// It was deleted.
    Delete,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Put or delete.
    pub kind: EventKind,
    /// The new version; in a deletion only key and mod revision are set.
    pub kv: KeyValue,
    /// The version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_kv: Option<KeyValue>,
}

/// What a response said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// The watch began.
    Created,
    /// These happened. With `fragment`, the rest of them is in the next response.
    Events {
        /// What happened.
        events: Vec<Event>,
        /// Whether this is a part.
        #[serde(default)]
        fragment: bool,
    },
    /// Everything up to the header's revision has been said, to this watch or to all of its stream.
    Progress,
    /// The watch ended, with the compacted revision if that is the reason, otherwise zero.
    Canceled {
        /// The oldest revision that can be watched from.
        compact_revision: i64,
    },
}

/// One response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchResponse {
    /// When it came, in nanoseconds of the history's clock.
    pub at: u64,
    /// The header's revision.
    pub revision: i64,
    /// What it said.
    pub said: Said,
}

/// One watch from its request to its end, whatever ended it. A watch that was begun again is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Whose it was.
    pub client: u32,
    /// When it was asked for.
    pub at: u64,
    /// What was asked.
    pub request: WatchRequest,
    /// What came, in order; without the request's answer if that did not come.
    pub responses: Vec<WatchResponse>,
}

impl Watch {
    /// The first revision it is to see, once that is known.
    pub fn first(&self) -> Option<i64> {
        if self.request.start > 0 {
            return Some(self.request.start);
        }
        let created = self.responses.iter().find(|response| matches!(response.said, Said::Created));
        created.map(|response| response.revision + 1)
    }

    /// Whether it wants such an event.
    pub fn wants(&self, kind: EventKind, key: &[u8]) -> bool {
        let filtered = match kind {
            EventKind::Put => self.request.no_put,
            EventKind::Delete => self.request.no_delete,
        };
        !filtered && self.request.keys.contains(key)
    }
}
