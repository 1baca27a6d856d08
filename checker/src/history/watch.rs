//! A watch and its responses, in order.

use super::{KeyValue, Keys};
use serde::{Deserialize, Serialize};

/// The request of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRequest {
    /// The watched keys.
    #[serde(flatten)]
    pub keys: Keys,
    /// The first revision to deliver; zero means the one after the revision of [`WatchContent::Created`].
    pub start: i64,
    /// Whether events have their previous version.
    #[serde(default)]
    pub prev_kv: bool,
    /// Whether puts are filtered out.
    #[serde(default)]
    pub no_put: bool,
    /// Whether deletions are filtered out.
    #[serde(default)]
    pub no_delete: bool,
}

/// The kind of a change to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventKind {
    /// The key was created or changed.
    Put,
    /// The key was deleted.
    Delete,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Put or delete.
    pub kind: EventKind,
    /// The new version; in a deletion only key and mod revision are set.
    pub kv: KeyValue,
    /// The previous version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_kv: Option<KeyValue>,
}

/// The content of a watch response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchContent {
    /// The watch was created.
    Created,
    /// Events. With `fragment`, the rest of them is in the next response.
    Events {
        /// The events.
        events: Vec<Event>,
        /// Whether the response is a fragment.
        #[serde(default)]
        fragment: bool,
    },
    /// Progress: everything up to the header's revision was sent, to this watch or to all of its stream.
    Progress,
    /// The watch was cancelled, because of compaction if the revision is not zero.
    Canceled {
        /// The oldest revision from which a watch can start, or zero.
        compact_revision: i64,
    },
}

/// One response of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchResponse {
    /// When the response arrived, in nanoseconds of the history's clock.
    pub at: u64,
    /// The header's revision.
    pub revision: i64,
    /// The content.
    pub said: WatchContent,
}

/// One watch from its request to its end. A resumed watch is a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The client that made the request.
    pub client: u32,
    /// When the request was made, in nanoseconds of the history's clock.
    pub at: u64,
    /// The request.
    pub request: WatchRequest,
    /// The responses in order; the first confirms the creation, if it arrived.
    pub responses: Vec<WatchResponse>,
}

impl Watch {
    /// The first revision to deliver, once it is known.
    pub fn first(&self) -> Option<i64> {
        if self.request.start > 0 {
            return Some(self.request.start);
        }
        let created = self.responses.iter().find(|response| matches!(response.said, WatchContent::Created));
        created.map(|response| response.revision + 1)
    }

    /// Whether the watch requested events of this kind and key.
    pub fn wants(&self, kind: EventKind, key: &[u8]) -> bool {
        let filtered = match kind {
            EventKind::Put => self.request.no_put,
            EventKind::Delete => self.request.no_delete,
        };
        !filtered && self.request.keys.contains(key)
    }
}
