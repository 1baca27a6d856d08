//! What clients did and saw: the input of every judgement, and a file format for it. Nothing here judges.

mod blob;
mod file;
mod operation;
mod watch;

pub use blob::Blob;
pub use file::FileError;
pub use operation::{
    Compare, Field, KeyValue, Keys, Op, OpReply, Operation, Range, RangeReply, Refusal, Relation, Reply, Txn,
};
pub use watch::{Event, EventKind, Said, Watch, WatchRequest, WatchResponse};

use serde::{Deserialize, Serialize};

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was answered.
    Ok(Reply),
    /// It was refused, and certainly not done.
    Failed(Refusal),
    /// No answer: done at some time after the call, or never.
    Unknown,
}

/// One call of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Whose it was. A client has one call under way at a time, those with unknown outcome not counted.
    pub client: u32,
    /// When it was made, in nanoseconds of one monotonic clock for the whole history (or any counter in that order).
    pub call: u64,
    /// When its answer came; without meaning if it did not.
    pub ret: u64,
    /// What was asked.
    pub operation: Operation,
    /// What came of it.
    pub outcome: Outcome,
}

/// What the store held before the first call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Its revision.
    pub revision: i64,
    /// The oldest revision that could be read; −1 if nothing was ever compacted.
    pub compacted: i64,
    /// Every key.
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
}

impl Default for Start {
    /// A store that nobody has written to.
    fn default() -> Self {
        Self { revision: 1, compacted: -1, kvs: Vec::new() }
    }
}

/// Everything that all clients of a store did and saw, from a known start on. Nobody else may have written to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What was there before.
    pub start: Start,
    /// The calls, in any order.
    pub calls: Vec<Call>,
    /// The watches, in any order.
    pub watches: Vec<Watch>,
}
