//! Disk budget of the log and of removable data: a share of the live data. So a small store is small on disk, and a
//! large one is not always busy with checkpoints and defragmentation.

use crate::Limits;
use std::time::Duration;

/// Log bytes between two checkpoints, for `live` bytes of live data. The store keeps the log of two checkpoints plus
/// the segments at both ends: together less than half of the live data.
pub(crate) fn checkpoint_bytes(limits: &Limits, live: u64) -> u64 {
    /// Lower bound: with less, checkpoints under load would be too frequent for the cost of their syncs.
    const LEAST: u64 = 8 << 20;
    (live / 8).max(LEAST).min(limits.checkpoint_bytes)
}

/// Size of the next log segment: a quarter of the log between checkpoints, since segments are deleted as a whole.
pub(crate) fn segment_bytes(limits: &Limits, live: u64) -> u64 {
    (checkpoint_bytes(limits, live) / 4).max(limits.first_segment_bytes).min(limits.segment_bytes)
}

/// Whether two checkpoints that free `retired` bytes are worth their cost although nothing is written.
pub(crate) fn is_worth_sealing(limits: &Limits, live: u64, retired: u64) -> bool {
    retired > checkpoint_bytes(limits, live)
}

/// Rest after a step of packing that looked at this many bytes. Deflating takes some twenty milliseconds a mebibyte, so that steps take a
/// twelfth of a processor at most, and hardly any where little is superseded.
pub(crate) fn pack_rest(limits: &Limits, bytes: u64) -> Duration {
    const BYTES_PER_SECOND: u64 = 4 << 20;
    limits.pack_rest.min(Duration::from_millis(bytes.saturating_mul(1_000) / BYTES_PER_SECOND))
}

/// Bytes that one scrub step reads, if the engine's files have `allocated` bytes in all.
pub(crate) fn scrub_bytes(limits: &Limits, allocated: u64) -> u64 {
    let passes = limits.scrub_pass.as_millis() / limits.scrub_interval.as_millis().max(1);
    let share = u128::from(allocated) / passes.max(1) + 1;
    u64::try_from(share).unwrap_or(u64::MAX).max(limits.scrub_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_pass_takes_no_longer_than_its_limit() {
        let limits = Limits::default();
        assert_eq!(scrub_bytes(&limits, 1 << 20), limits.scrub_bytes);
        let (bytes, passes) = (100 << 30, limits.scrub_pass.as_secs() / limits.scrub_interval.as_secs());
        assert!(scrub_bytes(&limits, bytes) * passes >= bytes);
    }

    #[test]
    fn log_size_and_garbage_scale_with_live_data_between_bounds() {
        let limits = Limits::default();
        let table: [(u64, u64, u64); 4] = [(0, 8, 2), (64, 8, 2), (256, 32, 8), (4_096, 64, 16)];
        for (live, checkpoint, segment) in table {
            let (live, expected) = (live << 20, (checkpoint << 20, segment << 20));
            assert_eq!((checkpoint_bytes(&limits, live), segment_bytes(&limits, live)), expected, "{live}");
        }
        let tiny = Limits { checkpoint_bytes: 100, segment_bytes: 70, ..Limits::default() };
        assert_eq!((checkpoint_bytes(&tiny, 1 << 40), segment_bytes(&tiny, 1 << 40)), (100, 70));
        assert!(
            is_worth_sealing(&limits, 256 << 20, 33 << 20) && !is_worth_sealing(&limits, 256 << 20, 31 << 20)
        );
    }
}
