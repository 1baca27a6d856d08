//! Tests of the queue's guarantees: properties over random schedules, and examples where a number matters.

#[cfg(kstore_loom)]
mod loom;
mod model;
mod rivals;
mod waiters;

use super::*;
use crate::{Causes, Key, Revision};
use futures::FutureExt;
use kstore_nondet::Rng;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, advance};

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddAfter(u8, u64),
    Take,
    Finish(usize, RunEnd),
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
enum RunEnd {
    Done,
    Retry,
    Drop,
    Again(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let how = prop_oneof![
        3 => Just(RunEnd::Done),
        1 => Just(RunEnd::Retry),
        1 => Just(RunEnd::Drop),
        1 => (0u64..3_000).prop_map(RunEnd::Again)
    ];
    prop_oneof![
        4 => (0u8..5).prop_map(Op::Add),
        1 => (0u8..5, 0u64..3_000).prop_map(|(key, ms)| Op::AddAfter(key, ms)),
        4 => Just(Op::Take),
        4 => (0usize..4, how).prop_map(|(at, how)| Op::Finish(at, how)),
        2 => (0u64..2_000).prop_map(Op::Pass),
    ]
}

/// Observer that checks a queue from outside, without a model of it.
#[derive(Default)]
struct CauseWitness {
    leases: Vec<KeyLease<u8>>,
    /// Keys added since their last run started.
    owed: BTreeSet<u8>,
    /// Causes that the next run of a key must have.
    causes: BTreeMap<u8, BTreeSet<u64>>,
    /// Number of requests for each key, and of runs.
    reasons: BTreeMap<u8, usize>,
    runs: BTreeMap<u8, usize>,
    clock: u64,
}

impl CauseWitness {
    fn apply(&mut self, queue: &Queue<u8>, op: &Op) {
        match op {
            Op::Add(key) => {
                self.clock += 1;
                queue.add(*key, Causes::one(Revision(self.clock)));
                self.owed.insert(*key);
                let causes = self.causes.entry(*key).or_default();
                causes.insert(self.clock);
                while causes.len() > 16 {
                    causes.pop_first();
                }
                *self.reasons.entry(*key).or_default() += 1;
            }
            Op::AddAfter(key, ms) => {
                queue.add_after(*key, Duration::from_millis(*ms));
                *self.reasons.entry(*key).or_default() += 1;
            }
            Op::Take => {
                if let Some(Some(lease)) = queue.next().now_or_never() {
                    self.started(lease);
                }
            }
            Op::Finish(at, how) if *at < self.leases.len() => {
                let lease = self.leases.remove(*at);
                let key = *lease.key();
                match how {
                    RunEnd::Done => lease.done(),
                    RunEnd::Again(_) | RunEnd::Retry | RunEnd::Drop => {
                        let again = lease.causes().revisions().iter().map(|revision| revision.0);
                        let causes = self.causes.entry(key).or_default();
                        causes.extend(again);
                        while causes.len() > 16 {
                            causes.pop_first();
                        }
                        match how {
                            RunEnd::Drop => drop(lease),
                            RunEnd::Again(ms) => lease.again_in(Duration::from_millis(*ms)),
                            RunEnd::Retry | RunEnd::Done => lease.retry(),
                        }
                    }
                }
                if !matches!(how, RunEnd::Done) {
                    *self.reasons.entry(key).or_default() += 1;
                }
            }
            Op::Finish(..) | Op::Pass(_) => {}
        }
    }

    fn started(&mut self, lease: KeyLease<u8>) {
        let key = *lease.key();
        assert!(self.leases.iter().all(|other| *other.key() != key), "one run of a key at a time");
        self.owed.remove(&key);
        *self.runs.entry(key).or_default() += 1;
        assert!(self.runs[&key] <= self.reasons[&key], "no run without a reason");
        let expected: Vec<u64> = self.causes.remove(&key).unwrap_or_default().into_iter().collect();
        let got: Vec<u64> = lease.causes().revisions().iter().map(|revision| revision.0).collect();
        assert_eq!(got, expected, "the causes of everything added before, and of nothing else");
        self.leases.push(lease);
    }
}

fn paused<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(future)
}

proptest! {
    /// Q1–Q4, Q10, Q12, Q14, checked from outside.
    #[test]
    fn adds_are_never_lost_and_keys_never_run_concurrently(ops in prop::collection::vec(op(), 1..200)) {
        paused(async {
            let (queue, mut witness) = (Queue::new(Rng::seeded(1)), CauseWitness::default());
            for op in &ops {
                witness.apply(&queue, op);
                if let Op::Pass(ms) = op {
                    advance(Duration::from_millis(*ms)).await;
                }
            }
            loop {
                while !witness.leases.is_empty() {
                    witness.apply(&queue, &Op::Finish(0, RunEnd::Done));
                }
                match tokio::time::timeout(Duration::from_secs(10_000), queue.next()).await {
                    Ok(Some(lease)) => witness.started(lease),
                    _ => break,
                }
            }
            assert!(witness.owed.is_empty(), "each add is followed by a run: {:?}", witness.owed);
            let QueueStats { ready, waiting, running, adds, .. } = queue.stats();
            assert_eq!((ready, waiting, running), (0, 0, 0));
            assert!(adds as usize <= ops.len());
            assert!(queue.0.core.lock().state.is_forgetful());
        });
    }
}

/// Q9: the n-th consecutive failure waits `base · 2ⁿ`, ± the jitter, up to the cap; a success resets it.
#[tokio::test(start_paused = true)]
async fn failures_double_the_back_off_and_success_resets_it() {
    let queue = Queue::new(Rng::seeded(1));
    queue.add("a", Causes::one(Revision(4)));
    let mut last = Instant::now();
    for n in 0..25u32 {
        let lease = queue.next().await.unwrap();
        let (waited, attempt) = (last.elapsed(), lease.attempt());
        assert_eq!(attempt, n);
        assert_eq!(lease.causes().revisions(), [Revision(4)], "a retry has the causes of the failed run");
        if n > 0 {
            let ideal = Duration::from_millis(5 << (n - 1).min(30)).min(Duration::from_secs(1_000));
            let tick = Duration::from_millis(2);
            assert!(waited >= ideal.mul_f64(0.8) && waited <= ideal.mul_f64(1.2) + tick, "{n}: {waited:?}");
        }
        last = Instant::now();
        lease.retry();
    }
    queue.next().await.unwrap().done();
    queue.add("a", Causes::none());
    assert_eq!(queue.next().await.unwrap().attempt(), 0);
}

/// Q9: an add runs a failing key at once, whether it comes before the failed run ends, while the key is
/// parked, or during the back-off. The back-off neither grows nor restarts.
#[tokio::test(start_paused = true)]
async fn an_add_runs_a_failing_key_at_once_without_changing_its_back_off() {
    let queue = Queue::new(Rng::seeded(1));
    let at_once = || queue.next().now_or_never().flatten().expect("at once");
    queue.add("a", Causes::one(Revision(1)));
    for _ in 0..30 {
        queue.next().await.unwrap().retry();
    }
    queue.next().await.unwrap().retry();
    let failed = Instant::now();
    queue.add("a", Causes::one(Revision(2)));
    let early = at_once();
    assert_eq!((early.attempt(), early.causes().to_string().as_str()), (31, "1,2"));
    queue.add("a", Causes::one(Revision(3)));
    early.retry();
    let early = at_once();
    assert_eq!((early.attempt(), early.causes().to_string().as_str()), (31, "1,2,3"));
    let ticket = early.park(Verdict::RetryIn(Duration::from_secs(500)), Duration::from_secs(10));
    queue.add("a", Causes::one(Revision(4)));
    assert!(queue.next().now_or_never().is_none(), "a parked key waits for its write");
    drop(ticket);
    let early = at_once();
    assert_eq!(early.causes().to_string(), "1,2,3,4");
    early.retry();
    queue.add_after("a", Duration::from_secs(3));
    let start = Instant::now();
    let early = queue.next().await.unwrap();
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(3),
        "a time that comes before the end of the back-off counts, too"
    );
    early.retry();
    drop(queue.next().await.unwrap());
    assert_eq!(
        failed.elapsed(),
        Duration::from_secs(500),
        "the server's wait still counts from the run whose request it answered"
    );
}

/// Q11: at the deadline no key runs any more, and the caller gets the remaining keys.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_at_its_deadline_and_returns_the_remaining_keys() {
    let queue = Queue::new(Rng::seeded(1));
    for key in [3, 2, 1] {
        queue.add(key, Causes::none());
    }
    let stuck = queue.next().await.unwrap();
    let start = Instant::now();
    assert_eq!(queue.drain(Duration::from_secs(5)).await, [1, 2, 3]);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert!(queue.next().await.is_none());
    stuck.retry();
    queue.close();
    queue.close();
    assert!(queue.drain(Duration::ZERO).await.is_empty(), "again is without effect");
    assert!(queue.0.core.lock().state.is_forgetful());
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_every_worker() {
    let queue: Queue<u8> = Queue::new(Rng::seeded(1));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let queue = queue.clone();
                async move { queue.next().await.is_none() }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
}

/// Q7: a key runs when its time comes if any worker is free, and no sooner.
#[tokio::test(start_paused = true)]
async fn a_free_worker_takes_a_delayed_key_when_it_is_due() {
    let queue = Queue::new(Rng::seeded(1));
    let times = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    for _ in 0..3 {
        let (queue, times) = (queue.clone(), times.clone());
        tokio::spawn(async move {
            while let Some(lease) = queue.next().await {
                times.lock().push((*lease.key(), start.elapsed().as_secs()));
                if *lease.key() < 2 {
                    tokio::time::sleep(Duration::from_secs(1_000)).await;
                }
                lease.done();
            }
        });
    }
    tokio::task::yield_now().await;
    queue.add_after(7, Duration::from_secs(10));
    for key in [0, 1] {
        queue.add(key, Causes::none());
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(*times.lock(), [(0, 0), (1, 0), (7, 10)]);
}

/// Q16: a parked key does not run before every clone of its ticket is dropped; then pending adds run at once.
#[tokio::test(start_paused = true)]
async fn a_parked_key_runs_when_the_last_clone_of_its_ticket_is_dropped() {
    let queue = Queue::new(Rng::seeded(1));
    queue.add("a", Causes::one(Revision(1)));
    let ticket = queue.next().await.unwrap().park(Verdict::Done, Duration::from_secs(10));
    for revision in [2, 3] {
        queue.add("a", Causes::one(Revision(revision)));
    }
    let other = ticket.clone();
    drop(ticket);
    assert!(queue.next().now_or_never().is_none());
    drop(other);
    let lease = queue.next().now_or_never().flatten().expect("at once");
    assert_eq!((lease.causes().to_string().as_str(), lease.is_stale()), ("2,3", false));
    lease.done();
    queue.add("a", Causes::none());
    drop(queue.next().await.unwrap().park(Verdict::Done, Duration::from_secs(10)));
    assert!(queue.0.core.lock().state.is_forgetful(), "nothing was added, so nothing is kept");
}

/// Q16: at the deadline a parked key runs anyway, and the run is marked stale.
#[tokio::test(start_paused = true)]
async fn a_parked_key_runs_stale_at_its_deadline() {
    let queue = Queue::new(Rng::seeded(1));
    queue.add("a", Causes::one(Revision(1)));
    let start = Instant::now();
    let ticket =
        queue.next().await.unwrap().park(Verdict::Again(Duration::from_secs(1)), Duration::from_secs(10));
    let lease = queue.next().await.unwrap();
    assert_eq!(
        (start.elapsed().as_secs(), lease.is_stale()),
        (11, true),
        "the delay counts from the deadline"
    );
    assert_eq!(lease.causes().to_string(), "1");
    drop(ticket);
    lease.retry();
    assert!(!queue.next().await.unwrap().is_stale(), "a ticket that comes late changes nothing");
    assert_eq!(queue.stats().stale, 1);
}

/// Q2, Q3: adds of a ready or waiting key lead to one run, and so do adds of a running key.
#[tokio::test(start_paused = true)]
async fn many_adds_lead_to_one_run() {
    let queue = Queue::new(Rng::seeded(1));
    let many =
        |revisions: std::ops::Range<u64>| revisions.for_each(|n| queue.add("a", Causes::one(Revision(n))));
    queue.add_after("a", Duration::from_secs(1));
    many(1..5);
    let first = queue.next().await.unwrap();
    many(5..9);
    assert!(queue.next().now_or_never().is_none(), "one run of a key at a time");
    assert_eq!(first.causes().to_string(), "1,2,3,4");
    first.done();
    let second = queue.next().await.unwrap();
    assert_eq!(second.causes().to_string(), "5,6,7,8");
    second.done();
    assert!(queue.next().now_or_never().is_none());
}

/// Rate-limited adds share one rate; an add that merges into a planned run consumes none of it.
#[tokio::test(start_paused = true)]
async fn rate_limited_adds_wait_for_the_overall_rate() {
    let queue = Queue::new(Rng::seeded(1));
    let add = |key: u32| queue.add_with(key, Add { rate_limited: true, ..Add::default() });
    (0..150).chain(0..150).for_each(add);
    let (start, mut at) = (Instant::now(), Vec::new());
    while at.len() < 150 {
        queue.next().await.unwrap().done();
        at.push(start.elapsed().as_millis());
    }
    let expected: Vec<_> = (0..150u128).map(|n| n.saturating_sub(99) * 100).collect();
    assert_eq!(at, expected);
}

/// In a queue with a rate, retries respect it too, however many keys fail.
#[tokio::test(start_paused = true)]
async fn retries_respect_the_overall_rate() {
    let queue =
        Queue::with(QueueOptions { rate: Some(Rate::default()), ..QueueOptions::default() }, Rng::seeded(1));
    (0..200).for_each(|key| queue.add(key, Causes::none()));
    for _ in 0..200 {
        queue.next().await.unwrap().retry();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(queue.stats().ready, 110, "a burst of a hundred and ten in a second");
}

/// Tenants are served in turn, however many keys one of them has.
#[tokio::test(start_paused = true)]
async fn a_tenant_with_many_keys_does_not_delay_one_with_few() {
    let options = QueueOptions { fair: Some(Fair::by(Key::namespace)), ..QueueOptions::default() };
    let queue = Queue::with(options, Rng::seeded(1));
    (0..100).for_each(|n| queue.add(Key::new("many", &n.to_string()), Causes::none()));
    (0..3).for_each(|n| queue.add(Key::new("few", &n.to_string()), Causes::none()));
    let mut order = Vec::new();
    while let Some(Some(lease)) = queue.next().now_or_never() {
        order.push(lease.key().to_string());
        lease.done();
    }
    assert_eq!(order[..7], ["many/0", "few/0", "many/1", "few/1", "many/2", "few/2", "many/3"]);
    assert_eq!(order.len(), 103);
}
