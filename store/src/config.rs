//! How a store is opened. Not the command line that says so.

use std::path::PathBuf;
use std::time::Duration;

use crate::Limits;

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it has been synced to disk. Writes that wait together share one sync.
    Sync,
    /// When it has been handed to the operating system; synced at this interval. A crash of the machine (not of the
    /// process) may lose up to one interval of acknowledged writes.
    Relaxed {
        /// Time between syncs.
        interval: Duration,
    },
    /// At once: no disk, no threads, nothing survives the process.
    Memory,
}

/// Where checkpointed history lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Our own immutable log segments with an index in memory.
    Segments,
    /// The embedded database `sled`.
    Sled,
    /// A map in memory. With a durable log, the log is then never dropped and every open replays all of it.
    Memory,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Config {
    /// When a write counts as done.
    pub durability: Durability,
    /// The directory; unused in memory.
    pub dir: Option<PathBuf>,
    /// Where history lives.
    pub engine: EngineKind,
    /// The bounds.
    pub limits: Limits,
}

impl Config {
    /// No disk, no threads.
    pub fn memory() -> Self {
        Self {
            durability: Durability::Memory,
            dir: None,
            engine: EngineKind::Memory,
            limits: Limits::default(),
        }
    }

    /// In `dir`, every write synced, history in our own segments.
    pub fn durable(dir: impl Into<PathBuf>) -> Self {
        Self {
            durability: Durability::Sync,
            dir: Some(dir.into()),
            engine: EngineKind::Segments,
            limits: Limits::default(),
        }
    }
}
