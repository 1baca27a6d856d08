//! Random sequences of work and crashes, some of them during recovery; each run continues on what is left.

use super::machine::{Machine, RunOutcome, Setup};
use super::workload::{Step, delete, leased, put};
use crate::disk::sim::{CrashPolicy, Fault};
use crate::engine::stub::StubFaults;
use crate::fuzzing::model::Model;
use crate::tests::conformance::{block_on, cases};
use crate::{KeyRange, Txn};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

/// A random step, independent of the state before.
#[derive(Clone, Debug)]
enum RandomStep {
    Put(Vec<(u8, u16)>),
    Delete(u8),
    DeleteAll,
    Leased(u8, i64),
    Grant(i64),
    Revoke(i64),
    /// Compacts at this fraction of the existing history.
    Compact(f64),
    Reopen,
}

/// One run of a store and its end.
#[derive(Clone, Debug)]
struct RandomRun {
    wishes: Vec<RandomStep>,
    /// The machine stops before this operation, or after all steps.
    crash_at: u64,
    policy: CrashPolicy,
    seed: u64,
    /// The recovery stops before this operation, if there is a second crash.
    again: Option<(u64, CrashPolicy)>,
    /// Whether the checked store is closed rather than killed.
    closed: bool,
}

fn wish() -> impl Strategy<Value = RandomStep> {
    let key = || 0u8..5;
    let size = prop_oneof![4 => 0u16..60, 2 => 300u16..900, 1 => 2_000u16..6_000];
    prop_oneof![
        8 => vec((key(), size), 1..4).prop_map(RandomStep::Put),
        2 => key().prop_map(RandomStep::Delete),
        1 => Just(RandomStep::DeleteAll),
        2 => (key(), 1i64..3).prop_map(|(key, lease)| RandomStep::Leased(key, lease)),
        1 => (1i64..3).prop_map(RandomStep::Grant),
        1 => (1i64..3).prop_map(RandomStep::Revoke),
        2 => (0.0..1.0).prop_map(RandomStep::Compact),
        1 => Just(RandomStep::Reopen),
    ]
}

fn fate() -> impl Strategy<Value = RandomRun> {
    let policy = || select(CrashPolicy::ALL.to_vec());
    let again = option::of((0u64..30, policy()));
    (vec(wish(), 0..12), 0u64..160, policy(), any::<u64>(), again, any::<bool>()).prop_map(
        |(wishes, crash_at, policy, seed, again, closed)| RandomRun {
            wishes,
            crash_at,
            policy,
            seed,
            again,
            closed,
        },
    )
}

fn setup() -> impl Strategy<Value = Setup> {
    let stub = |lies| Setup::Stub(StubFaults { lies, ..StubFaults::default() });
    select(vec![Setup::OFTEN, Setup::OFTEN, Setup::SELDOM, Setup::Log, stub(false), stub(true)])
}

fn name(key: u8) -> String {
    format!("k{key}")
}

impl RandomStep {
    fn step(&self, model: &Model) -> Option<Step> {
        let one = |txn: Txn| Step::Txns(vec![txn]);
        let step = match self {
            Self::Put(puts) => {
                Step::Txns(puts.iter().map(|(key, size)| put(&name(*key), usize::from(*size))).collect())
            }
            Self::Delete(key) => one(delete(KeyRange::single(name(*key)))),
            Self::DeleteAll => one(delete(KeyRange::prefix("k"))),
            Self::Leased(key, lease) => one(leased(&name(*key), *lease)),
            Self::Grant(id) => Step::Grant(*id),
            Self::Revoke(id) => Step::Revoke(*id),
            Self::Compact(part) => {
                let first = model.compacted.max(1);
                Step::Compact(first + 1 + (part * (model.revision() - first) as f64) as i64)
            }
            Self::Reopen => Step::Reopen,
        };
        step.is_possible(model).then_some(step)
    }
}

/// The steps that are possible, one after the other.
fn steps(wishes: &[RandomStep], model: &Model) -> Vec<Step> {
    let mut model = model.clone();
    let steps = wishes.iter().filter_map(|wish| {
        let step = wish.step(&model)?;
        step.apply(&mut model, step.len());
        Some(step)
    });
    steps.collect()
}

/// Runs the steps with the crash, and with a second crash during recovery if there is one.
fn live(mut machine: Machine, fate: &RandomRun, steps: &[Step], model: &Model) -> (Machine, RunOutcome) {
    machine.disk.set_fault(Some(Fault::CrashAt(machine.disk.ops() + fate.crash_at)));
    let life = machine.run(steps, model.clone());
    machine = machine.crash(fate.policy, fate.seed);
    if let Some((at, policy)) = fate.again {
        machine.disk.set_fault(Some(Fault::CrashAt(at)));
        drop(machine.open(3));
        machine = machine.crash(policy, fate.seed + 1);
    }
    (machine, life)
}

fn run(setup: Setup, fates: &[RandomRun]) {
    block_on(async {
        let (mut machine, mut model) = (setup.machine(), Model::new());
        for fate in fates {
            let steps = steps(&fate.wishes, &model);
            let life;
            (machine, life) = live(machine, fate, &steps, &model);
            let judged = machine.judge(&steps, &model, &life).await;
            let judged =
                judged.unwrap_or_else(|error| panic!("{steps:?}, answered {}: {error}", life.answered));
            model = judged.model;
            if !fate.closed {
                machine.disk.set_fault(Some(Fault::CrashAt(0)));
            }
            drop(judged.store);
            machine = machine.crash(CrashPolicy::Nothing, fate.seed);
        }
    });
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn no_acknowledged_write_is_lost_over_several_crashes(
        setup in setup(),
        fates in vec(fate(), 1..6),
    ) {
        run(setup, &fates);
    }
}
