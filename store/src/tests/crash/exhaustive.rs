//! Exhaustive tests: a crash or a failure at every operation of a small workload.

use super::machine::{Machine, RunOutcome, Setup};
use super::workload::{Step, churn, everything};
use crate::disk::sim::{CacheAfterFailure, CrashPolicy, Fault, SimDisk};
use crate::engine::stub::StubFaults;
use crate::fuzzing::model::Model;
use crate::tests::conformance::block_on;
use std::collections::BTreeSet;

/// A failed check, and the disk operations before it.
struct Failure {
    what: String,
    /// The last operations on the disk.
    trace: Vec<String>,
}

/// Searches for a failure in a workload.
type Search<'a> = &'a dyn Fn(&[Step]) -> Option<Failure>;

/// Searches for a failure. If there is one, minimizes the workload and reports it.
fn none(search: Search<'_>, mut steps: Vec<Step>) {
    let Some(mut failure) = search(&steps) else { return };
    let mut at = 0;
    while at < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        match is_possible(&fewer).then(|| search(&fewer)).flatten() {
            Some(smaller) => (steps, failure) = (fewer, smaller),
            None => at += 1,
        }
    }
    let Failure { what, trace } = failure;
    let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
    panic!("{what}\nthe workload: {steps:#?}\nthe last operations: {trace:#?}");
}

fn is_possible(steps: &[Step]) -> bool {
    let mut model = Model::new();
    steps.iter().all(|step| {
        let possible = step.is_possible(&model);
        if possible {
            step.apply(&mut model, step.len());
        }
        possible
    })
}

fn trace(disk: &SimDisk) -> Vec<String> {
    let log = disk.log();
    log.iter().skip(log.len().saturating_sub(12)).map(ToString::to_string).collect()
}

/// Checks a machine once per distinct state.
#[derive(Default)]
struct StateChecker {
    known: BTreeSet<((u64, u64), usize, i64)>,
}

impl StateChecker {
    async fn judge(&mut self, machine: &Machine, steps: &[Step], life: &RunOutcome) -> Result<(), String> {
        if !self.known.insert((machine.fingerprint(), life.answered, life.observed)) {
            return Ok(());
        }
        let mut judged = machine.judge(steps, &Model::new(), life).await?;
        judged.goes_on().await?;
        // What this start read, possibly from the cache only, must be durable now.
        let again = machine.crash(CrashPolicy::Nothing, 1);
        again
            .judge(&[], &judged.model, &RunOutcome::default())
            .await
            .map(drop)
            .map_err(|error| format!("once more: {error}"))
    }
}

/// Number of disk operations of the workload without failures.
fn operations(setup: Setup, steps: &[Step]) -> u64 {
    let machine = setup.machine();
    assert!(machine.run(steps, Model::new()).whole);
    machine.disk.ops()
}

/// Crashes before every operation, under every policy.
fn crashes(setup: Setup, steps: &[Step]) -> Option<Failure> {
    block_on(async {
        let mut judge = StateChecker::default();
        for op in 0..=operations(setup, steps) {
            let machine = setup.failing(Fault::CrashAt(op));
            let life = machine.run(steps, Model::new());
            for policy in CrashPolicy::ALL {
                let chance = !matches!(policy, CrashPolicy::Nothing | CrashPolicy::Everything);
                for seed in [op, op + 1_000].into_iter().take(1 + usize::from(chance)) {
                    let after = machine.crash(policy, seed);
                    if let Err(error) = judge.judge(&after, steps, &life).await {
                        let what = format!("{setup:?}: crash at {op}, {policy:?}, seed {seed}: {error}");
                        return Some(Failure { what, trace: trace(&machine.disk) });
                    }
                }
            }
        }
        None
    })
}

/// Crashes before every operation, and again before every operation of the recovery.
fn crashes_of_recovery(setup: Setup, steps: &[Step]) -> Option<Failure> {
    block_on(async {
        let (mut judge, mut known) = (StateChecker::default(), BTreeSet::new());
        for op in 0..=operations(setup, steps) {
            let machine = setup.failing(Fault::CrashAt(op));
            let life = machine.run(steps, Model::new());
            for first in [CrashPolicy::Everything, CrashPolicy::Torn] {
                if !known.insert((machine.crash(first, op).fingerprint(), life.answered)) {
                    continue;
                }
                for at in 0.. {
                    let again = machine.crash(first, op);
                    again.disk.set_fault(Some(Fault::CrashAt(at)));
                    let recovered = again.open(3).is_ok();
                    for second in [CrashPolicy::Nothing, CrashPolicy::Torn, CrashPolicy::Reordered] {
                        if let Err(error) = judge.judge(&again.crash(second, at), steps, &life).await {
                            let what = format!(
                                "{setup:?}: crash at {op}, {first:?}; at {at} of recovery, {second:?}: {error}"
                            );
                            return Some(Failure { what, trace: trace(&again.disk) });
                        }
                    }
                    if recovered {
                        break;
                    }
                }
            }
        }
        None
    })
}

/// Fails every single operation, in every way except a full disk (see `room`), which need not stop a store.
fn failures(setup: Setup, steps: &[Step]) -> Option<Failure> {
    let ways: [fn(u64) -> Fault; 4] = [
        Fault::ErrorAt,
        Fault::ShortAt,
        |op| Fault::ForgetAt(op, CacheAfterFailure::New),
        |op| Fault::ForgetAt(op, CacheAfterFailure::Old),
    ];
    block_on(async {
        let mut judge = StateChecker::default();
        for op in 0..operations(setup, steps) {
            for fault in ways.map(|way| way(op)) {
                let machine = setup.failing(fault);
                let life = machine.run(steps, Model::new());
                // The machine may crash; or only the process ends, and the next one sees the same cache.
                for policy in [Some(CrashPolicy::Nothing), Some(CrashPolicy::Torn), None] {
                    let after = policy.map_or_else(|| machine.clone(), |policy| machine.crash(policy, op));
                    after.disk.set_fault(None);
                    if let Err(error) = judge.judge(&after, steps, &life).await {
                        let what = format!("{setup:?}: {fault:?}, then {policy:?}: {error}");
                        let log = machine.disk.log();
                        let around = log.iter().skip((op as usize).saturating_sub(8)).take(16);
                        return Some(Failure { what, trace: around.map(ToString::to_string).collect() });
                    }
                }
            }
        }
        None
    })
}

#[test]
fn with_segments_no_crash_loses_or_splits_observed_writes() {
    none(&|steps| crashes(Setup::OFTEN, steps), everything());
    none(&|steps| crashes(Setup::SELDOM, steps), everything());
    none(&|steps| crashes(Setup::OFTEN, steps), churn());
}

#[test]
fn with_a_log_alone_no_crash_loses_or_splits_observed_writes() {
    none(&|steps| crashes(Setup::Log, steps), everything());
}

#[test]
fn with_a_stub_engine_no_crash_loses_or_splits_observed_writes() {
    for lies in [false, true] {
        let setup = Setup::Stub(StubFaults { lies, ..StubFaults::default() });
        none(&|steps| crashes(setup, steps), everything());
        none(&|steps| crashes(setup, steps), churn());
    }
}

#[test]
fn a_crash_during_recovery_changes_nothing() {
    none(&|steps| crashes_of_recovery(Setup::OFTEN, steps), everything());
}

#[test]
fn with_a_lying_engine_a_crash_during_recovery_changes_nothing() {
    let setup = Setup::Stub(StubFaults { lies: true, ..StubFaults::default() });
    none(&|steps| crashes_of_recovery(setup, steps), everything());
}

#[test]
fn after_any_disk_failure_a_restart_has_all_observed_writes() {
    none(&|steps| failures(Setup::OFTEN, steps), everything());
    none(&|steps| failures(Setup::Stub(StubFaults::default()), steps), everything());
}
