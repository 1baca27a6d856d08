//! Crashes, exhaustively: small workloads, stopped before every single operation on the disk, under every policy for what
//! was not synced; then once more during recovery. What was answered is there, nothing is half there, nothing goes back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kstore_nondet::Rng;

use super::conformance::{block_on, tiny};
use super::model::{self, Change, Map, Model};
use crate::codec::history::decode_list;
use crate::codec::manifest::Manifest;
use crate::disk::sim::{Fault, Policy, SimDisk};
use crate::manifest;
use crate::request::{Answer, Request};
use crate::txn::check::check;
use crate::{
    Config, Delete, EngineKind, KeyRange, LeaseId, Limits, Op, Put, Range, Revision, Store, Txn, WatchRequest,
};

/// What is done together, in one write of the log.
#[derive(Clone, Debug)]
enum Step {
    Txns(Vec<Txn>),
    Compact(i64),
    Grant(i64),
    Revoke(i64),
    /// Close in order and open again.
    Reopen,
}

fn put(key: &str, size: usize) -> Txn {
    Txn::of(vec![Op::put(key.to_owned(), vec![b'v'; size])])
}

fn leased(key: &str, lease: i64) -> Txn {
    Txn::of(vec![Op::Put(Put { lease: LeaseId(lease), ..Put::new(key.to_owned(), "leased") })])
}

fn delete(keys: KeyRange) -> Txn {
    Txn::of(vec![Op::Delete(Delete { keys, prev_kv: false })])
}

/// Everything that leaves a trace on disk, with values large enough to fill log segments and engine files.
fn workload() -> Vec<Step> {
    vec![
        Step::Txns(vec![put("a", 10), put("b", 700).noted("why b"), put("a", 20)]),
        Step::Grant(7),
        Step::Txns(vec![leased("l1", 7), leased("l2", 7)]),
        Step::Txns(vec![delete(KeyRange::single("a")), put("c", 5_000)]),
        Step::Compact(4),
        Step::Txns(vec![put("b", 600), put("c", 4_000), put("a", 3)]),
        Step::Reopen,
        Step::Txns(vec![Txn::of(vec![Op::put("x", "1"), Op::delete("b"), Op::put("y", "2")]).noted("three")]),
        Step::Revoke(7),
        Step::Compact(10),
        Step::Txns(vec![put("c", 5_000), put("d", 5_000)]),
        Step::Txns(vec![put("c", 8_000)]),
        Step::Txns(vec![put("d", 8_000)]),
        Step::Txns(vec![delete(KeyRange::prefix("x"))]),
    ]
}

fn apply(model: &mut Model, step: &Step) {
    match step {
        Step::Txns(txns) => txns.iter().for_each(|txn| drop(model.txn(txn))),
        Step::Compact(revision) => model.compacted = *revision,
        Step::Grant(id) => drop(model.leases.insert(*id, 60)),
        Step::Revoke(id) => model.revoke(*id),
        Step::Reopen => {}
    }
}

/// All that can be seen of a store.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    revision: i64,
    compacted: i64,
    leases: Vec<i64>,
    maps: Vec<Map>,
    history: Vec<(i64, Vec<Change>)>,
    notes: Vec<Option<Vec<u8>>>,
}

/// What a watch says, without what was before, which may be compacted.
fn bare(change: Change) -> Change {
    (change.0, change.1, change.2, None)
}

fn expected(model: &Model) -> Seen {
    let first = model.compacted.max(1);
    let revisions = || first..=model.revision();
    let history = revisions().map(|revision| {
        let changes = model.changes[revision as usize].iter().cloned();
        (revision, changes.map(bare).collect::<Vec<_>>())
    });
    Seen {
        revision: model.revision(),
        compacted: model.compacted,
        leases: model.leases.keys().copied().collect(),
        maps: revisions().map(|revision| model.maps[revision as usize].clone()).collect(),
        history: history.filter(|(_, changes)| !changes.is_empty()).collect(),
        notes: revisions().map(|revision| model.notes[revision as usize].clone()).collect(),
    }
}

async fn look(store: &Store) -> Seen {
    let (revision, compacted) = (store.revision(), store.compacted());
    let revisions = || compacted.0.max(1)..=revision.0;
    let read = |at: i64| {
        let found = store.range(&Range::new(KeyRange::all()).at(Revision(at))).unwrap();
        found.kvs.iter().map(|kv| (kv.key().to_vec(), model::kv(kv))).collect()
    };
    let request = WatchRequest::new(KeyRange::all()).from(Revision(compacted.0.max(1)));
    let mut watcher = store.watch(request).unwrap();
    let mut history = Vec::new();
    while let Some(batch) = watcher.try_next() {
        let batch = batch.unwrap();
        let changes = batch.events.iter().map(|event| bare(model::change(event)));
        history.push((batch.revision.0, changes.collect()));
    }
    Seen {
        revision: revision.0,
        compacted: compacted.0,
        leases: store.leases().await.unwrap().iter().map(|id| id.0).collect(),
        maps: revisions().map(read).collect(),
        history,
        notes: revisions().map(|at| store.note(Revision(at)).map(|note| note.to_vec())).collect(),
    }
}

/// With a checkpoint whenever so many bytes were logged.
fn config(engine: EngineKind, checkpoint_bytes: u64) -> Config {
    let config = tiny(Config::durable("/data"), 0);
    Config { engine, limits: Limits { checkpoint_bytes, ..config.limits.clone() }, ..config }
}

/// A checkpoint after almost every step.
fn often(engine: EngineKind) -> Config {
    config(engine, 1 << 10)
}

fn open(disk: &SimDisk, config: &Config, seed: u64) -> Option<Store> {
    Store::open_stepped(Arc::new(disk.clone()), config, &Rng::seeded(seed)).ok()
}

/// Does a step; says whether all of it was answered.
fn act(store: &Store, step: &Step) -> bool {
    let requests = match step {
        Step::Txns(txns) => {
            assert!(txns.iter().all(|txn| check(txn, &crate::Limits::default()).is_ok()));
            txns.iter().cloned().map(Request::Txn).collect()
        }
        Step::Compact(revision) => vec![Request::Compact(Revision(*revision))],
        Step::Grant(id) => {
            vec![Request::Grant { id: LeaseId(*id), ttl: 60, now: tokio::time::Instant::now() }]
        }
        Step::Revoke(id) => vec![Request::Revoke(LeaseId(*id))],
        Step::Reopen => unreachable!("the caller opens"),
    };
    let Ok(answers) = store.driver().submit_group(requests) else { return false };
    let done = answers.iter().all(|answer| match answer {
        Answer::Txn(result) => result.is_ok(),
        Answer::Compact(result) => result.is_ok(),
        Answer::Grant(result) => result.is_ok(),
        Answer::Revoke(result) => result.is_ok(),
        Answer::KeepAlive(_) | Answer::Inspect(_) | Answer::List(_) | Answer::Alarm(_) => false,
    });
    assert!(done, "{step:?} is refused: {answers:?}");
    true
}

/// Runs the workload until the disk stops it. Returns how many steps were answered.
fn run(disk: &SimDisk, config: &Config, steps: &[Step]) -> usize {
    let Some(mut store) = open(disk, config, 1) else { return 0 };
    for (at, step) in steps.iter().enumerate() {
        if matches!(step, Step::Reopen) {
            block_on_here(store.close());
            match open(disk, config, 100 + at as u64) {
                Some(again) => store = again,
                None => return at,
            }
        } else if !act(&store, step) {
            assert!(store.range(&Range::key("a")).is_err(), "a store that failed serves nothing");
            return at;
        }
    }
    steps.len()
}

/// Closing a store without threads never waits.
fn block_on_here(future: impl Future<Output = ()>) {
    futures::FutureExt::now_or_never(future).expect("closing does not wait");
}

/// The recovered store must look as after the answered steps, or after one more: the one whose answer was cut off.
async fn judge(disk: &SimDisk, config: &Config, steps: &[Step], answered: usize, what: &str) {
    let store = Store::open_stepped(Arc::new(disk.clone()), config, &Rng::seeded(7));
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    let seen = look(&store).await;
    let mut model = Model::new();
    steps[..answered].iter().for_each(|step| apply(&mut model, step));
    let before = expected(&model);
    if let Some(step) = steps.get(answered) {
        apply(&mut model, step);
    }
    if seen != before {
        assert_eq!(seen, expected(&model), "{what}");
    }
    // It goes on from there.
    let revision = seen.revision;
    let result = store.txn(put("after", 1)).await.unwrap();
    assert_eq!(result.revision.0, revision + 1, "{what}");
}

fn crash_everywhere(config: &Config) {
    block_on(async {
        let steps = workload();
        let clean = SimDisk::default();
        assert_eq!(run(&clean, config, &steps), steps.len());
        for op in 0..clean.ops() {
            let disk = SimDisk::default();
            disk.set_fault(Some(Fault::CrashAt(op)));
            let answered = run(&disk, config, &steps);
            for policy in Policy::ALL {
                let after = disk.crash(policy, op);
                judge(&after, config, &steps, answered, &format!("crash at {op}, {policy:?}")).await;
            }
        }
    });
}

#[test]
fn with_segments_no_crash_loses_or_halves_what_was_answered() {
    crash_everywhere(&often(EngineKind::Segments));
    crash_everywhere(&config(EngineKind::Segments, 16 << 10));
}

#[test]
fn with_a_log_alone_no_crash_loses_or_halves_what_was_answered() {
    crash_everywhere(&often(EngineKind::Memory));
}

#[test]
fn a_crash_during_recovery_changes_nothing() {
    block_on(async {
        let (steps, config) = (workload(), often(EngineKind::Segments));
        let clean = SimDisk::default();
        run(&clean, &config, &steps);
        for op in (0..clean.ops()).step_by(9) {
            let disk = SimDisk::default();
            disk.set_fault(Some(Fault::CrashAt(op)));
            let answered = run(&disk, &config, &steps);
            for first in [Policy::Everything, Policy::Torn] {
                for at in 0.. {
                    let again = disk.crash(first, op);
                    again.set_fault(Some(Fault::CrashAt(at)));
                    let recovered = open(&again, &config, 3).is_some();
                    for second in [Policy::Nothing, Policy::Torn] {
                        let what = format!("crash at {op}, {first:?}; at {at} of recovery, {second:?}");
                        let after = again.crash(second, at);
                        judge(&after, &config, &steps, answered, &what).await;
                    }
                    if recovered {
                        break;
                    }
                }
            }
        }
    });
}

/// The length that each of the engine's files has in a manifest's state.
fn files_of(manifest: Option<&Manifest>) -> BTreeMap<u32, u64> {
    let token = manifest.filter(|manifest| manifest.seq > 0).map(|manifest| &manifest.token[..]);
    token.map(|token| decode_list(token).unwrap().files.into_iter().collect()).unwrap_or_default()
}

#[test]
fn damage_in_what_the_newest_checkpoint_added_is_made_up_for_by_the_one_before_and_the_log() {
    block_on(async {
        let (steps, mut healed) = (workload(), 0);
        let configs = [often(EngineKind::Segments), config(EngineKind::Segments, 16 << 10)];
        let runs =
            configs.iter().flat_map(|config| (1..=steps.len()).map(move |answered| (config, answered)));
        for (config, answered) in runs {
            let disk = SimDisk::default();
            run(&disk, config, &steps[..answered]);
            let found = manifest::load(&disk, Path::new("/data")).unwrap().unwrap();
            let before = files_of(found.previous.as_ref());
            for (number, len) in files_of(Some(&found.newest)) {
                if before.get(&number).is_some_and(|before| *before == len) {
                    continue;
                }
                let image = disk.crash(Policy::Everything, 1);
                image.damage(&Path::new("/data/engine").join(format!("{number:08x}.seg")), len as usize - 1);
                let what = format!("{answered} steps, file {number}");
                judge(&image, config, &steps, answered, &what).await;
                healed += 1;
            }
        }
        assert!(healed > 8, "{healed} cases");
    });
}

#[test]
fn after_any_disk_error_the_store_stops_and_a_restart_has_what_was_answered() {
    block_on(async {
        let (steps, config) = (workload(), often(EngineKind::Segments));
        let clean = SimDisk::default();
        run(&clean, &config, &steps);
        for op in 0..clean.ops() {
            let disk = SimDisk::default();
            disk.set_fault(Some(Fault::ErrorAt(op)));
            let answered = run(&disk, &config, &steps);
            for policy in [Policy::Nothing, Policy::Torn] {
                let what = format!("error at {op}, {policy:?}");
                judge(&disk.crash(policy, op), &config, &steps, answered, &what).await;
            }
        }
    });
}
