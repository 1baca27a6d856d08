//! Tests of engines that a restart finds lost, broken, behind or ahead, on real files. The store repairs what it can
//! and refuses to open otherwise.

use crate::engine::Engine;
use crate::engine::sled::{SledEngine, open_unlocked};
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::{
    Config, EngineKind, KeyRange, KeyValue, Limits, Op, OpenError, Range, Revision, Stamp, Store, Txn,
};
use kstore_nondet::Nondet;
use std::fs;
use std::path::{Path, PathBuf};

/// A configuration with small log segments; if `dropped`, old ones are deleted.
fn config(dir: &Path, engine: EngineKind, dropped: bool) -> Config {
    let checkpoint_bytes = if dropped { 1 << 12 } else { 1 << 40 };
    let limits = Limits {
        first_segment_bytes: 8 << 10,
        segment_bytes: 8 << 10,
        checkpoint_bytes,
        log_budget_bytes: 1 << 40,
        ..Limits::default()
    };
    Config { engine, limits, ..Config::durable(dir) }
}

/// Runs a future in real time, because the stores have threads.
fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future);
}

async fn open(config: &Config) -> Result<Store, OpenError> {
    Store::open(config.clone(), Nondet::real()).await
}

async fn fill(store: &Store, from: u32, to: u32) {
    for n in from..to {
        let put = Op::put(format!("k{:02}", n % 40), vec![b'v'; 500 + n as usize]);
        store.txn(Txn::of(vec![put])).await.unwrap();
    }
}

fn all(store: &Store) -> Vec<(Vec<u8>, usize)> {
    let found = store.range(&Range::new(KeyRange::all())).unwrap();
    found.kvs.iter().map(|kv| (kv.key().to_vec(), kv.value().len())).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Writes, closes, lets `harm` change the engine's directory (given a copy from an earlier time), and opens again.
/// Returns the content before, and the result of opening.
async fn after(
    engine: EngineKind,
    dropped: bool,
    harm: fn(&Path, &Path),
) -> (tempfile::TempDir, Vec<(Vec<u8>, usize)>, Result<Store, OpenError>) {
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir.path().join("data"), engine, dropped);
    let (engine, earlier) = (dir.path().join("data/engine"), dir.path().join("earlier"));
    let store = open(&config).await.unwrap();
    copy(&engine, &earlier);
    fill(&store, 0, 60).await;
    let mut expected = all(&store);
    store.close().await;
    // Every close makes a checkpoint; two checkpoints delete the log from which the engine could be rebuilt.
    for round in 1..3 * u32::from(dropped) {
        let store = open(&config).await.unwrap();
        fill(&store, round * 30, round * 30 + 30).await;
        expected = all(&store);
        store.close().await;
    }
    harm(&engine, &earlier);
    let opened = open(&config).await;
    (dir, expected, opened)
}

fn lose(engine: &Path, _: &Path) {
    fs::remove_dir_all(engine).unwrap();
    fs::create_dir(engine).unwrap();
}

fn go_back(engine: &Path, earlier: &Path) {
    fs::remove_dir_all(engine).unwrap();
    copy(earlier, engine);
}

fn overwrite(engine: &Path, _: &Path) {
    let mut files: Vec<PathBuf> = vec![engine.join("sled/db")];
    files.extend(fs::read_dir(engine).unwrap().map(|entry| entry.unwrap().path()));
    for file in files.into_iter().filter(|file| file.is_file()) {
        let len = fs::metadata(&file).unwrap().len() as usize;
        fs::write(file, vec![0x5a; len]).unwrap();
    }
}

#[test]
fn a_complete_log_rebuilds_any_lost_or_broken_engine() {
    block_on(async {
        for engine in [EngineKind::Segments, EngineKind::Sled] {
            for harm in [lose, go_back, overwrite] {
                let (_dir, expected, store) = after(engine, false, harm).await;
                let store = store.unwrap_or_else(|error| panic!("{engine:?}: {error}"));
                assert_eq!(all(&store), expected);
                fill(&store, 200, 220).await;
                store.close().await;
            }
        }
    });
}

#[test]
fn without_a_complete_log_a_lost_engine_is_refused() {
    block_on(async {
        for engine in [EngineKind::Segments, EngineKind::Sled] {
            for harm in [lose, go_back, overwrite] {
                let (_dir, _, store) = after(engine, true, harm).await;
                let error = store.expect_err("there is nothing to make the engine from");
                assert!(matches!(error, OpenError::EngineLost { .. }), "{engine:?}: {error}");
            }
        }
    });
}

#[test]
fn an_unusable_engine_is_set_aside_for_inspection() {
    block_on(async {
        for (engine, kept) in
            [(EngineKind::Segments, "00000000.seg.broken"), (EngineKind::Sled, "sled.broken/db")]
        {
            let (dir, _, store) = after(engine, false, overwrite).await;
            assert!(store.is_ok());
            assert!(dir.path().join("data/engine").join(kept).exists(), "{kept}");
        }
    });
}

#[test]
fn an_engine_ahead_of_the_log_is_refused_as_a_damaged_log() {
    fn lead(engine: &Path, _: &Path) {
        let seals = (1..20u64).rev().map(u64::to_le_bytes);
        let open = |seals: [u8; 8]| SledEngine::open(&engine.join("sled"), Some(&seals)).ok();
        let engine = seals.into_iter().find_map(open).expect("it opens with the token it has");
        let main = Revision(1_000);
        let stamp = Stamp { create_revision: main, mod_revision: main, version: 1, ..Stamp::default() };
        let bytes = KeyValue::new(b"ahead", b"", stamp).encoded().clone();
        engine.put(&[Record { key: RecordKey::new(main, 0), kind: RecordKind::Put, bytes }]).unwrap();
        engine.seal().unwrap();
    }
    block_on(async {
        let (_dir, _, store) = after(EngineKind::Sled, false, lead).await;
        let error = store.expect_err("the log is behind");
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("revision 1000"), "{error}");
    });
}

/// A child process keeps the lock of a database that was closed until its program begins.
#[test]
fn a_database_opens_when_its_lock_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let config = sled::Config::new().path(dir.path()).flush_every_ms(None);
    drop(open_unlocked(&config).unwrap());
    let file = fs::File::open(dir.path().join("db")).unwrap();
    file.lock().unwrap();
    assert!(config.open().is_err(), "sled does not open a locked file");
    let release = std::thread::spawn(move || {
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        drop(file);
    });
    open_unlocked(&config).unwrap();
    release.join().unwrap();
}
