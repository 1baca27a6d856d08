//! Tests of every engine against a map: random operations, and reopening at the last seal.

use super::memory::MemoryEngine;
use super::segments::SegmentsEngine;
use super::sled::SledEngine;
use super::{DefragmentOutcome, Engine};
use crate::disk::Disk;
use crate::disk::sim::{CrashPolicy, SimDisk};
use crate::tests::conformance::cases;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::{Limits, Revision};
use bytes::Bytes;
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
