//! Histories: what clients did and observed, the input of every check; with a file format.

mod blob;
mod file;
mod operation;
mod watch;

pub use blob::Blob;
pub use file::FileError;
pub use operation::{
    Compare, Field, KeyValue, Keys, Op, OpReply, Operation, Range, RangeReply, Refusal, Relation, Reply, Txn,
};
use serde::{Deserialize, Serialize};
pub use watch::{Event, EventKind, Watch, WatchContent, WatchRequest, WatchResponse};

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The call was answered.
    Ok(Reply),
    /// The call was refused and certainly had no effect.
    Failed(Refusal),
    /// There was no answer: the call took effect at some time after it was made, or never.
    Unknown,
}

/// One call of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The client that made the call. A client has one call in progress at a time, not counting those with unknown
    /// outcome.
    pub client: u32,
    /// When the call was made, in nanoseconds of one monotonic clock for the whole history (or any counter in that
    /// order).
    pub call: u64,
    /// When the answer arrived; without meaning for an unknown outcome.
    pub ret: u64,
    /// The requested operation.
    pub operation: Operation,
    /// The outcome.
    pub outcome: Outcome,
}

/// The content of the store before the first call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialState {
    /// The store's revision.
    pub revision: i64,
    /// The oldest readable revision; −1 if the store was never compacted.
    pub compacted: i64,
    /// Every key's version.
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
}

impl Default for InitialState {
    /// An empty store.
    fn default() -> Self {
        Self { revision: 1, compacted: -1, kvs: Vec::new() }
    }
}

/// All calls and watches of all clients of a store, from a known start on. No other client may have written to the
/// store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The store's content before.
    pub start: InitialState,
    /// The calls, in any order.
    pub calls: Vec<Call>,
    /// The watches, in any order.
    pub watches: Vec<Watch>,
}
