//! Engines that break their contract, and small named cases that the exhaustive tests found.

use super::machine::{Machine, RunOutcome, Setup};
use super::workload::{Step, churn, delete, everything, put};
use crate::codec::frame::group_len;
use crate::disk::sim::{CrashPolicy, Fault, Operation, OperationKind};
use crate::engine::stub::StubFaults;
use crate::fuzzing::model::Model;
use crate::tests::conformance::block_on;
use crate::types::record::RecordKey;
use crate::{KeyRange, OpenError};

const HONEST: StubFaults = StubFaults { lies: false, refuses_to_open: false };
const LIAR: StubFaults = StubFaults { lies: true, ..HONEST };
const SHUT: StubFaults = StubFaults { refuses_to_open: true, ..HONEST };

/// A machine after all steps.
fn after(setup: Setup, steps: &[Step]) -> (Machine, RunOutcome) {
    let machine = setup.machine();
    let life = machine.run(steps, Model::new());
    assert!(life.whole);
    (machine, life)
}

/// Checks that the last state is there, or that the store refuses to open. Returns whether it is there.
async fn right_or_refused(machine: &Machine, steps: &[Step], life: &RunOutcome) -> bool {
    if let Err(error) = machine.open(7) {
        assert!(matches!(error, OpenError::EngineLost { .. } | OpenError::Damaged { .. }), "{error}");
        return false;
    }
    let judged = machine.judge(steps, &Model::new(), life).await;
    judged.unwrap_or_else(|error| panic!("neither right nor refused: {error}")).goes_on().await.unwrap();
    true
}

#[test]
fn an_engine_that_does_not_open_is_rebuilt_from_the_log_or_refused() {
    block_on(async {
        let (mut made_again, mut refused) = (0, 0);
        for (steps, upto) in
            [everything(), churn()].iter().flat_map(|steps| (1..=steps.len()).map(move |upto| (steps, upto)))
        {
            let steps = &steps[..upto];
            let (machine, life) = after(Setup::Stub(HONEST), steps);
            let machine = machine.crash(CrashPolicy::Everything, 1);
            let site = machine.engine.clone().unwrap();
            site.set_malice(SHUT);
            assert!(matches!(machine.open(7).err(), Some(OpenError::EngineLost { .. })));
            site.set_malice(HONEST);
            // The failed attempts changed nothing.
            assert!(right_or_refused(&machine, steps, &life).await);
            let machine = after(Setup::Stub(HONEST), steps).0.crash(CrashPolicy::Everything, 1);
            machine.engine.as_ref().unwrap().lose_everything();
            if right_or_refused(&machine, steps, &life).await { made_again += 1 } else { refused += 1 }
        }
        assert!(made_again > 3 && refused > 3, "{made_again} made again, {refused} refused");
    });
}

#[test]
fn a_flipped_bit_in_the_engine_is_repaired_or_reported_and_never_served() {
    block_on(async {
        let (mut right, mut noticed) = (0, 0);
        for steps in [everything(), churn()] {
            let keys = after(Setup::Stub(HONEST), &steps).0.engine.unwrap().keys();
            for key in keys {
                let (machine, life) = after(Setup::Stub(HONEST), &steps);
                let machine = machine.crash(CrashPolicy::Everything, 1);
                machine.engine.as_ref().unwrap().flip(key);
                match machine.judge(&steps, &Model::new(), &life).await {
                    Ok(_) => right += 1,
                    Err(error) => {
                        let said = ["does not open", "damaged"].iter().any(|word| error.contains(word));
                        assert!(said, "{key:?}: {error}");
                        noticed += 1;
                    }
                }
            }
        }
        assert!(noticed > 3, "{right} right, {noticed} noticed");
    });
}

#[test]
fn a_record_damaged_while_the_store_runs_is_reported_and_never_served() {
    block_on(async {
        let mut steps: Vec<_> = (1..30).map(|size| Step::Txns(vec![put("k", size)])).collect();
        steps.push(Step::Txns(vec![delete(KeyRange::single("k"))]));
        let (machine, life) = after(Setup::Stub(HONEST), &steps);
        let judged = machine.judge(&steps, &Model::new(), &life).await.unwrap();
        let rotten = crate::Revision(5);
        machine.engine.as_ref().unwrap().flip(RecordKey::new(rotten, 0));
        let read = |at| judged.store.range(&crate::Range::key("k").at(crate::Revision(at)));
        match read(5) {
            Ok(held) => assert_eq!(held.kvs[0].value().len(), 4, "what is still in memory is right"),
            Err(error) => assert_eq!(error, crate::RangeError::Damaged { revision: rotten }),
        }
        assert_eq!(read(6).unwrap().kvs[0].value().len(), 5);
        let request = crate::WatchRequest::new(KeyRange::all()).from(crate::Revision(2));
        let mut watcher = judged.store.watch(request).unwrap();
        let mut last = 1;
        while let Some(Ok(batch)) = watcher.try_next() {
            assert_eq!(batch.revision.0, last + 1);
            last += 1;
        }
        assert!(last < 5 || last == judged.model.revision(), "a gap behind {last}");
    });
}

/// Regression: after a lost seal the store fell back to the previous state. The next checkpoint kept the lost state as
/// the previous one, so that a second loss was fatal.
#[test]
fn an_engine_may_lose_its_last_seal_repeatedly() {
    block_on(async {
        let (mut model, mut machine) = (Model::new(), Setup::Stub(LIAR).machine());
        for round in 0..12 {
            let steps: Vec<_> = (0..3).map(|n| Step::Txns(vec![put(&format!("{round}/{n}"), 600)])).collect();
            let life = machine.run(&steps, model.clone());
            assert!(life.whole);
            machine = machine.crash(CrashPolicy::Nothing, round);
            let judged = machine.judge(&steps, &model, &life).await.unwrap();
            model = judged.model;
            drop(judged.store);
            machine = machine.crash(CrashPolicy::Nothing, round);
        }
        assert_eq!(model.revision(), 1 + 12 * 3);
    });
}

/// Regression: the sync marker of a clean close was written but not synced. The next start saw it in the cache and
/// started a segment after it. A power loss removed the note, and the segment continued nothing.
#[test]
fn an_unsynced_sync_note_is_not_relied_upon() {
    let steps = [Step::Txns(vec![put("a", 10)]), Step::Reopen];
    let clean_end = |operation: &Operation| {
        let of_log = operation.path.starts_with("/data/wal");
        operation.verb == OperationKind::Write && of_log && operation.len == group_len(0)
    };
    only_the_cache_has(&steps, clean_end, OperationKind::Sync);
}

/// Regression: the first manifest's name was never synced, but the next start saw it in the cache and continued. After
/// a power loss there was a log but no manifest.
#[test]
fn an_unsynced_name_is_not_relied_upon() {
    let steps = [Step::Txns(vec![put("a", 10)])];
    only_the_cache_has(&steps, |operation| operation.verb == OperationKind::Rename, OperationKind::SyncDir);
}

/// The sync after an operation fails and the process ends. A second process sees the cache and works; then the power
/// fails.
fn only_the_cache_has(steps: &[Step], what: impl Fn(&Operation) -> bool, sync: OperationKind) {
    block_on(async {
        let log = after(Setup::SELDOM, steps).0.disk.log();
        let at = log.iter().position(what).unwrap() + 1;
        assert_eq!(log[at].verb, sync);
        let machine = Setup::SELDOM.failing(Fault::ErrorAt(at as u64));
        let life = machine.run(steps, Model::new());
        let mut judged = machine.judge(steps, &Model::new(), &life).await.unwrap();
        judged.goes_on().await.unwrap();
        let again = machine.crash(CrashPolicy::Nothing, 1);
        again.judge(&[], &judged.model, &RunOutcome::default()).await.unwrap();
    });
}
