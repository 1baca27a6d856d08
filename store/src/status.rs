//! How a store is, at one moment. Not the counters of what it did (see `metrics`).

use crate::core::Core;
use crate::{Alarm, Revision};

/// Answer of [`crate::Store::status`]. All of it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// The revision that readers see.
    pub revision: Revision,
    /// The oldest revision that can be read.
    pub compacted: Revision,
    /// The place in the log: counts every change since the data began, also those that take no revision.
    pub seq: u64,
    /// What the store occupies.
    pub size: StoreSize,
    /// [`crate::Limits::quota_bytes`].
    pub quota: Option<u64>,
    /// The alarms that are raised, ascending.
    pub alarms: Vec<Alarm>,
    /// See [`crate::Store::engine_failure`].
    pub engine_failure: Option<String>,
}

/// What a store occupies, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// History, on disk or in memory, what could be won back included.
    pub allocated: u64,
    /// What of it is wanted, with what is on its way from the log: this is held against the quota.
    pub live: u64,
    /// The log's files, beside the history. They hold changes a second time, or are prepared and empty.
    pub log: u64,
}

impl StoreStatus {
    pub(crate) fn of(core: &Core) -> Self {
        let size = StoreSize::of(core);
        let visible = core.visible();
        Self {
            revision: visible.revision,
            compacted: visible.compacted,
            seq: visible.seq,
            size,
            quota: core.limits.quota_bytes,
            alarms: visible.alarms.iter().collect(),
            engine_failure: core.chores.failure(),
        }
    }
}

impl StoreSize {
    pub(crate) fn of(core: &Core) -> Self {
        let pending = core.usage.pending();
        let engine = core.engine.size();
        Self { allocated: engine.allocated + pending, live: engine.live + pending, log: core.log_bytes() }
    }
}
