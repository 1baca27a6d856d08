//! Tests of the simulated disk: what it keeps, loses and reports, so that tests of the store can rely on it.

use super::{CacheAfterFailure, CrashPolicy, Fault, OperationKind, SECTOR, SimDisk};
use crate::disk::{Disk, File, read_all};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/d";

fn path(name: &str) -> std::path::PathBuf {
    Path::new(DIR).join(name)
}

/// A disk with one file whose durable content is `old`.
fn disk(old: &[u8]) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::default();
    disk.create_dir(Path::new(DIR)).unwrap();
    let file = disk.create(&path("f")).unwrap();
    file.write_at(0, old).unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    (disk, file)
}

fn content(disk: &SimDisk) -> Vec<u8> {
    read_all(&*disk.open(&path("f")).unwrap()).unwrap()
}

#[test]
fn synced_data_survives_every_crash_and_unsynced_data_follows_the_policy() {
    let (disk, file) = disk(&[1; 2 * SECTOR]);
    file.write_at(0, &[2; 2 * SECTOR]).unwrap();
    file.write_at(0, &[3; 2 * SECTOR]).unwrap();
    let after = |policy| (0..64).map(move |seed| (policy, seed));
    for (policy, seed) in CrashPolicy::ALL.into_iter().flat_map(after) {
        let found = content(&disk.crash(policy, seed));
        assert_eq!(found, content(&disk.crash(policy, seed)), "the same seed, the same disk");
        let halves = (found[0], found[SECTOR]);
        match policy {
            CrashPolicy::Nothing => assert_eq!(halves, (1, 1)),
            CrashPolicy::Everything => assert_eq!(halves, (3, 3)),
            CrashPolicy::Prefix | CrashPolicy::Subset | CrashPolicy::Reordered => {
                assert_eq!(halves.0, halves.1, "{policy:?}");
            }
            CrashPolicy::Torn => {}
        }
        assert!(found[..SECTOR].iter().all(|byte| *byte == halves.0), "a sector does not tear");
    }
    let seen = |policy| (0..64).map(|seed| content(&disk.crash(policy, seed))[0]).collect::<BTreeSet<_>>();
    assert_eq!(seen(CrashPolicy::Prefix), BTreeSet::from([1, 2, 3]));
    assert_eq!(seen(CrashPolicy::Reordered), BTreeSet::from([1, 2, 3]));
    let torn = (0..64).any(|seed| {
        let found = content(&disk.crash(CrashPolicy::Torn, seed));
        found[0] != found[SECTOR]
    });
    assert!(torn);
}

#[test]
fn names_are_lost_unless_their_directory_was_synced() {
    let (disk, _) = disk(b"f");
    disk.create(&path("g")).unwrap().sync().unwrap();
    disk.rename(&path("f"), &path("h")).unwrap();
    disk.remove(&path("g")).unwrap();
    let names = |disk: &SimDisk| disk.list(Path::new(DIR)).unwrap().join(" ");
    assert_eq!(names(&disk), "h");
    assert_eq!(names(&disk.crash(CrashPolicy::Nothing, 1)), "f");
    assert_eq!(names(&disk.crash(CrashPolicy::Everything, 1)), "h");
    let seen = |policy| (0..64).map(|seed| names(&disk.crash(policy, seed))).collect::<BTreeSet<_>>();
    assert_eq!(seen(CrashPolicy::Prefix), ["f", "f g", "g h", "h"].map(str::to_owned).into());
    assert!(seen(CrashPolicy::Reordered).is_superset(&seen(CrashPolicy::Prefix)));
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(names(&disk.crash(CrashPolicy::Nothing, 1)), "h");
}

#[test]
fn directories_are_lost_with_their_content_unless_their_parent_was_synced() {
    let disk = SimDisk::default();
    let (above, dir, file) = (Path::new("/a"), Path::new("/a/b"), Path::new("/a/b/f"));
    disk.make_dir(above).unwrap();
    disk.make_dir(dir).unwrap();
    disk.create(file).unwrap().sync().unwrap();
    disk.sync_dir(dir).unwrap();
    let is_left = |disk: &SimDisk, policy, seed| {
        let after = disk.crash(policy, seed);
        (after.is_dir(above), after.is_dir(dir), after.open(file).is_ok())
    };
    assert_eq!(is_left(&disk, CrashPolicy::Nothing, 1), (false, false, false));
    assert_eq!(is_left(&disk, CrashPolicy::Everything, 1), (true, true, true));
    let seen: BTreeSet<_> = (0..64).map(|seed| is_left(&disk, CrashPolicy::Subset, seed)).collect();
    assert_eq!(seen, [(false, false, false), (true, false, false), (true, true, true)].into());
    disk.sync_dir(above).unwrap();
    assert_eq!(
        is_left(&disk, CrashPolicy::Nothing, 1),
        (false, false, false),
        "the one above is not durable"
    );
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(is_left(&disk, CrashPolicy::Nothing, 1), (true, true, true));
    assert!(disk.make_dir(Path::new("/x/y")).is_err() && disk.sync_dir(Path::new("/x")).is_err());
    disk.set_fault(Some(Fault::ErrorAt(disk.ops())));
    assert!(disk.create_dir(dir).is_err(), "the sync of the one above fails");
}

#[test]
fn a_failed_sync_drops_writes_and_the_cache_shows_old_or_new_content() {
    for (fault, shown) in [
        (Fault::ErrorAt as fn(u64) -> Fault, 2),
        (|at| Fault::ForgetAt(at, CacheAfterFailure::New), 2),
        (|at| Fault::ForgetAt(at, CacheAfterFailure::Old), 1),
    ] {
        let (disk, file) = disk(&[1; 64 * SECTOR]);
        file.write_at(0, &[2; 64 * SECTOR]).unwrap();
        disk.set_fault(Some(fault(disk.ops())));
        assert!(file.sync().is_err());
        assert!(content(&disk).contains(&shown));
        file.sync().unwrap();
        let after = content(&disk.crash(CrashPolicy::Everything, 1));
        assert!(after.contains(&1), "the second sync says yes and has written nothing");
    }
}

#[test]
fn writes_can_be_short_lost_misdirected_or_find_no_space() {
    let (new, len) = ([2; 4], 2 * SECTOR);
    let write = |fault: fn(u64) -> Fault| {
        let (disk, file) = disk(&vec![1; len]);
        disk.set_fault(Some(fault(disk.ops())));
        let outcome = file.write_at(0, &new).map_err(|error| error.kind());
        file.sync().unwrap();
        let after = content(&disk.crash(CrashPolicy::Nothing, 1));
        (outcome, after[..4].to_vec(), after[SECTOR..SECTOR + 4].to_vec())
    };
    let (old, new) = (vec![1; 4], vec![2; 4]);
    assert_eq!(write(Fault::ShortAt), (Err(ErrorKind::Other), vec![2, 2, 1, 1], old.clone()));
    assert_eq!(write(Fault::LostAt), (Ok(()), old.clone(), old.clone()));
    assert_eq!(write(Fault::MisdirectedAt), (Ok(()), old.clone(), new));
    assert_eq!(write(Fault::NoSpaceAt), (Err(ErrorKind::StorageFull), old.clone(), old));
    let (disk, file) = disk(&[1; 100]);
    disk.set_capacity(Some(110));
    file.write_at(50, &[2; 60]).unwrap();
    assert_eq!(file.write_at(110, b"x").map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
    file.write_at(0, b"in place").unwrap();
    assert_eq!(disk.used(), 110);
    disk.remove(&path("f")).unwrap();
    assert_eq!(disk.used(), 0);
}

#[test]
fn reads_can_fail_flip_a_bit_or_be_stale() {
    let (disk, file) = disk(&[1; 8]);
    file.write_at(0, &[2; 8]).unwrap();
    file.sync().unwrap();
    let read = |fault: fn(u64) -> Fault| {
        disk.set_fault(Some(fault(disk.reads())));
        let mut buffer = [0; 8];
        file.read_at(0, &mut buffer).map(|_| buffer).ok()
    };
    assert_eq!(read(Fault::ReadErrorAt), None);
    assert_eq!(read(Fault::StaleAt), Some([1; 8]));
    let flipped: u32 = read(Fault::FlippedAt).unwrap().iter().map(|byte| (byte ^ 2u8).count_ones()).sum();
    assert_eq!(flipped, 1);
    assert_eq!(read(|at| Fault::StaleAt(at + 1)), Some([2; 8]));
}

#[test]
fn a_stopped_machine_changes_nothing_and_the_log_has_its_operations() {
    let (disk, file) = disk(b"old");
    disk.set_fault(Some(Fault::CrashAt(disk.ops() + 1)));
    file.write_at(0, b"new").unwrap();
    assert!(file.sync().is_err() && file.write_at(0, b"x").is_err() && disk.create(&path("g")).is_err());
    assert_eq!(content(&disk.crash(CrashPolicy::Nothing, 1)), b"old");
    assert_eq!(
        content(&disk.crash(CrashPolicy::Everything, 1)),
        b"new",
        "a write that was under way may be there"
    );
    let log: Vec<_> = disk.log().iter().map(ToString::to_string).collect();
    let known = [
        "CreateDir /d",
        "SyncDir /",
        "Create /d/f",
        "Write /d/f 0+3",
        "Sync /d/f",
        "SyncDir /d",
        "Write /d/f 0+3",
    ];
    assert_eq!(log[..7], known);
    assert_eq!((disk.count(OperationKind::Sync), disk.count(OperationKind::Create)), (2, 2), "tries count");
}
