//! Status of a store at one moment. `types::metrics` counts what it did.

use crate::engine::Engine;
use crate::published::core::Core;
use crate::{Alarm, Revision};

/// Result of [`crate::Store::status`]. All of it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// The revision that readers see.
    pub revision: Revision,
    /// The oldest revision that can be read.
    pub compacted: Revision,
    /// Sequence number of the last log record. It counts every change since the data was created, also changes without
    /// a revision.
    pub seq: u64,
    /// Bytes that the store occupies.
    pub size: StoreSize,
    /// [`crate::Limits::quota_bytes`].
    pub quota: Option<u64>,
    /// The raised alarms, ascending.
    pub alarms: Vec<Alarm>,
    /// Why the engine gets nothing more; see [`crate::Store::engine_failure`].
    pub engine_failure: Option<String>,
}

/// Bytes that a store occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Bytes of the history, on disk or in memory, including what defragmentation could free.
    pub allocated: u64,
    /// Bytes of live history, including changes that are not in the engine yet. The quota bounds this number, unless
    /// [`crate::Limits::history_bytes`] is set.
    pub live: u64,
    /// Bytes of the versions that exist, each with 256 bytes for its key as etcd counts them. With [`crate::Limits::history_bytes`] the
    /// quota bounds this number.
    pub current: u64,
    /// Bytes of the log's files, which hold changes a second time or are prepared and empty.
    pub log: u64,
}

impl StoreStatus {
    pub(crate) fn of(core: &Core) -> Self {
        let size = StoreSize::of(core);
        let visible = core.visible();
        Self {
            revision: visible.state.revision,
            compacted: visible.state.compacted,
            seq: visible.state.seq,
            size,
            quota: core.limits.quota_bytes,
            alarms: visible.state.alarms.iter().collect(),
            engine_failure: core.background_waiters.failure(),
        }
    }
}

impl StoreSize {
    pub(crate) fn of(core: &Core) -> Self {
        let pending = core.usage.pending();
        let engine = core.engine.size();
        Self {
            allocated: engine.allocated + pending,
            live: engine.live + pending,
            current: core.usage.current(),
            log: core.log_bytes(),
        }
    }
}
