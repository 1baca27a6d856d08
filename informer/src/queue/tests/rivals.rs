//! Regression tests named for defects of other work queues.

use super::super::*;
use crate::{Priority, Revision};
use futures::FutureExt;
use kstore_nondet::Rng;
use std::time::Duration;

/// Q6: client-go's delaying queue keeps the timer of a key that is added while it waits, and runs the key
/// twice.
#[tokio::test(start_paused = true)]
async fn client_go_double_run_an_added_waiting_key_runs_once() {
    let queue = Queue::new(Rng::seeded(1));
    queue.add_after("a", Duration::from_secs(5));
    queue.add("a", Causes::none());
    queue.next().await.unwrap().done();
    let more = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
    assert!(more.is_err(), "the earlier run is the one that was asked for");
}

/// Q9: the back-off explosion of client-go (kubernetes/kubernetes#132805): events that ran a key again during
/// its back-off drove the wait to its cap within an outage of a minute.
#[tokio::test(start_paused = true)]
async fn client_go_back_off_explosion_early_runs_do_not_count() {
    let queue = Queue::new(Rng::seeded(1));
    queue.add("a", Causes::none());
    for _ in 0..10 {
        queue.next().await.unwrap().retry();
    }
    for _ in 0..50 {
        queue.add("a", Causes::none());
        let lease = queue.next().now_or_never().flatten().expect("at once");
        assert_eq!(lease.attempt(), 10);
        lease.retry();
    }
}

/// Q11: client-go's early drain checks only for keys in progress, and returns while keys are queued.
#[tokio::test(start_paused = true)]
async fn client_go_early_drain_waits_for_ready_running_and_parked_keys() {
    let queue = Queue::new(Rng::seeded(1));
    for key in ["parked", "running", "ready"] {
        queue.add(key, Causes::none());
    }
    queue.add_after("waiting", Duration::from_secs(1));
    let ticket = queue.next().await.unwrap().park(Verdict::Done, Duration::from_secs(60));
    let running = queue.next().await.unwrap();
    queue.add("parked", Causes::none());
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain(Duration::MAX).await }
    });
    let step = || tokio::time::sleep(Duration::from_secs(1));
    step().await;
    queue.add("late", Causes::none());
    running.done();
    step().await;
    assert!(!drained.is_finished(), "nothing runs, but a key is ready");
    let ready = queue.next().await.unwrap();
    assert_eq!(*ready.key(), "ready");
    ready.retry();
    step().await;
    assert!(!drained.is_finished(), "nothing runs and nothing is ready, but a key is parked");
    drop(ticket);
    let parked = queue.next().await.unwrap();
    assert_eq!(*parked.key(), "parked");
    parked.done();
    assert_eq!(drained.await.unwrap(), ["ready", "waiting"], "the one that failed, and the one that waited");
    assert!(queue.next().await.is_none());
}

/// Q5: kube-rs's scheduler keeps no order among ready keys, and returns the keys of one tick in reverse.
#[tokio::test(start_paused = true)]
async fn kube_rs_lifo_keys_run_in_first_add_order() {
    let queue = Queue::new(Rng::seeded(1));
    for key in [3, 1, 2, 1, 3] {
        queue.add(key, Causes::none());
    }
    let mut order = Vec::new();
    while let Some(Some(lease)) = queue.next().now_or_never() {
        order.push(*lease.key());
        lease.done();
    }
    assert_eq!(order, [3, 1, 2]);
}

/// Q5: keys that become ready by time. The DelayQueue below kube-rs's scheduler is a stack per tick
/// (tokio-rs/tokio#1775).
#[tokio::test(start_paused = true)]
async fn kube_rs_lifo_keys_of_one_tick_run_in_add_order() {
    let queue = Queue::new(Rng::seeded(1));
    (0..5).for_each(|key| queue.add_after(key, Duration::from_secs(1)));
    let mut order = Vec::new();
    while order.len() < 5 {
        let lease = queue.next().await.unwrap();
        order.push(*lease.key());
        lease.done();
    }
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

/// Q8: in controller-runtime's priority queue a low-priority key never runs while there is other work
/// (kubernetes-sigs/controller-runtime#3496).
#[tokio::test(start_paused = true)]
async fn controller_runtime_starvation_low_priority_keys_run_eventually() {
    let queue = Queue::new(Rng::seeded(1));
    let add =
        |key: u32, priority| queue.add_with(key, Add { priority: Priority(priority), ..Add::default() });
    (1_000..1_010).for_each(|key| add(key, -1));
    (0..5).for_each(|key| add(key, 0));
    let mut low = 0;
    for turn in 1..=90 {
        let lease = queue.next().await.unwrap();
        let (key, priority) = (*lease.key(), lease.priority());
        lease.done();
        match priority {
            Priority(0) => add(key, 0),
            _ => low += 1,
        }
        assert_eq!(low, turn / 9, "one turn in nine: {turn}");
    }
}

/// controller-runtime lost the priority of a key that failed or requested another run: it returned with the
/// default (kubernetes-sigs/controller-runtime#3157).
#[tokio::test(start_paused = true)]
async fn controller_runtime_priority_lost_on_requeue_a_requeue_keeps_its_priority() {
    let queue = Queue::new(Rng::seeded(1));
    for verdict in [
        Verdict::Retry,
        Verdict::RetryIn(Duration::from_secs(1)),
        Verdict::Again(Duration::ZERO),
        Verdict::Again(Duration::from_secs(1)),
    ] {
        queue.add_with("a", Add { priority: Priority(7), ..Add::default() });
        queue.next().await.unwrap().conclude(verdict);
        let lease = queue.next().await.unwrap();
        assert_eq!(lease.priority(), Priority(7), "{verdict:?}");
        lease.conclude(Verdict::Again(Duration::from_secs(1)));
        queue.add("a", Causes::none());
        let lease = queue.next().await.unwrap();
        assert_eq!(lease.priority(), Priority(7), "an add of less does not lower it");
        drop(lease.park(verdict, Duration::from_secs(1)));
        let lease = queue.next().await.unwrap();
        assert_eq!(lease.priority(), Priority(7), "nor does parking: {verdict:?}");
        lease.done();
    }
}

/// Q10: client-go leaks a key forever if a worker does not call Done, as after a panic.
#[tokio::test(start_paused = true)]
async fn client_go_leaked_key_a_dropped_lease_counts_as_failure() {
    let queue = Queue::new(Rng::seeded(1));
    queue.add("a", Causes::one(Revision(1)));
    let run = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _lease = queue.next().await;
            panic!("in a run");
        }
    });
    assert!(run.await.is_err());
    let lease = queue.next().await.unwrap();
    assert_eq!((lease.attempt(), lease.causes().to_string().as_str()), (1, "1"));
}
