//! Tests of the wake-ups of a queue: one worker per ready key, even if woken workers leave, and one worker
//! for a due time.

use super::super::*;
use super::paused;
use futures::FutureExt;
use futures::future::BoxFuture;
use kstore_nondet::Rng;
use proptest::prelude::*;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// A waiting worker that is polled by hand.
struct Worker {
    next: Pin<Box<dyn Future<Output = Option<KeyLease<u8>>> + Send>>,
    wakes: Arc<WakeCounter>,
    /// Number of wake-ups at its last look.
    seen: usize,
}

#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn next(queue: &Queue<u8>) -> BoxFuture<'static, Option<KeyLease<u8>>> {
    let queue = queue.clone();
    async move { queue.next().await }.boxed()
}

impl Worker {
    /// A worker that has looked once, or the lease if it found a key.
    fn waiting(queue: &Queue<u8>) -> Result<Self, KeyLease<u8>> {
        let mut worker = Self { next: next(queue), wakes: Arc::default(), seen: 0 };
        worker.look().map_or(Ok(worker), Err)
    }

    fn look(&mut self) -> Option<KeyLease<u8>> {
        self.seen = self.wakes.0.load(Ordering::Relaxed);
        let waker = Waker::from(self.wakes.clone());
        match self.next.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(lease) => Some(lease.expect("the queue is open")),
            Poll::Pending => None,
        }
    }

    /// Whether it was woken and has not looked since.
    fn is_called(&self) -> bool {
        self.wakes.0.load(Ordering::Relaxed) > self.seen
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddAfter(u8, u64),
    Come,
    Look(usize),
    Leave(usize),
    Done(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..8).prop_map(Op::Add),
        1 => (0u8..8, 1u64..50).prop_map(|(key, millis)| Op::AddAfter(key, millis)),
        3 => Just(Op::Come),
        4 => (0usize..6).prop_map(Op::Look),
        2 => (0usize..6).prop_map(Op::Leave),
        2 => (0usize..6).prop_map(Op::Done),
        1 => (1u64..30).prop_map(Op::Pass),
    ]
}

proptest! {
    /// For all worker behaviours, including drops between wake-up and look: while keys are ready and a worker
    /// sleeps, as many others are awake as keys are ready. Every wake-up has a reason: a key became ready, a
    /// time came or needs a new keeper, or a woken worker left.
    #[test]
    fn no_wake_up_is_lost_or_spurious(ops in prop::collection::vec(op(), 1..120)) {
        paused(async {
            let queue = Queue::new(Rng::seeded(1));
            let (mut workers, mut leases) = (Vec::<Worker>::new(), Vec::new());
            let (mut gone, mut timed) = (0, 0);
            for op in ops {
                match op {
                    Op::Add(key) => queue.add(key, Causes::none()),
                    Op::AddAfter(key, millis) => {
                        // It may wake the keeper for an earlier time, look, and leave the timer to another
                        // worker.
                        timed += 3;
                        queue.add_after(key, Duration::from_millis(millis));
                    }
                    Op::Come => match Worker::waiting(&queue) {
                        Ok(worker) => workers.push(worker),
                        Err(lease) => leases.push(lease),
                    },
                    Op::Look(at) if at < workers.len() => {
                        if let Some(lease) = workers[at].look() {
                            gone += workers.remove(at).seen;
                            leases.push(lease);
                        }
                    }
                    Op::Leave(at) if at < workers.len() => {
                        // Its wake-up, or the timer that it kept, passes to another worker.
                        timed += 1;
                        gone += workers.remove(at).wakes.0.load(Ordering::Relaxed);
                    }
                    Op::Done(at) if at < leases.len() => leases.remove(at).done(),
                    Op::Pass(millis) => tokio::time::advance(Duration::from_millis(millis)).await,
                    Op::Look(_) | Op::Leave(_) | Op::Done(_) => {}
                }
                let QueueStats { ready, runs, merged, .. } = queue.stats();
                let called = workers.iter().filter(|worker| worker.is_called()).count();
                assert!(called == workers.len() || called >= ready, "{called} awake for {ready} ready");
                let wakes: usize = workers.iter().map(|worker| worker.wakes.0.load(Ordering::Relaxed)).sum();
                let reasons = ready + runs as usize + merged as usize + timed;
                assert!(gone + wakes <= reasons, "{} wakes for {reasons} reasons", gone + wakes);
            }
        });
    }
}

/// Ten workers wait and one key becomes ready: nine sleep on. No thundering herd, neither by an add nor by a
/// timer.
#[tokio::test(start_paused = true)]
async fn one_worker_is_woken_for_one_key() {
    let queue = Queue::new(Rng::seeded(1));
    let mut workers: Vec<_> = (0..10).map(|_| Worker::waiting(&queue).ok().unwrap()).collect();
    let called = |workers: &[Worker]| workers.iter().filter(|worker| worker.is_called()).count();
    queue.add(1, Causes::none());
    queue.add(1, Causes::none());
    assert_eq!(called(&workers), 1);
    let at = workers.iter().position(Worker::is_called).unwrap();
    workers[at].look().unwrap().done();
    workers.remove(at);
    queue.add_after(2, Duration::from_secs(5));
    assert_eq!(called(&workers), 1, "one worker has to keep the timer");
    workers
        .iter_mut()
        .filter(|worker| worker.is_called())
        .for_each(|worker| assert!(worker.look().is_none()));
    queue.add_after(3, Duration::from_secs(9));
    assert_eq!(called(&workers), 0, "a later time is in good hands");
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(called(&workers), 1, "the keeper");
    let at = workers.iter().position(Worker::is_called).unwrap();
    let lease = workers[at].look().unwrap();
    workers.remove(at);
    assert_eq!((*lease.key(), called(&workers)), (2, 1), "the next time needs another keeper");
}

/// A worker that is cancelled after its wake-up loses no key.
#[tokio::test(start_paused = true)]
async fn a_leaving_worker_passes_its_wake_up_on() {
    let queue = Queue::new(Rng::seeded(1));
    let mut workers: Vec<_> = (0..3).map(|_| Worker::waiting(&queue).ok().unwrap()).collect();
    queue.add(1, Causes::none());
    let at = workers.iter().position(Worker::is_called).unwrap();
    drop(workers.remove(at));
    let at = workers.iter().position(Worker::is_called).expect("another one is called");
    assert_eq!(*workers[at].look().unwrap().key(), 1);
}

/// When the keeper of the timer is cancelled, another worker keeps it.
#[tokio::test(start_paused = true)]
async fn a_cancelled_timer_keeper_is_replaced() {
    let queue = Queue::new(Rng::seeded(1));
    queue.add_after(1, Duration::from_secs(5));
    let keeper = Worker::waiting(&queue).ok().unwrap();
    let mut other = Worker::waiting(&queue).ok().unwrap();
    drop(keeper);
    assert!(other.is_called() && other.look().is_none());
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(other.is_called() && other.look().is_some());
}
