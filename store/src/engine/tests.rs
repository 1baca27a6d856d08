//! Tests of every engine against a map: random operations, and reopening at the last seal.

use super::memory::MemoryEngine;
use super::reader::LoadCallbacks;
use super::segments::SegmentsEngine;
use super::sled::SledEngine;
use super::{DefragmentOutcome, Engine, Repairable};
use crate::disk::Disk;
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::recovery::rebuild::prepare;
use crate::tests::conformance::cases;
use crate::types::kv::Stamp;
use crate::types::kv_encoding;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::{LeaseId, Limits, Revision};
use bytes::Bytes;
use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Action {
    /// Writes a revision with this number of changes, and with a note if true.
    Put(u32, bool, usize),
    /// Removes every n-th record.
    Remove(usize, usize),
    Tidy,
    Seal,
    /// Reopens the engine at the last seal.
    Reopen,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0u32..4, any::<bool>(), 0usize..300).prop_map(|(changes, note, len)| Action::Put(changes, note, len)),
        3 => (0usize..5, 1usize..6).prop_map(|(from, step)| Action::Remove(from, step)),
        3 => proptest::strategy::Just(Action::Tidy),
        2 => proptest::strategy::Just(Action::Seal),
        1 => proptest::strategy::Just(Action::Reopen),
    ]
}

type Model = BTreeMap<RecordKey, Record>;

/// Opens an engine with a token, after a crash or not.
trait EngineFactory {
    fn open(&mut self, token: Option<&[u8]>) -> Box<dyn Engine>;
    /// Whether changes after the last seal may survive.
    const MAY_KEEP_MORE: bool = false;
}

struct Segments(SimDisk);

impl EngineFactory for Segments {
    fn open(&mut self, token: Option<&[u8]>) -> Box<dyn Engine> {
        self.0 = self.0.crash(CrashPolicy::Torn, 5);
        self.0.create_dir(Path::new("/engine")).unwrap();
        let limits = Limits { engine_file_bytes: 500, ..Limits::default() };
        Box::new(
            SegmentsEngine::open(Arc::new(self.0.clone()), Path::new("/engine"), token, &limits).unwrap(),
        )
    }
}

struct Sled(tempfile::TempDir);

impl EngineFactory for Sled {
    fn open(&mut self, token: Option<&[u8]>) -> Box<dyn Engine> {
        Box::new(SledEngine::open(&self.0.path().join("sled"), token).unwrap())
    }

    const MAY_KEEP_MORE: bool = true;
}

fn check(engine: &dyn Engine, model: &Model) {
    let last = Revision(model.last_key_value().map_or(0, |(key, _)| key.main.0));
    let (mut scanned, mut from) = (Vec::new(), Revision(0));
    while from <= last {
        let scan = engine.scan(from, last, 200).unwrap();
        let behind = scan.records.last().is_none_or(|record| record.key.main < scan.next);
        assert!(scan.next > from && behind, "a scan goes on behind a whole revision");
        scanned.extend(scan.records);
        from = scan.next;
    }
    assert_eq!(scanned, model.values().cloned().collect::<Vec<_>>());
    for (key, record) in model {
        assert_eq!(engine.get(*key).unwrap().as_ref(), Some(&record.bytes));
    }
    assert_eq!(engine.get(RecordKey::new(last.next(), 0)).unwrap(), None);
    let notes: Vec<_> = model.keys().filter(|key| key.is_note()).map(|key| key.main).collect();
    assert_eq!(engine.notes_below(last.next()).unwrap(), notes);
}

fn put(main: i64, changes: u32, note: bool, len: usize) -> Vec<Record> {
    let bytes = |sub: u32| Bytes::from(vec![sub as u8; len]);
    let kind = |sub: u32| if sub.is_multiple_of(2) { RecordKind::Put } else { RecordKind::Delete };
    let main = Revision(main);
    let change = |sub| Record { key: RecordKey::new(main, sub), kind: kind(sub), bytes: bytes(sub) };
    let note = note.then(|| Record { key: RecordKey::note(main), kind: RecordKind::Note, bytes: bytes(9) });
    (0..changes).map(change).chain(note).collect()
}

fn run<S: EngineFactory>(mut site: S, actions: Vec<Action>) {
    let mut engine = site.open(None);
    let (mut model, mut sealed, mut token) = (Model::new(), Model::new(), None);
    for (main, action) in (1..).zip(actions) {
        match action {
            Action::Put(changes, note, len) => {
                let records = put(main, changes, note, len);
                engine.put(&records).unwrap();
                engine.put(&records).unwrap();
                model.extend(records.into_iter().map(|record| (record.key, record)));
            }
            Action::Remove(from, step) => {
                let keys: Vec<_> = model.keys().copied().skip(from).step_by(step).collect();
                engine.remove(&keys).unwrap();
                engine.remove(&keys).unwrap();
                keys.iter().for_each(|key| drop(model.remove(key)));
            }
            Action::Tidy => while engine.defragment().unwrap() == DefragmentOutcome::More {},
            Action::Seal => {
                token = Some(engine.seal().unwrap());
                engine.sealed().unwrap();
                sealed = model.clone();
            }
            Action::Reopen => {
                drop(engine);
                engine = site.open(token.as_deref());
                if !S::MAY_KEEP_MORE || token.is_none() {
                    model = sealed.clone();
                }
            }
        }
        check(&*engine, &model);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_segment_engine_behaves_like_a_map(actions in vec(action(), 1..80)) {
        run(Segments(SimDisk::default()), actions);
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn the_sled_engine_behaves_like_a_map(actions in vec(action(), 1..40)) {
        run(Sled(tempfile::tempdir().unwrap()), actions);
    }
}

#[test]
fn the_memory_engine_behaves_like_a_map() {
    let (engine, mut model) = (MemoryEngine::default(), Model::new());
    for main in 1..50 {
        let records = put(main, main as u32 % 4, main % 3 == 0, 30);
        engine.put(&records).unwrap();
        model.extend(records.into_iter().map(|record| (record.key, record)));
        let keys: Vec<_> = model.keys().copied().step_by(7).collect();
        engine.remove(&keys).unwrap();
        keys.iter().for_each(|key| drop(model.remove(key)));
        check(&engine, &model);
    }
    let wanted = model.values().map(|record| record.bytes.len() as u64).sum::<u64>();
    assert_eq!(engine.size().live, wanted);
}

#[test]
fn defragmentation_frees_the_space_of_removed_records() {
    let mut site = Segments(SimDisk::default());
    let engine = site.open(None);
    for main in 1..400 {
        engine.put(&put(main, 1, false, 100)).unwrap();
        if main > 20 {
            engine.remove(&[RecordKey::new(Revision(main - 20), 0)]).unwrap();
        }
        while engine.defragment().unwrap() == DefragmentOutcome::More {}
        if main % 10 == 0 {
            engine.seal().unwrap();
            engine.sealed().unwrap();
        }
    }
    let files = site.0.files(Path::new("/engine"));
    let on_disk = files.iter().map(|(_, len)| len).sum::<usize>() as u64;
    let size = engine.size();
    assert_eq!(size.live, 20 * 100);
    assert!(on_disk < 6 * size.live, "{on_disk} bytes on disk for {size:?}: {files:?}");
}

#[test]
fn a_damaged_record_is_reported_and_not_served() {
    let mut site = Segments(SimDisk::default());
    let engine = site.open(None);
    engine.put(&put(1, 1, false, 50)).unwrap();
    engine.put(&put(2, 1, false, 50)).unwrap();
    site.0.damage(Path::new("/engine/00000000.seg"), 60);
    assert!(engine.get(RecordKey::new(Revision(1), 0)).is_err());
    assert!(engine.get(RecordKey::new(Revision(2), 0)).unwrap().is_some());
}

/// Regression: files that sled creates between two seals were readable by everybody, in a directory of mode 0700.
#[cfg(target_os = "linux")]
#[test]
fn files_of_sled_are_owner_only_from_their_creation_on() {
    use std::os::unix::fs::PermissionsExt;

    fn modes(dir: &Path) -> Vec<(String, u32)> {
        let entries = std::fs::read_dir(dir).unwrap().flat_map(|entry| {
            let path = entry.unwrap().path();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            let below = if path.is_dir() { modes(&path) } else { Vec::new() };
            below.into_iter().chain([(path.display().to_string(), mode)])
        });
        entries.collect()
    }

    let dir = tempfile::tempdir().unwrap();
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    let engine = SledEngine::open(&dir.path().join("sled"), None).unwrap();
    for main in 2..6 {
        let bytes = Bytes::from(vec![7; 600_000]);
        let key = RecordKey::new(Revision(main), 0);
        engine.put(&[Record { key, kind: RecordKind::Put, bytes }]).unwrap();
    }
    rustix::process::umask(before);
    let found = modes(dir.path());
    assert!(found.iter().any(|(path, _)| path.contains("blobs/")), "{found:?}");
    let exposed: Vec<_> = found.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(exposed.is_empty(), "{exposed:?}");
}

/// An engine that packs: it is told the newest versions of a model.
struct Packing {
    disk: SimDisk,
    model: Arc<Mutex<Model>>,
}

/// The key of a version; the record is one of the tests'.
fn version_key(record: &Record) -> Bytes {
    record.bytes.slice(kv_encoding::key(&record.bytes))
}

fn newest_of(model: &Model) -> BTreeMap<Bytes, RecordKey> {
    let versions = model.values().filter(|record| record.kind != RecordKind::Note);
    versions.map(|record| (version_key(record), record.key)).collect()
}

impl Packing {
    /// Opens the engine at a token, and checks that an index which is made of what it reads has the values of all newest versions.
    fn open(&mut self, token: Option<&[u8]>) -> SegmentsEngine {
        self.disk = self.disk.crash(CrashPolicy::Torn, 5);
        let dir = Path::new("/engine");
        self.disk.create_dir(dir).unwrap();
        let limits = Limits { engine_file_bytes: 500, ..Limits::default() };
        let mut loaded = BTreeMap::new();
        let mut take = |versions: super::reader::PreparedVersions, is_live: &dyn Fn(u32) -> bool| {
            for (at, version) in versions.into_iter().filter(|(at, _)| is_live(*at)) {
                let _ = at;
                loaded.insert(RecordKey::new(version.main, version.sub), version);
            }
        };
        let mut reader = LoadCallbacks { prepare, take: &mut take };
        let disk = Arc::new(self.disk.clone());
        let engine = SegmentsEngine::open_reading(disk, dir, token, &limits, &|_| None, &mut reader).unwrap();
        let model = self.model.lock();
        for key in newest_of(&model).values() {
            assert_eq!(loaded[key].kv.encoded(), &model[key].bytes, "{key:?}");
        }
        drop(model);
        let model = Arc::clone(&self.model);
        engine.set_newest(Box::new(move |keys| {
            let newest = newest_of(&model.lock());
            keys.iter().map(|key| newest.get(*key).copied()).collect()
        }));
        engine
    }
}

/// Defragments and packs until nothing is left to do.
fn tidy(engine: &SegmentsEngine) {
    while engine.defragment().unwrap() == DefragmentOutcome::More || engine.pack().unwrap() > 0 {}
}

/// Versions of the first keys of four.
fn versions(main: i64, changes: u32, len: usize) -> Vec<Record> {
    let main = Revision(main);
    let version = |sub: u32| {
        let stamp = Stamp { create_revision: Revision(1), mod_revision: main, version: 2, lease: LeaseId(0) };
        let value =
            format!("{{\"revision\":{},\"name\":\"web-{sub}\",\"noise\":\"{}\"}}", main.0, "ab".repeat(len));
        let bytes =
            kv_encoding::encode(format!("/registry/pods/web-{sub}").as_bytes(), value.as_bytes(), &stamp);
        Record { key: RecordKey::new(main, sub), kind: RecordKind::Put, bytes }
    };
    (0..changes).map(version).collect()
}

proptest! {
    #![proptest_config(cases(256))]

    /// Superseded versions alone are removed, as compaction does.
    #[test]
    fn a_segment_engine_that_packs_behaves_like_a_map(actions in vec(action(), 1..80)) {
        let mut site = Packing { disk: SimDisk::default(), model: Arc::default() };
        let mut engine = site.open(None);
        let (mut sealed, mut token) = (Model::new(), None);
        for (main, action) in (1..).zip(actions) {
            match action {
                Action::Put(changes, _, len) => {
                    let records = versions(main, changes, len / 3);
                    engine.put(&records).unwrap();
                    site.model.lock().extend(records.into_iter().map(|record| (record.key, record)));
                }
                Action::Remove(from, step) => {
                    let newest = newest_of(&site.model.lock());
                    let superseded = |record: &&Record| newest[&version_key(record)] != record.key;
                    let keys: Vec<_> =
                        site.model.lock().values().filter(superseded).map(|record| record.key).skip(from).step_by(step).collect();
                    engine.remove(&keys).unwrap();
                    keys.iter().for_each(|key| drop(site.model.lock().remove(key)));
                }
                Action::Tidy => tidy(&engine),
                Action::Seal => {
                    token = Some(engine.seal().unwrap());
                    engine.sealed().unwrap();
                    sealed = site.model.lock().clone();
                }
                Action::Reopen => {
                    drop(engine);
                    *site.model.lock() = sealed.clone();
                    engine = site.open(token.as_deref());
                }
            }
            let model = site.model.lock().clone();
            check(&engine, &model);
        }
    }
}

/// A sealed engine with many superseded versions, packed as far as they are, and its model.
fn packed() -> (Packing, SegmentsEngine, Bytes) {
    let mut site = Packing { disk: SimDisk::default(), model: Arc::default() };
    let engine = site.open(None);
    for main in 1..60 {
        let records = versions(main, 3, 100);
        engine.put(&records).unwrap();
        site.model.lock().extend(records.into_iter().map(|record| (record.key, record)));
    }
    let before = engine.size().live;
    tidy(&engine);
    assert!(engine.size().live * 2 < before, "{} of {before} bytes are left", engine.size().live);
    let token = engine.seal().unwrap();
    engine.sealed().unwrap();
    (site, engine, token)
}

#[test]
fn superseded_versions_are_packed_and_an_idle_engine_stays_idle() {
    let (site, engine, _) = packed();
    check(&engine, &site.model.lock());
    let written = site.disk.files(Path::new("/engine"));
    assert_eq!((engine.defragment().unwrap(), engine.pack().unwrap()), (DefragmentOutcome::Idle, 0));
    assert_eq!(site.disk.files(Path::new("/engine")), written);
}

#[test]
fn packed_records_are_copied_with_their_dictionary() {
    let (mut site, engine, _) = packed();
    let newest = newest_of(&site.model.lock());
    let is_superseded = |record: &&Record| newest[&version_key(record)] != record.key;
    // Most of each file goes, and a part of each group.
    let keys: Vec<_> = site.model.lock().values().filter(is_superseded).map(|record| record.key).collect();
    let removed: Vec<_> = keys.iter().enumerate().filter(|(at, _)| at % 8 > 1).map(|(_, key)| *key).collect();
    engine.remove(&removed).unwrap();
    removed.iter().for_each(|key| drop(site.model.lock().remove(key)));
    let before = site.disk.files(Path::new("/engine"));
    tidy(&engine);
    assert_ne!(site.disk.files(Path::new("/engine")), before, "wasteful files are copied");
    check(&engine, &site.model.lock());
    let plain: usize = site.model.lock().values().map(|record| record.bytes.len()).sum();
    assert!(engine.size().live < plain as u64, "{} of {plain}", engine.size().live);
    let token = engine.seal().unwrap();
    check(&site.open(Some(&token)), &site.model.lock());
}

#[test]
fn a_damaged_packed_record_is_named_and_its_neighbours_are_served() {
    let (site, engine, _) = packed();
    let model = site.model.lock().clone();
    let key = RecordKey::new(Revision(20), 1);
    let (path, offset) = engine.locate(key).unwrap();
    for at in [60, 62] {
        site.disk.damage(&path, usize::try_from(offset).unwrap() + at);
    }
    for (own, record) in &model {
        match engine.get(*own) {
            Ok(found) => assert_eq!(found.as_ref(), Some(&record.bytes)),
            Err(super::EngineError::Damaged(damaged)) => assert_eq!((damaged, *own), (key, key)),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(engine.get(key).is_err());
    assert_eq!(engine.correct(key).unwrap(), None, "two flipped bits");
    engine.rewrite(&model[&key]).unwrap();
    tidy(&engine);
    check(&engine, &model);
}

/// The offsets of the dictionaries in a file.
fn dictionaries(disk: &SimDisk, path: &Path) -> Vec<usize> {
    use crate::codec::history::{self, FILE_HEADER, HistoryEntry};
    let bytes = crate::disk::read_all(&*disk.open(path).unwrap()).unwrap();
    let (mut offset, mut found) = (FILE_HEADER.len(), Vec::new());
    while let Some((entry, len)) = history::read(&bytes[offset..]) {
        if matches!(entry, HistoryEntry::Dictionary(_)) {
            found.push(offset);
        }
        offset += len;
    }
    found
}

#[test]
fn a_damaged_copy_of_a_dictionary_loses_nothing() {
    for copy in 0..2 {
        let (mut site, engine, token) = packed();
        let (path, _) = engine.locate(RecordKey::new(Revision(20), 1)).unwrap();
        drop(engine);
        let places = dictionaries(&site.disk, &path);
        assert!(places.len() >= 2 && places.len().is_multiple_of(2), "{places:?}");
        for at in [25, 26, 27] {
            site.disk.damage(&path, places[copy] + at);
        }
        // Opening writes it again from the other copy.
        let engine = site.open(Some(&token));
        check(&engine, &site.model.lock());
        assert!(engine.repaired() > 0);
        assert_eq!(dictionaries(&site.disk, &path), places);
        // While the engine is open, reads use the other copy, and the copy of the file has none of it.
        for at in [25, 26, 27] {
            site.disk.damage(&path, places[copy] + at);
        }
        check(&engine, &site.model.lock());
        let mut scrubbed = false;
        for _ in 0..50 {
            scrubbed |= engine.scrub(1 << 20).unwrap().damaged;
        }
        assert!(scrubbed);
        tidy(&engine);
        check(&engine, &site.model.lock());
        let token = engine.seal().unwrap();
        check(&site.open(Some(&token)), &site.model.lock());
    }
}
