//! Tests of a disk that fails or is full while a store opens after a crash. The start may fail, but only with the real
//! cause. Once the disk works again, everything acknowledged or observed is there.

use super::machine::{Machine, RunOutcome, Setup};
use super::workload::{Step, churn, everything};
use crate::OpenError;
use crate::disk::sim::{CrashPolicy, Fault, OperationKind};
use crate::engine::stub::StubFaults;
use crate::fuzzing::model::Model;
use crate::tests::conformance::block_on;
use std::path::Path;

/// Distance between tested crashes: the recovery from a neighbouring crash does the same.
const STRIDE: usize = 5;

fn operations(machine: &Machine, steps: &[Step]) -> u64 {
    assert!(machine.run(steps, Model::new()).whole);
    machine.disk.ops()
}

/// The crashes of a workload, each with the machine before recovery and the run's observations.
fn crashed(setup: Setup, steps: &[Step]) -> impl Iterator<Item = (Machine, RunOutcome)> + '_ {
    let all = operations(&setup.machine(), steps);
    (0..=all).step_by(STRIDE).map(move |op| crash_at(setup, steps, op))
}

fn crash_at(setup: Setup, steps: &[Step], op: u64) -> (Machine, RunOutcome) {
    let machine = setup.failing(Fault::CrashAt(op));
    let life = machine.run(steps, Model::new());
    (machine.crash(CrashPolicy::Everything, op), life)
}

/// A machine in the same state, independent of the first.
fn copy(machine: &Machine) -> Machine {
    machine.crash(CrashPolicy::Everything, 1)
}

/// Opens the store with one fault at each operation of the start.
fn failures_of_recovery(setup: Setup, steps: &[Step]) {
    let mut all = 0;
    block_on(async { all = operations(&setup.machine(), steps) });
    for op in (0..=all).step_by(STRIDE) {
        // One runtime per case: the stores' tasks, and with them their memory, end with it.
        block_on(async {
            let (crashed, life) = crash_at(setup, steps, op);
            recover_with_faults(setup, steps, &crashed, &life).await;
        });
    }
}

async fn recover_with_faults(setup: Setup, steps: &[Step], crashed: &Machine, life: &RunOutcome) {
    for (way, fault) in [(0, Fault::ErrorAt as fn(u64) -> Fault), (1, Fault::NoSpaceAt), (2, Fault::ShortAt)]
    {
        for at in 0.. {
            let machine = copy(crashed);
            machine.disk.set_fault(Some(fault(at)));
            let opened = machine.open(3);
            let is_over = machine.disk.ops() <= at;
            match opened.as_ref().err() {
                None | Some(OpenError::Io { .. } | OpenError::NoSpace { .. }) => {}
                Some(error) => panic!("{setup:?}: {:?} of the start: {error}", fault(at)),
            }
            drop(opened);
            // The process ends, or the machine crashes.
            for policy in [None, Some(CrashPolicy::Nothing)].into_iter().skip(way % 2) {
                let after = policy.map_or_else(|| machine.clone(), |policy| machine.crash(policy, at));
                after.disk.set_fault(None);
                let judged = after.judge(steps, &Model::new(), life).await;
                if let Err(error) = judged {
                    panic!("{setup:?}: {:?} of the start, then {policy:?}: {error}", fault(at));
                }
            }
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn a_disk_failure_during_opening_is_not_reported_as_damage() {
    failures_of_recovery(Setup::OFTEN, &everything());
    failures_of_recovery(Setup::SELDOM, &churn());
    failures_of_recovery(Setup::Stub(StubFaults::default()), &everything());
}

/// A start whose sync of a directory fails leaves directories that are only in the cache. The next start must sync
/// them.
#[test]
fn a_start_syncs_directories_that_a_failed_start_left() {
    block_on(async {
        let steps = &everything()[..3];
        let mut syncs = 0;
        for at in 0.. {
            let machine = Setup::SELDOM.failing(Fault::ErrorAt(at));
            let failed = machine.open(3).is_err();
            let log = machine.disk.log();
            let Some(operation) = log.get(at as usize) else { break };
            if !failed || operation.verb != OperationKind::SyncDir {
                continue;
            }
            syncs += 1;
            machine.disk.set_fault(None);
            let life = machine.run(steps, Model::new());
            assert!(life.whole);
            let judged = machine.crash(CrashPolicy::Nothing, 1).judge(steps, &Model::new(), &life).await;
            judged.unwrap_or_else(|error| panic!("{operation} failed at the first start: {error}"));
        }
        assert!(syncs >= 4, "{syncs} syncs of directories at a first start");
    });
}

/// Bytes of all files of the store.
fn bytes(machine: &Machine) -> usize {
    let dirs = ["/data", "/data/wal", "/data/engine"];
    dirs.iter().flat_map(|dir| machine.disk.files(Path::new(dir))).map(|(_, len)| len).sum()
}

#[test]
fn a_refused_start_on_a_full_disk_uses_no_space_and_loses_nothing() {
    block_on(async {
        let (mut refused, mut opened) = (0, 0);
        for (crashed, life) in crashed(Setup::SELDOM, &everything()) {
            for room in [0, 1 << 10, 20 << 10] {
                let machine = copy(&crashed);
                machine.disk.set_capacity(Some(machine.disk.used() + room));
                for _ in 0..4 {
                    match machine.open(5) {
                        Ok(store) => {
                            opened += 1;
                            drop(store);
                        }
                        Err(OpenError::NoSpace { dir, .. }) => {
                            assert_eq!(dir, Path::new("/data"));
                            refused += 1;
                        }
                        Err(error) => panic!("with {room} bytes: {error}"),
                    }
                }
                let before = bytes(&machine);
                for _ in 0..4 {
                    drop(machine.open(6));
                }
                assert!(bytes(&machine) <= before, "starts that fail leave nothing behind");
                machine.disk.set_capacity(None);
                let judged = machine.judge(&everything(), &Model::new(), &life).await;
                judged.unwrap_or_else(|error| panic!("{error}")).goes_on().await.unwrap();
            }
        }
        assert!(refused > 20 && opened > 20, "{refused} starts were refused, {opened} were not");
    });
}
