//! Tests of salvage: flipped bytes and missing files against the known content of a sample store.

use super::SalvageReport;
use super::export::{salvage_from, save_from};
use super::losses::Losses;
use super::offline_tests::{FILE, SAMPLE, config, copy, examined, files, reopened, restored, survey};
use super::tests::DIR;
use crate::codec::frame::{SEGMENT_HEADER, SegmentHeader, decode_group};
use crate::codec::history::{self, FILE_HEADER, HistoryEntry};
use crate::codec::record;
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::disk::{Disk, read_all};
use crate::{KeyRange, KeyValue, Range, Revision, Store, manifest};
use bytes::Bytes;
use kstore_nondet::Rng;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use proptest::sample::Index;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Revisions = BTreeSet<Revision>;

fn content(disk: &SimDisk, path: &Path) -> Vec<u8> {
    read_all(&*disk.open(path).unwrap()).unwrap()
}

fn is_in(path: &Path, dir: &str) -> bool {
    path.parent() == Some(&Path::new(DIR).join(dir))
}

/// The revisions of which something is stored in the record, or log group, at an offset of an undamaged file.
fn hit_revisions(disk: &SimDisk, path: &Path, offset: usize) -> Revisions {
    let bytes = content(disk, path);
    if is_in(path, "engine") {
        let mut at = FILE_HEADER.len();
        while let Some((entry, len)) = bytes.get(at..).and_then(history::read) {
            if (at..at + len).contains(&offset) {
                return match entry {
                    HistoryEntry::Record(_, key, _) => Revisions::from([key.main]),
                    HistoryEntry::Packed(packed) => Revisions::from([packed.key.main]),
                    // Of a dictionary there is another copy.
                    HistoryEntry::Removed(_) | HistoryEntry::StandIn(_) | HistoryEntry::Dictionary(_) => {
                        Revisions::new()
                    }
                };
            }
            at += len;
        }
        return Revisions::new();
    }
    if !is_in(path, "wal") {
        return Revisions::new();
    }
    let mut at = SEGMENT_HEADER;
    let epoch = SegmentHeader::decode(&bytes).unwrap().epoch;
    while let Some(group) = decode_group(&bytes, at, epoch) {
        if (at..group.end).contains(&offset) {
            return revisions_of(group.payload);
        }
        at = group.end;
    }
    Revisions::new()
}

/// The revisions of a group's records.
fn revisions_of(mut payload: &[u8]) -> Revisions {
    let mut found = Revisions::new();
    while !payload.is_empty() {
        let (record, len) = record::decode(payload).unwrap();
        if !record.changes.is_empty() {
            found.insert(Revision(record.revision));
        }
        payload = &payload[len..];
    }
    found
}

/// All revisions of which something is stored in a file.
fn all_revisions(path: &Path) -> Revisions {
    let len = content(&SAMPLE.disk, path).len();
    (0..len).step_by(8).flat_map(|at| hit_revisions(&SAMPLE.disk, path, at)).collect()
}

/// The revision of a key's last change in the sample, and its last value.
fn last_change(key: &[u8]) -> (Revision, Option<&'static KeyValue>) {
    let state = SAMPLE.states.last().unwrap();
    if let Some(kv) = state.kvs.iter().find(|kv| kv.key() == key) {
        return (kv.mod_revision(), Some(kv));
    }
    let has = |state: &&crate::RangeResult| state.kvs.iter().any(|kv| kv.key() == key);
    let last = SAMPLE.states.iter().rposition(|state| has(&state));
    (last.map_or(SAMPLE.compacted, |last| Revision(SAMPLE.compacted.0 + last as i64 + 1)), None)
}

fn contains(lost: &Losses, revision: Revision) -> bool {
    lost.revisions.iter().any(|range| range.contains(revision))
}

fn salvaged(disk: &SimDisk) -> SalvageReport {
    salvage_from(survey(disk), disk, Path::new(FILE), &mut |_, _| {}).unwrap()
}

/// Salvages a damaged disk, and checks against the sample that everything outside `hit` was kept, and that the report
/// names everything else.
fn salvage_and_judge(disk: &SimDisk, hit: &Revisions) {
    let is_intact = examined(disk).problems.is_empty();
    let report = salvaged(disk);
    let restored = restored(disk);
    assert_eq!(examined(&restored).problems, [], "the restored store is sound");
    let store = super::tests::open(&restored).unwrap();
    let read = store.range(&Range::new(KeyRange::all())).unwrap();
    assert_eq!(store.revision(), report.snapshot.revision);
    assert_eq!(is_intact, save_from(survey(disk), disk, Path::new(FILE), &mut |_, _| {}).is_ok());
    assert!(!is_intact || report.lost.is_empty(), "{report:?}");
    for range in &report.lost.revisions {
        for revision in (range.first.0..=range.last.0).map(Revision) {
            assert!(hit.contains(&revision), "{revision} was readable: {report:?}");
        }
    }
    let known = SAMPLE.states.iter().flat_map(|state| &state.kvs).map(|kv| kv.key_bytes());
    for key in known.collect::<BTreeSet<Bytes>>() {
        let (changed, last) = last_change(&key);
        let found = read.kvs.iter().find(|kv| kv.key() == &key[..]);
        if found.map(|kv| &**kv) == last {
            continue;
        }
        let key = key.escape_ascii();
        let is_removal_lost = last.is_none() && report.lost.unknown > 0;
        assert!(hit.contains(&changed) || is_removal_lost, "key {key} of {changed} is readable: {report:?}");
        // No record confirms the last group of a log, so its loss cannot be seen.
        let is_unconfirmed = changed > report.snapshot.revision;
        let is_reported = contains(&report.lost, changed) || report.lost.unknown > 0;
        assert!(is_reported || is_unconfirmed, "key {key} of {changed} is not reported: {report:?}");
    }
    for version in report.lost.versions.iter().filter(|version| version.revision > SAMPLE.compacted) {
        assert!(contains(&report.lost, version.revision), "{report:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn salvage_keeps_every_record_without_a_flipped_byte_and_names_the_others(
        hits in vec((any::<Index>(), any::<Index>()), 1..4),
    ) {
        crate::tests::conformance::block_on(async {
            let disk = copy(&SAMPLE.disk);
            let mut hit = Revisions::new();
            let mut headers = BTreeSet::new();
            for (file, at) in hits {
                let files = files(&disk);
                let (path, len) = &files[file.index(files.len())];
                let at = at.index(*len);
                disk.damage(path, at);
                hit.extend(hit_revisions(&SAMPLE.disk, path, at));
                // Without its header and its first group, a segment of the log is unreadable.
                if is_in(path, "wal") && !headers.insert(path.clone()) {
                    hit.extend(all_revisions(path));
                }
            }
            salvage_and_judge(&disk, &hit);
        });
    }

    #[test]
    fn salvage_keeps_every_record_outside_a_missing_file(gone in any::<Index>()) {
        crate::tests::conformance::block_on(async {
            let disk = copy(&SAMPLE.disk);
            let files = files(&disk);
            let path = &files[gone.index(files.len())].0;
            let hit = all_revisions(path);
            disk.remove(path).unwrap();
            salvage_and_judge(&disk, &hit);
        });
    }
}

/// A store of keys that were written once, most of them so long ago that the log has them no more.
async fn keys_written_once(keys: i64) -> SimDisk {
    let disk = SimDisk::default();
    let store = Store::open_stepped(Arc::new(disk.clone()), &config(), &Rng::seeded(3)).unwrap();
    for at in 0..keys {
        store.put(format!("key-{at:03}"), vec![b'v'; 150]).await.unwrap();
    }
    disk.crash(CrashPolicy::Nothing, 1)
}

/// Regression: one damaged newest version made salvage drop all newer revisions, and report nothing lost.
#[test]
fn a_damaged_version_is_the_only_loss_and_is_reported_with_its_key() {
    const KEYS: i64 = 300;
    crate::tests::conformance::block_on(async {
        let intact = keys_written_once(KEYS).await;
        let engine = Path::new(DIR).join("engine");
        let (mut lost, mut kept) = (0, 0);
        for (name, len) in intact.files(&engine) {
            let path = engine.join(name);
            for at in (60..len).step_by(601) {
                let hit = hit_revisions(&intact, &path, at);
                let Some(revision) = hit.first().copied() else { continue };
                let disk = copy(&intact);
                disk.damage(&path, at);
                let report = salvaged(&disk);
                let store = reopened(&disk);
                assert_eq!(store.revision(), Revision(KEYS + 1), "{report:?}");
                let found = store.range(&Range::new(KeyRange::all())).unwrap();
                if report.lost.is_empty() {
                    assert_eq!(found.count, KEYS, "the log has a copy");
                    kept += 1;
                    continue;
                }
                lost += 1;
                assert_eq!(found.count, KEYS - 1, "{report:?}");
                assert_eq!(report.lost.revisions_text(), revision.to_string());
                let [version] = &report.lost.versions[..] else { panic!("{report:?}") };
                assert_eq!((version.revision, version.kept), (revision, None));
                let is_gone = found.kvs.iter().all(|kv| kv.key() != &version.key[..]);
                // The damaged byte may be one of the key's.
                assert!(is_gone && version.key.len() == "key-000".len(), "{version}");
            }
        }
        assert!(lost > 20 && kept > 5, "{lost} {kept}");
    });
}

#[test]
fn revisions_in_a_missing_engine_file_are_reported_as_lost() {
    const KEYS: i64 = 300;
    crate::tests::conformance::block_on(async {
        let disk = keys_written_once(KEYS).await;
        let engine = Path::new(DIR).join("engine");
        let (name, _) = disk.files(&engine).remove(1);
        disk.remove(&engine.join(&name)).unwrap();
        let report = salvaged(&disk);
        let [range] = &report.lost.revisions[..] else { panic!("{report:?}") };
        let missing = range.last.0 - range.first.0 + 1;
        let found = reopened(&disk).range(&Range::new(KeyRange::all())).unwrap();
        assert!(missing > 5 && report.lost.unknown > 0, "{report:?}");
        assert_eq!((found.count, found.revision), (KEYS - missing, Revision(KEYS + 1)));
        assert!(report.problems.iter().any(|problem| problem.to_string().contains(&name)), "{report:?}");
    });
}

#[test]
fn a_complete_log_replaces_the_whole_engine() {
    crate::tests::conformance::block_on(async {
        let disk = keys_written_once(3).await;
        let store = Store::open_stepped(Arc::new(disk.clone()), &config(), &Rng::seeded(5)).unwrap();
        store.close().await;
        drop(store);
        let engine = Path::new(DIR).join("engine");
        for (name, _) in disk.files(&engine) {
            disk.remove(&engine.join(name)).unwrap();
        }
        assert!(!examined(&disk).problems.is_empty(), "the checkpoint names files");
        let report = salvaged(&disk);
        assert!(report.lost.is_empty(), "{report:?}");
        let found = reopened(&disk).range(&Range::new(KeyRange::all())).unwrap();
        assert_eq!((found.count, found.revision), (3, Revision(4)));
    });
}

#[test]
fn intact_groups_after_damage_in_the_log_are_kept() {
    crate::tests::conformance::block_on(async {
        let segments = files(&SAMPLE.disk).into_iter().filter(|(path, _)| is_in(path, "wal"));
        let segments: Vec<(PathBuf, usize)> = segments.collect();
        let (path, _) = &segments[segments.len() - 1];
        let state = SAMPLE.states.last().unwrap();
        let bytes = content(&SAMPLE.disk, path);
        let epoch = SegmentHeader::decode(&bytes).unwrap().epoch;
        let mut groups = Vec::new();
        let mut at = SEGMENT_HEADER;
        while let Some(group) = decode_group(&bytes, at, epoch) {
            if group.header.count > 0 {
                groups.push((at + 60, revisions_of(group.payload)));
            }
            at = group.end;
        }
        assert!(groups.len() > 3, "{}", groups.len());
        for (at, hit) in &groups[..groups.len() - 1] {
            let disk = copy(&SAMPLE.disk);
            disk.damage(path, *at);
            let report = salvaged(&disk);
            assert_eq!(report.snapshot.revision, state.revision, "{report:?}");
            salvage_and_judge(&disk, hit);
        }
        // A torn last group is no loss: no client got an answer.
        let disk = copy(&SAMPLE.disk);
        disk.damage(path, groups[groups.len() - 1].0);
        assert!(salvaged(&disk).lost.is_empty());
    });
}

/// Regression: with the older manifest, the log had a version whose deletion was in a damaged group, and the engine had
/// neither since a compaction; the version came back, and nothing was reported as lost.
#[test]
fn damage_in_the_newest_manifest_and_in_a_group_of_the_log_is_reported() {
    crate::tests::conformance::block_on(async {
        let files = files(&SAMPLE.disk);
        let (manifest, _) = &files[0];
        assert!(manifest.ends_with(manifest::CURRENT), "{files:?}");
        for (path, _) in files.iter().filter(|(path, _)| is_in(path, "wal")) {
            let bytes = content(&SAMPLE.disk, path);
            let epoch = SegmentHeader::decode(&bytes).unwrap().epoch;
            let mut at = SEGMENT_HEADER;
            while let Some(group) = decode_group(&bytes, at, epoch) {
                let disk = copy(&SAMPLE.disk);
                disk.damage(manifest, 0);
                disk.damage(path, at);
                salvage_and_judge(&disk, &hit_revisions(&SAMPLE.disk, path, at));
                at = group.end;
            }
        }
    });
}

#[test]
fn one_flipped_bit_and_a_record_with_a_copy_in_the_log_lose_nothing() {
    crate::tests::conformance::block_on(async {
        let engine = Path::new(DIR).join("engine");
        let disk = copy(&SAMPLE.disk);
        let (name, len) = disk.files(&engine).pop().unwrap();
        disk.damage(&engine.join(&name), len - 1);
        let found = examined(&disk).problems;
        assert!(found[0].to_string().contains(&name) && found[0].offset.is_some(), "{found:?}");
        assert!(salvaged(&disk).lost.is_empty());
        let read = reopened(&disk).range(&Range::new(KeyRange::all())).unwrap();
        assert_eq!(&read, SAMPLE.states.last().unwrap());
        let once = keys_written_once(300).await;
        for (name, len) in once.files(&engine) {
            let (disk, path, at) = (copy(&once), engine.join(name), len / 2);
            let flipped = content(&disk, &path)[at] ^ 4;
            disk.overwrite(&path, at, &[flipped]);
            let report = salvaged(&disk);
            assert!(report.lost.is_empty(), "{report:?}");
            let found = reopened(&disk).range(&Range::new(KeyRange::all())).unwrap();
            assert_eq!((found.count, found.revision), (300, Revision(301)));
        }
    });
}
