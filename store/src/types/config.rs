//! Configuration of a store: durability, directory, engine and limits.

use crate::Limits;
use std::path::PathBuf;
use std::time::Duration;

/// When the store acknowledges a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the write is synced to disk. Writes that wait at the same time share one sync.
    Sync,
    /// After the write is handed to the operating system; the log is synced at this interval. A crash of the machine
    /// (not of the process) may lose up to one interval of acknowledged writes.
    Relaxed {
        /// Time between syncs.
        interval: Duration,
    },
    /// Immediately: no disk and no threads; all data is lost when the process ends.
    Memory,
}

/// The engine that stores history after it has left the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// kstore's own immutable segment files with an index in memory.
    Segments,
    /// The embedded database `sled`.
    Sled,
    /// A map in memory. With a durable log, the store never deletes log segments, and every open replays all of them.
    Memory,
}

impl EngineKind {
    /// The engine's name, as in the manifest.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Sled => "sled",
            Self::Memory => "memory",
        }
    }

    /// The engine with this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Segments, Self::Sled, Self::Memory].into_iter().find(|kind| kind.name() == name)
    }
}

/// Configuration for opening a store.
#[derive(Clone, Debug)]
pub struct Config {
    /// When the store acknowledges a write.
    pub durability: Durability,
    /// The data directory; unused in memory.
    pub dir: Option<PathBuf>,
    /// The engine that stores history.
    pub engine: EngineKind,
    /// Bounds on memory, disk and requests.
    pub limits: Limits,
}

impl Config {
    /// Configuration of a store in memory: no disk, no threads.
    pub fn memory() -> Self {
        Self {
            durability: Durability::Memory,
            dir: None,
            engine: EngineKind::Memory,
            limits: Limits::default(),
        }
    }

    /// Configuration of a store in `dir` that syncs every write and uses the segment engine.
    pub fn durable(dir: impl Into<PathBuf>) -> Self {
        Self {
            durability: Durability::Sync,
            dir: Some(dir.into()),
            engine: EngineKind::Segments,
            limits: Limits::default(),
        }
    }
}
