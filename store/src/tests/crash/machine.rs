//! A simulated machine on which a store runs, crashes and recovers; and the check of what it has afterwards.

use super::workload::{Step, is_done, put};
use crate::disk::sim::{CrashPolicy, Fault, SimDisk};
use crate::engine::stub::{StubFaults, StubStorage};
use crate::fuzzing::model::{self, Change, Map, Model};
use crate::tests::conformance::tiny;
use crate::{Config, EngineKind, KeyRange, Limits, OpenError, Range, Revision, Store, WatchRequest, Watcher};
use kstore_nondet::Rng;
use std::sync::Arc;

/// A disk, a configuration and, if the engine is a stub, its storage.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) disk: SimDisk,
    pub(super) engine: Option<StubStorage>,
    pub(super) config: Config,
}

/// The engine of a machine, and the frequency of its checkpoints.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setup {
    /// The segment engine, with a checkpoint after this many bytes of log.
    Segments(u64),
    /// The memory engine: all history is in the log.
    Log,
    /// The stub engine.
    Stub(StubFaults),
}

impl Setup {
    /// A checkpoint after almost every step.
    pub(super) const OFTEN: Self = Self::Segments(1 << 10);
    /// A checkpoint now and then.
    pub(super) const SELDOM: Self = Self::Segments(16 << 10);

    pub(super) fn machine(self) -> Machine {
        let (engine, checkpoint_bytes) = match self {
            Self::Segments(bytes) => (EngineKind::Segments, bytes),
            Self::Log => (EngineKind::Memory, 1 << 10),
            // The stub replaces sled.
            Self::Stub(_) => (EngineKind::Sled, 1 << 10),
        };
        let config = tiny(Config::durable("/data"), 0);
        let config =
            Config { engine, limits: Limits { checkpoint_bytes, ..config.limits.clone() }, ..config };
        let disk = SimDisk::default();
        let engine = match self {
            Self::Stub(malice) => Some(StubStorage::new(disk.clone(), malice)),
            Self::Segments(_) | Self::Log => None,
        };
        Machine { disk, engine, config }
    }

    /// A machine with a fault.
    pub(super) fn failing(self, fault: Fault) -> Machine {
        let machine = self.machine();
        machine.disk.set_fault(Some(fault));
        machine
    }
}

/// The observations of one run of a store.
#[derive(Default)]
pub(super) struct RunOutcome {
    /// Number of acknowledged steps.
    pub(super) answered: usize,
    /// The last revision that a watcher or reader observed.
    pub(super) observed: i64,
    /// The changes that the watcher received, by revision.
    pub(super) watched: Vec<(i64, Vec<Change>)>,
    /// Whether all steps were done.
    pub(super) whole: bool,
}

impl Machine {
    pub(super) fn open(&self, seed: u64) -> Result<Store, OpenError> {
        let (disk, rng) = (Arc::new(self.disk.clone()), Rng::seeded(seed));
        match &self.engine {
            Some(site) => Store::open_stepped_with(disk, &self.config, &rng, &|token| site.open(token)),
            None => Store::open_stepped(disk, &self.config, &rng),
        }
    }

    /// The machine after a crash.
    pub(super) fn crash(&self, policy: CrashPolicy, seed: u64) -> Self {
        let disk = self.disk.crash(policy, seed);
        let engine = self.engine.as_ref().map(|site| site.crash(disk.clone(), policy, seed));
        Self { disk, engine, config: self.config.clone() }
    }

    /// A hash that is equal for machines that behave in the same way from now on.
    pub(super) fn fingerprint(&self) -> (u64, u64) {
        (self.disk.fingerprint(), self.engine.as_ref().map_or(0, StubStorage::fingerprint))
    }

    /// Opens the store and does the steps until one fails. `model` is the content before.
    pub(super) fn run(&self, steps: &[Step], mut model: Model) -> RunOutcome {
        let mut life = RunOutcome::default();
        let Ok(mut store) = self.open(1) else { return life };
        let mut watcher = follow(&store, model.revision() + 1);
        for (at, step) in steps.iter().enumerate() {
            assert!(step.is_possible(&model), "{step:?} is no step at {}", model.revision());
            if !store.alarms().is_empty() {
                // The engine had no space: the store refuses writes from here on.
                return life;
            }
            if *step == Step::Reopen {
                life.look(&store, &mut watcher);
                block_on_here(store.close());
                match self.open(100 + at as u64) {
                    Ok(again) => store = again,
                    Err(_) => return life,
                }
                watcher = follow(&store, model.revision() + 1);
            } else if !act(&store, step) {
                life.look(&store, &mut watcher);
                assert!(store.range(&Range::key("a")).is_err(), "a store that failed serves nothing");
                return life;
            }
            life.answered = at + 1;
            step.apply(&mut model, step.len());
            life.look(&store, &mut watcher);
        }
        life.whole = true;
        life
    }

    /// Opens the store and determines which possible state it has: `model` after the acknowledged steps, or that with a
    /// part of the next step. Nothing that was observed may be missing. Returns the working store.
    pub(super) async fn judge(
        &self,
        steps: &[Step],
        model: &Model,
        life: &RunOutcome,
    ) -> Result<CheckedStore, String> {
        let store = self.open(7).map_err(|error| format!("it does not open: {error}"))?;
        let seen = look(&store).await?;
        let mut model = model.clone();
        for step in &steps[..life.answered] {
            step.apply(&mut model, step.len());
        }
        let next = steps.get(life.answered);
        let mut candidates = (0..=next.map_or(0, Step::len)).map(|requests| {
            let mut candidate = model.clone();
            next.into_iter().for_each(|step| step.apply(&mut candidate, requests));
            candidate
        });
        let found = candidates.find(|candidate| expected(candidate) == seen);
        let found =
            found.ok_or_else(|| format!("it has {seen:?}, but answered was {:?}", expected(&model)))?;
        if seen.revision < life.observed {
            return Err(format!("revision {} was observed, but it has {}", life.observed, seen.revision));
        }
        for (revision, changes) in &life.watched {
            if *changes != found.changes[*revision as usize].iter().cloned().map(bare).collect::<Vec<_>>() {
                return Err(format!("a watcher saw {changes:?} at {revision}"));
            }
        }
        Ok(CheckedStore { store, model: found })
    }
}

/// A recovered store with the model of its state.
pub(super) struct CheckedStore {
    pub(super) store: Store,
    pub(super) model: Model,
}

impl CheckedStore {
    /// Checks that the store accepts writes.
    pub(super) async fn goes_on(&mut self) -> Result<(), String> {
        for alarm in self.store.alarms() {
            let disarmed = self.store.alarm_disarm(alarm).await;
            disarmed.map_err(|error| format!("{alarm} cannot be disarmed: {error}"))?;
        }
        let result = self.store.txn(put("after", 1)).await;
        let result = result.map_err(|error| format!("it does not go on: {error}"))?;
        self.model.txn(&put("after", 1));
        let expected = self.model.revision();
        if result.revision.0 == expected { Ok(()) } else { Err(format!("it goes on at {}", result.revision)) }
    }
}

impl RunOutcome {
    /// Records everything observable.
    fn look(&mut self, store: &Store, watcher: &mut Watcher) {
        while let Some(Ok(batch)) = watcher.try_next() {
            self.watched.push((
                batch.revision.0,
                batch.events.iter().map(|event| bare(model::change(event))).collect(),
            ));
            self.observed = self.observed.max(batch.revision.0);
        }
        self.observed = self.observed.max(watcher.progress().map_or(0, |revision| revision.0));
        let read = store.range(&Range::new(KeyRange::all()));
        self.observed = self.observed.max(read.map_or(0, |read| read.revision.0));
    }
}

fn follow(store: &Store, from: i64) -> Watcher {
    store
        .watch(WatchRequest::new(KeyRange::all()).from(Revision(from)))
        .expect("a store that opened can be watched")
}

/// Does a step. Returns whether all of it was acknowledged.
fn act(store: &Store, step: &Step) -> bool {
    let Ok(answers) = store.driver().submit_group(step.requests()) else { return false };
    assert!(answers.iter().all(is_done), "{step:?} is refused: {answers:?}");
    true
}

/// Runs a future that must not wait, such as closing a store without threads.
pub(super) fn block_on_here(future: impl Future<Output = ()>) {
    futures::FutureExt::now_or_never(future).expect("closing does not wait");
}

/// Everything observable of a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ObservedState {
    pub(super) revision: i64,
    compacted: i64,
    leases: Vec<i64>,
    maps: Vec<Map>,
    history: Vec<(i64, Vec<Change>)>,
    notes: Vec<Option<Vec<u8>>>,
}

/// A change without its previous version, which may be compacted.
fn bare(change: Change) -> Change {
    (change.0, change.1, change.2, None)
}

pub(super) fn expected(model: &Model) -> ObservedState {
    let first = model.compacted.max(1);
    let revisions = || first..=model.revision();
    let history = revisions().map(|revision| {
        let changes = model.changes[revision as usize].iter().cloned();
        (revision, changes.map(bare).collect::<Vec<_>>())
    });
    ObservedState {
        revision: model.revision(),
        compacted: model.compacted,
        leases: model.leases.keys().copied().collect(),
        maps: revisions().map(|revision| model.maps[revision as usize].clone()).collect(),
        history: history.filter(|(_, changes)| !changes.is_empty()).collect(),
        notes: revisions().map(|revision| model.notes[revision as usize].clone()).collect(),
    }
}

/// Reads everything observable; fails if the store reports damage.
pub(super) async fn look(store: &Store) -> Result<ObservedState, String> {
    let (revision, compacted) = (store.revision(), store.compacted());
    let revisions = || compacted.0.max(1)..=revision.0;
    let read = |at: i64| {
        let found = store.range(&Range::new(KeyRange::all()).at(Revision(at)));
        let found = found.map_err(|error| format!("reading at {at}: {error}"))?;
        Ok::<Map, String>(found.kvs.iter().map(|kv| (kv.key().to_vec(), model::kv(kv))).collect())
    };
    let mut watcher = follow(store, compacted.0.max(1));
    let mut history = Vec::new();
    while let Some(batch) = watcher.try_next() {
        let batch = batch.map_err(|error| format!("watching: {error}"))?;
        let changes = batch.events.iter().map(|event| bare(model::change(event)));
        history.push((batch.revision.0, changes.collect()));
    }
    let leases = store.leases().await.map_err(|error| format!("leases: {error}"))?;
    Ok(ObservedState {
        revision: revision.0,
        compacted: compacted.0,
        leases: leases.iter().map(|id| id.0).collect(),
        maps: revisions().map(read).collect::<Result<_, _>>()?,
        history,
        notes: revisions().map(|at| store.note(Revision(at)).map(|note| note.to_vec())).collect(),
    })
}
