//! Tests of the queue against a simple model: both execute the same random schedule and must agree on all
//! observable state after each step. The model scans lists where the queue keeps an order, and has no locks
//! or workers.

use super::super::*;
use super::paused;
use crate::limits::MAX_CAUSES;
use crate::{Priority, Revision};
use futures::FutureExt;
use kstore_nondet::Rng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BASE: u64 = 5;
const CAP: u64 = 60;
const AGEING: usize = 2;
/// Milliseconds between two slots of the rate, and its burst.
const INTERVAL: u64 = 20;
const BURST: u64 = 2;

#[derive(Clone, Debug)]
enum Op {
    Add { key: u8, priority: i32, after: Option<u64>, rate_limited: bool },
    Take,
    Conclude { lease: usize, verdict: Verdict },
    Cancel { lease: usize },
    Park { lease: usize, verdict: Verdict, deadline: u64 },
    Release { ticket: usize },
    Pass(u64),
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let millis = || (0u64..100).prop_map(Duration::from_millis);
    prop_oneof![
        3 => Just(Verdict::Done),
        2 => Just(Verdict::Retry),
        1 => millis().prop_map(Verdict::RetryIn),
        1 => millis().prop_map(Verdict::Again),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let add = (0u8..6, 0i32..4, prop::option::weighted(0.3, 0u64..100), prop::bool::weighted(0.2));
    prop_oneof![
        6 => add.prop_map(|(key, priority, after, rate_limited)|
            Op::Add { key, priority: priority / 2 * 5 - 1, after, rate_limited }),
        5 => Just(Op::Take),
        4 => (0usize..4, verdict()).prop_map(|(lease, verdict)| Op::Conclude { lease, verdict }),
        1 => (0usize..4).prop_map(|lease| Op::Cancel { lease }),
        2 => (0usize..4, verdict(), 0u64..100).prop_map(|(lease, verdict, deadline)| Op::Park { lease, verdict, deadline }),
        2 => (0usize..4).prop_map(|ticket| Op::Release { ticket }),
        3 => (0u64..60).prop_map(Op::Pass),
    ]
}

#[derive(Clone, Debug, PartialEq)]
enum ModelPhase {
    Ready,
    /// Due time, and number of the timer.
    Waiting(u64, u64),
    Running,
    Parked {
        until: u64,
        timer: u64,
        run: Run,
        verdict: Verdict,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Run {
    key: u8,
    causes: BTreeSet<u64>,
    priority: i32,
    attempt: u32,
    stale: bool,
    started: u64,
}

#[derive(Clone, Debug)]
struct ModelKey {
    phase: ModelPhase,
    priority: i32,
    causes: BTreeSet<u64>,
    stale: bool,
    /// Due times that were added since the run started.
    requested: Vec<u64>,
    failures: u32,
    until: Option<u64>,
}

#[derive(Default)]
struct Model {
    fair: bool,
    now: u64,
    revision: u64,
    timer: u64,
    keys: BTreeMap<u8, ModelKey>,
    /// Ready keys in the order in which they became ready.
    ready: Vec<u8>,
    /// Priorities of all runs so far.
    served: Vec<i32>,
    /// Number of runs when a priority last ran or became non-empty.
    since: BTreeMap<i32, usize>,
    /// Whether the last run did not have the highest priority.
    overtaken: bool,
    /// Tenants in turn, by priority.
    turns: BTreeMap<i32, Vec<u8>>,
    /// When the rate has a free slot without using the burst.
    rate: Option<u64>,
    stats: QueueStats,
}

impl Model {
    fn known(&mut self, key: u8) -> &mut ModelKey {
        self.keys.get_mut(&key).unwrap()
    }

    fn tenant(&self, key: u8) -> u8 {
        if self.fair { key % 2 } else { 0 }
    }

    fn set_timer(&mut self) -> u64 {
        self.timer += 1;
        self.timer
    }

    /// Processes all timers up to now, in order.
    fn ripen(&mut self) {
        loop {
            let due = self.keys.iter().filter_map(|(key, known)| match known.phase {
                ModelPhase::Waiting(until, timer) | ModelPhase::Parked { until, timer, .. } => {
                    Some((until, timer, *key))
                }
                ModelPhase::Ready | ModelPhase::Running => None,
            });
            let Some((until, _, key)) = due.min().filter(|(until, ..)| *until <= self.now) else { return };
            match self.known(key).phase {
                ModelPhase::Parked { .. } => {
                    self.known(key).stale = true;
                    self.stats.stale += 1;
                    self.unpark(key, until);
                }
                _ => self.make_ready(key),
            }
        }
    }

    fn make_ready(&mut self, key: u8) {
        let (priority, tenant) = (self.known(key).priority, self.tenant(key));
        self.known(key).phase = ModelPhase::Ready;
        if !self.ready.iter().any(|other| self.keys[other].priority == priority) {
            self.since.insert(priority, self.served.len());
            self.turns.remove(&priority);
        }
        self.ready.push(key);
        let turns = self.turns.entry(priority).or_default();
        if !turns.contains(&tenant) {
            turns.push(tenant);
        }
    }

    fn schedule(&mut self, key: u8, due: u64, now: u64) {
        if due <= now {
            self.make_ready(key);
        } else {
            let timer = self.set_timer();
            self.known(key).phase = ModelPhase::Waiting(due, timer);
        }
    }

    fn reserve(&mut self) -> u64 {
        let at = self.rate_allows();
        self.rate = Some(self.rate.map_or(at, |next| next.max(at)) + INTERVAL);
        at
    }

    fn rate_allows(&self) -> u64 {
        self.rate.map_or(0, |next| next.saturating_sub(INTERVAL * (BURST - 1))).max(self.now)
    }

    fn add(&mut self, key: u8, priority: i32, after: Option<u64>, rate_limited: bool) {
        self.stats.adds += 1;
        self.revision += 1;
        let (revision, now) = (self.revision, self.now);
        let planned = self.keys.get(&key).and_then(|known| match known.phase {
            ModelPhase::Ready => Some(0),
            ModelPhase::Waiting(until, _) => Some(until),
            ModelPhase::Running | ModelPhase::Parked { .. } => known.requested.iter().copied().min(),
        });
        let mut due = now + after.unwrap_or(0);
        if rate_limited {
            due = due.max(self.rate_allows());
            if planned.is_none_or(|planned| due < planned) {
                self.reserve();
            }
        }
        self.stats.merged += u64::from(planned.is_some());
        let Some(known) = self.keys.get_mut(&key) else {
            let fresh = ModelKey {
                phase: ModelPhase::Running,
                priority,
                causes: BTreeSet::from([revision]),
                stale: false,
                requested: Vec::new(),
                failures: 0,
                until: None,
            };
            self.keys.insert(key, fresh);
            return self.schedule(key, due, now);
        };
        known.causes.insert(revision);
        let raised = priority > known.priority;
        match known.phase {
            ModelPhase::Ready => {
                if raised {
                    self.ready.retain(|other| *other != key);
                    self.known(key).priority = priority;
                    self.make_ready(key);
                }
            }
            ModelPhase::Waiting(until, _) => {
                known.priority = known.priority.max(priority);
                if due < until {
                    self.schedule(key, due, now);
                }
            }
            ModelPhase::Running | ModelPhase::Parked { .. } => {
                known.priority = known.priority.max(priority);
                known.requested.push(due);
            }
        }
    }

    fn take(&mut self) -> Option<Run> {
        let priorities: BTreeSet<i32> = self.ready.iter().map(|key| self.keys[key].priority).collect();
        let passed = |priority: i32| {
            self.served[self.since[&priority]..].iter().filter(|other| **other != priority).count()
        };
        let due = priorities.iter().copied().filter(|priority| {
            let above = priorities.iter().filter(|other| *other > priority).count();
            passed(*priority) >= AGEING * above
        });
        let longest = due.filter(|_| !self.overtaken).max_by_key(|priority| (passed(*priority), -priority));
        let priority = longest.or(priorities.last().copied())?;
        self.overtaken = Some(&priority) != priorities.last();
        let of_level: Vec<u8> =
            self.ready.iter().copied().filter(|key| self.keys[key].priority == priority).collect();
        let turn = loop {
            let turns = self.turns.get_mut(&priority)?;
            let tenant = turns.remove(0);
            let mut queued = of_level.iter().copied().filter(|key| !self.fair || key % 2 == tenant);
            let first = queued.next();
            if queued.next().is_some() {
                turns.push(tenant);
            }
            if let Some(key) = first {
                break key;
            }
        };
        self.ready.retain(|other| *other != turn);
        self.served.push(priority);
        self.since.insert(priority, self.served.len());
        self.stats.runs += 1;
        let now = self.now;
        let known = self.known(turn);
        known.phase = ModelPhase::Running;
        known.requested.clear();
        Some(Run {
            key: turn,
            causes: std::mem::take(&mut known.causes),
            priority: std::mem::replace(&mut known.priority, i32::MIN),
            attempt: known.failures,
            stale: std::mem::take(&mut known.stale),
            started: now,
        })
    }

    fn unpark(&mut self, key: u8, now: u64) {
        let phase = std::mem::replace(&mut self.known(key).phase, ModelPhase::Running);
        if let ModelPhase::Parked { run, verdict, .. } = phase {
            self.conclude(run, verdict, now);
        }
    }

    fn conclude(&mut self, run: Run, verdict: Verdict, now: u64) {
        let key = run.key;
        let requested = self.known(key).requested.iter().copied().min();
        if verdict != Verdict::Done {
            self.stats.requeues += 1;
            self.stats.merged += u64::from(requested.is_some());
            let known = self.known(key);
            known.causes.extend(run.causes.iter().copied());
            known.priority = known.priority.max(run.priority);
        }
        let due = match verdict {
            Verdict::Done => requested,
            Verdict::Again(delay) => requested.into_iter().chain([now + delay.as_millis() as u64]).min(),
            Verdict::Retry | Verdict::RetryIn(_) => {
                self.stats.retries += 1;
                let workers = self.reserve_at(now);
                let known = self.known(key);
                let early = known.until.is_some_and(|until| run.started < until);
                let backoff = match verdict {
                    Verdict::RetryIn(delay) => now + delay.as_millis() as u64,
                    _ if early => known.until.unwrap().max(now),
                    _ => now + (BASE << known.failures.min(20)).min(CAP),
                };
                known.failures += u32::from(!early);
                known.until = Some(backoff.max(workers));
                known.until.into_iter().chain(requested).min()
            }
        };
        if matches!(verdict, Verdict::Done | Verdict::Again(_)) {
            (self.known(key).failures, self.known(key).until) = (0, None);
        }
        match due {
            None => drop(self.keys.remove(&key)),
            Some(due) => self.schedule(key, due, now),
        }
    }

    fn reserve_at(&mut self, now: u64) -> u64 {
        let later = std::mem::replace(&mut self.now, now);
        let workers = self.reserve();
        self.now = later;
        workers
    }

    fn stats(&self) -> QueueStats {
        let count =
            |wanted: fn(&ModelPhase) -> bool| self.keys.values().filter(|known| wanted(&known.phase)).count();
        QueueStats {
            ready: count(|phase| *phase == ModelPhase::Ready),
            waiting: count(|phase| matches!(phase, ModelPhase::Waiting(..))),
            running: count(|phase| *phase == ModelPhase::Running),
            parked: count(|phase| matches!(phase, ModelPhase::Parked { .. })),
            ..self.stats
        }
    }

    fn depth(&self) -> Vec<(Priority, usize)> {
        let mut depth = BTreeMap::<i32, usize>::new();
        self.ready.iter().for_each(|key| *depth.entry(self.keys[key].priority).or_default() += 1);
        depth.into_iter().rev().map(|(priority, keys)| (Priority(priority), keys)).collect()
    }

    /// Keys with a pending request.
    fn wanted(&self) -> impl Iterator<Item = u8> {
        let wanted = |known: &ModelKey| match known.phase {
            ModelPhase::Ready | ModelPhase::Waiting(..) => true,
            ModelPhase::Running | ModelPhase::Parked { .. } => !known.requested.is_empty(),
        };
        self.keys.iter().filter(move |(_, known)| wanted(known)).map(|(key, _)| *key)
    }

    fn pending(&self) -> u64 {
        self.wanted().count() as u64
    }
}

/// The queue and its model, with the leases and tickets of the schedule.
struct QueueAndModel {
    queue: Queue<u8>,
    model: Model,
    leases: Vec<(KeyLease<u8>, Run)>,
    tickets: Vec<(Ticket<u8>, u8, u64)>,
}

impl QueueAndModel {
    fn new(fair: bool) -> Self {
        let options = QueueOptions {
            name: "model".into(),
            rate: Some(Rate {
                per_second: (1_000 / INTERVAL as u32).try_into().unwrap(),
                burst: (BURST as u32).try_into().unwrap(),
            }),
            backoff: Backoff {
                base: Duration::from_millis(BASE),
                cap: Duration::from_millis(CAP),
                jitter: 0.0,
            },
            ageing: (AGEING as u32).try_into().unwrap(),
            fair: fair.then(|| Fair::by(|key: &u8| if key.is_multiple_of(2) { "even" } else { "odd" })),
        };
        let model = Model { fair, ..Model::default() };
        Self { queue: Queue::with(options, Rng::seeded(1)), model, leases: Vec::new(), tickets: Vec::new() }
    }

    async fn apply(&mut self, op: &Op) {
        match op.clone() {
            Op::Add { key, priority, after, rate_limited } => {
                self.model.add(key, priority, after, rate_limited);
                let causes = Causes::one(Revision(self.model.revision));
                let after = after.map(Duration::from_millis);
                self.queue.add_with(key, Add { priority: Priority(priority), causes, after, rate_limited });
            }
            Op::Take => self.take(),
            Op::Conclude { lease, verdict } if lease < self.leases.len() => {
                let (lease, run) = self.leases.remove(lease);
                lease.conclude(verdict);
                self.model.conclude(run, verdict, self.model.now);
            }
            Op::Cancel { lease } if lease < self.leases.len() => {
                let (lease, run) = self.leases.remove(lease);
                drop(lease);
                self.model.conclude(run, Verdict::Retry, self.model.now);
            }
            Op::Park { lease, verdict, deadline } if lease < self.leases.len() => {
                let (lease, run) = self.leases.remove(lease);
                let (key, until, timer) = (run.key, self.model.now + deadline, self.model.set_timer());
                self.model.known(key).phase = ModelPhase::Parked { until, timer, run, verdict };
                self.tickets.push((lease.park(verdict, Duration::from_millis(deadline)), key, timer));
                self.model.ripen();
            }
            Op::Release { ticket } if ticket < self.tickets.len() => {
                let (ticket, key, timer) = self.tickets.remove(ticket);
                drop(ticket);
                let phase = self.model.keys.get(&key).map(|known| &known.phase);
                if matches!(phase, Some(ModelPhase::Parked { timer: held, .. }) if *held == timer) {
                    self.model.unpark(key, self.model.now);
                }
            }
            Op::Pass(millis) => {
                tokio::time::advance(Duration::from_millis(millis)).await;
                self.model.now += millis;
                self.model.ripen();
            }
            Op::Conclude { .. } | Op::Cancel { .. } | Op::Park { .. } | Op::Release { .. } => {}
        }
        self.compare();
    }

    fn take(&mut self) {
        let lease = self.queue.next().now_or_never().map(|lease| lease.expect("the queue is open"));
        let run = self.model.take();
        let seen = lease.as_ref().map(|lease| Run {
            key: *lease.key(),
            causes: lease.causes().revisions().iter().map(|revision| revision.0).collect(),
            priority: lease.priority().0,
            attempt: lease.attempt(),
            stale: lease.is_stale(),
            started: self.model.now,
        });
        let newest = |mut run: Run| {
            while run.causes.len() > MAX_CAUSES {
                run.causes.pop_first();
            }
            run
        };
        assert_eq!(seen, run.clone().map(newest));
        self.leases.extend(lease.zip(run));
    }

    fn compare(&self) {
        let (seen, expected) = (self.queue.metrics(), self.model.stats());
        assert_eq!(seen.stats, expected);
        assert_eq!(seen.depth, self.model.depth());
        let wanted = expected.adds + expected.requeues;
        assert_eq!(wanted, expected.runs + expected.merged + expected.dropped + self.model.pending());
        let started = self.leases.iter().map(|(_, run)| Duration::from_millis(self.model.now - run.started));
        assert_eq!(seen.unfinished_work, started.clone().sum::<Duration>());
        assert_eq!(seen.longest_running, started.max().unwrap_or_default());
        assert_eq!(seen.queue_duration.count(), expected.runs);
        assert_eq!(seen.work_duration.count(), expected.runs - expected.running as u64);
    }
}

proptest! {
    /// Q1–Q10, Q13, Q14, Q16: keys, times, causes, priorities, attempts and counts equal the model's, for
    /// every schedule of adds, runs, failures, cancellations, parkings and releases.
    #[test]
    fn the_queue_equals_its_model(fair in any::<bool>(), ops in prop::collection::vec(op(), 1..150)) {
        paused(async {
            let mut pair = QueueAndModel::new(fair);
            for op in &ops {
                pair.apply(op).await;
            }
            // Q4, Q7: with free workers all remaining keys run.
            pair.tickets.clear();
            pair.leases.drain(..).for_each(|(lease, _)| lease.done());
            while let Ok(lease) = tokio::time::timeout(Duration::from_secs(10), pair.queue.next()).await {
                lease.expect("the queue is open").done();
            }
            assert!(pair.queue.0.core.lock().state.is_forgetful(), "Q12: an idle, healthy key leaves no trace");
        });
    }

    /// Q11, Q13: a closed queue runs nothing, its remaining keys equal the model's, and every request is
    /// accounted for.
    #[test]
    fn closing_drops_the_keys_that_the_model_has_left(ops in prop::collection::vec(op(), 1..100), drain in any::<bool>()) {
        paused(async {
            let mut pair = QueueAndModel::new(false);
            for op in &ops {
                pair.apply(op).await;
            }
            let (present, pending) = (pair.model.keys.keys().copied().collect::<Vec<_>>(), pair.model.pending());
            if drain {
                assert_eq!(pair.queue.drain(Duration::ZERO).await, present);
            }
            pair.queue.close();
            pair.leases.clear();
            pair.tickets.clear();
            pair.queue.add(1, Causes::none());
            assert!(pair.queue.next().await.is_none());
            let stats = pair.queue.stats();
            assert_eq!(stats.adds + stats.requeues, stats.runs + stats.merged + stats.dropped);
            assert_eq!((stats.dropped, stats.adds), (pending, pair.model.stats.adds));
            assert_eq!((stats.ready, stats.waiting, stats.running, stats.parked), (0, 0, 0, 0));
        });
    }

    /// Q11: a drain returns when everything has ended; earlier requests have run or are among the returned
    /// keys.
    #[test]
    fn a_drain_runs_or_returns_every_requested_key(
        ops in prop::collection::vec(op(), 1..100), verdicts in prop::collection::vec(verdict(), 10)
    ) {
        paused(async {
            let mut pair = QueueAndModel::new(true);
            for op in &ops {
                pair.apply(op).await;
            }
            let wanted: BTreeSet<u8> = pair.model.wanted().collect();
            let queue = pair.queue.clone();
            let drain = tokio::spawn(async move { queue.drain(Duration::from_secs(1_000)).await });
            tokio::task::yield_now().await;
            pair.leases.drain(..).for_each(|(lease, _)| lease.done());
            pair.tickets.clear();
            let (mut ran, mut verdicts, mut parked) = (BTreeSet::new(), verdicts.into_iter().cycle(), Vec::new());
            while let Some(lease) = pair.queue.next().await {
                ran.insert(*lease.key());
                match verdicts.next().unwrap() {
                    Verdict::Again(delay) => parked.push(lease.park(Verdict::Done, delay)),
                    verdict => lease.conclude(verdict),
                }
            }
            let left = drain.await.unwrap();
            assert!(left.is_sorted());
            assert!(wanted.iter().all(|key| ran.contains(key) || left.contains(key)), "{wanted:?} {ran:?} {left:?}");
            let stats = pair.queue.stats();
            assert_eq!(stats.adds + stats.requeues, stats.runs + stats.merged + stats.dropped);
            assert_eq!(stats.dropped, left.len() as u64, "all that ended in order");
        });
    }
}
