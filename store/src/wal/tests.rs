//! Tests of the log on the simulated disk: replay, and the handling of its tail.

use super::{ReplayResult, Wal, WalSegments, replay};
use crate::codec::frame::SEGMENT_HEADER;
use crate::disk::Disk;
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::types::commit::Commit;
use crate::types::error::OpenError;
use crate::{Limits, Revision};
use kstore_nondet::Rng;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/wal";
const CLUSTER: u64 = 11;

fn disk() -> SimDisk {
    let disk = SimDisk::default();
    disk.create_dir(Path::new(DIR)).unwrap();
    disk
}

fn limits() -> Limits {
    Limits { first_segment_bytes: 8 << 10, segment_bytes: 8 << 10, ..Limits::default() }
}

/// Replays the log. Also returns the sequence numbers of the visited records.
fn read(disk: &SimDisk, cluster: u64, after: u64) -> Result<(ReplayResult, Vec<u64>), OpenError> {
    let segments = WalSegments::list(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    let mut seen = Vec::new();
    let replayed = replay(&segments, cluster, after, &mut |record| {
        seen.push(record.seq);
        Ok(())
    });
    replayed.map(|replayed| (replayed, seen))
}

/// Opens the log for appending.
fn begin(disk: &SimDisk, seed: u64) -> Wal {
    let (replayed, _) = read(disk, CLUSTER, 0).unwrap();
    let segments = Arc::new(WalSegments::list(Arc::new(disk.clone()), Path::new(DIR)).unwrap());
    Wal::begin(segments, CLUSTER, Rng::seeded(seed), &replayed, &limits()).unwrap()
}

fn commits(seqs: impl IntoIterator<Item = u64>, note: usize) -> Vec<Arc<Commit>> {
    let commit =
        |seq| Commit { seq, revision: Revision(1), note: Some(vec![7; note].into()), ..Commit::default() };
    seqs.into_iter().map(|seq| Arc::new(commit(seq))).collect()
}

#[test]
fn synced_records_replay_over_many_starts_and_segments() {
    let mut disk = disk();
    let mut next = 1;
    for start in 0..8 {
        let mut wal = begin(&disk, start);
        for size in [10, 3_000, 10, 3_000, 9_000] {
            wal.append(&commits(next..next + 2, size)).unwrap();
            wal.sync().unwrap();
            next += 2;
        }
        if start % 2 == 0 {
            wal.write_sync_marker().unwrap();
        }
        drop(wal);
        disk = disk.crash(CrashPolicy::Torn, start);
        let (replayed, seen) = read(&disk, CLUSTER, 0).unwrap();
        assert_eq!(seen, (1..next).collect::<Vec<_>>());
        assert_eq!(replayed.last_seq, next - 1);
        let (_, seen) = read(&disk, CLUSTER, next - 3).unwrap();
        assert_eq!(seen, [next - 2, next - 1]);
    }
}

/// A damaged log, in one segment unless said otherwise.
enum Case {
    /// Four groups, synced one by one; the n-th is damaged.
    Damaged(usize),
    /// Four synced groups and a sync marker at a clean end; the n-th group is damaged.
    DamagedAfterCleanEnd(usize),
    /// Two groups synced, two more written together; the n-th is damaged.
    Unsynced(usize),
    /// Two segments; the first is damaged.
    FirstSegment,
    /// Two segments; the second one's header is damaged.
    Header,
}

/// Creates the log. Returns how many records can be read, or an error if the log is refused.
fn judge(case: &Case) -> Result<u64, ()> {
    let disk = disk();
    let mut wal = begin(&disk, 1);
    let group = 800;
    let (mut names, mut ends) = (vec![], vec![]);
    for seq in 1..=4 {
        let size = if matches!(case, Case::FirstSegment | Case::Header) { 3_900 } else { group };
        ends.push(wal.append(&commits([seq], size)).unwrap());
        let unsynced = matches!(case, Case::Unsynced(_)) && seq > 2;
        if !unsynced {
            wal.sync().unwrap();
        }
        names = disk.files(Path::new(DIR));
    }
    if matches!(case, Case::DamagedAfterCleanEnd(_)) {
        wal.write_sync_marker().unwrap();
    }
    let disk = disk.crash(CrashPolicy::Everything, 1);
    let middle = |n: usize| SEGMENT_HEADER + ends[..n - 1].iter().sum::<usize>() + 500;
    let (file, offset) = match case {
        Case::Damaged(n) | Case::DamagedAfterCleanEnd(n) | Case::Unsynced(n) => (0, middle(*n)),
        Case::FirstSegment => (0, SEGMENT_HEADER + 500),
        Case::Header => (1, 12),
    };
    disk.damage(&Path::new(DIR).join(&names[file].0), offset);
    match read(&disk, CLUSTER, 0) {
        Ok((replayed, _)) => Ok(replayed.last_seq),
        Err(OpenError::Damaged { .. }) => Err(()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn replay_cuts_unconfirmed_records_and_refuses_the_loss_of_confirmed_ones() {
    let table = [
        ("a later group confirms the first", Case::Damaged(1), Err(())),
        ("a later group confirms the second", Case::Damaged(2), Err(())),
        ("the third was confirmed by the fourth", Case::Damaged(3), Err(())),
        ("nothing says that the last group was durable", Case::Damaged(4), Ok(3)),
        ("the clean end says so", Case::DamagedAfterCleanEnd(4), Err(())),
        ("written with the last, confirmed by none", Case::Unsynced(3), Ok(2)),
        ("the last of two unsynced ones", Case::Unsynced(4), Ok(3)),
        ("the second is confirmed by the third", Case::Unsynced(2), Err(())),
        ("a segment with a successor is whole", Case::FirstSegment, Err(())),
        ("a segment has its name only with its header", Case::Header, Err(())),
    ];
    for (why, case, expected) in table {
        assert_eq!(judge(&case), expected, "{why}");
    }
}

#[test]
fn missing_and_foreign_segments_and_a_truncated_log_are_refused() {
    let disk = disk();
    let mut wal = begin(&disk, 1);
    for seq in 1..=6 {
        wal.append(&commits([seq], 3_000)).unwrap();
        wal.sync().unwrap();
    }
    assert!(read(&disk, CLUSTER + 1, 0).is_err(), "another store's");
    assert!(read(&disk, CLUSTER, 6).is_ok());
    assert!(read(&disk, CLUSTER, 7).is_err(), "the checkpoint is ahead of the log");
    let files = disk.files(Path::new(DIR));
    assert!(files.len() > 2, "{files:?}");
    disk.remove(&Path::new(DIR).join(&files[1].0)).unwrap();
    assert!(read(&disk, CLUSTER, 0).is_err(), "a gap");
    disk.remove(&Path::new(DIR).join(&files[0].0)).unwrap();
    assert!(read(&disk, CLUSTER, 0).is_err(), "it begins too late");
    assert!(read(&disk, CLUSTER, 4).is_ok());
}

#[test]
fn segments_without_needed_records_are_deleted() {
    let disk = disk();
    let mut wal = begin(&disk, 1);
    for seq in 1..=6 {
        wal.append(&commits([seq], 3_000)).unwrap();
        wal.sync().unwrap();
    }
    let segments = WalSegments::list(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    let firsts = segments.first_seqs();
    segments.remove_upto(firsts[1] - 2).unwrap();
    assert_eq!(segments.first_seqs(), firsts);
    segments.remove_upto(firsts[1] - 1).unwrap();
    assert_eq!(segments.first_seqs(), firsts[1..]);
    segments.remove_upto(100).unwrap();
    assert_eq!(segments.first_seqs(), firsts[firsts.len() - 1..], "the newest stays");
    assert_eq!(disk.files(Path::new(DIR)).len(), 1);
}
