//! Model tests of the lock and the waiting workers under every interleaving of a few threads. Without timers,
//! which are tokio's and unknown to loom.

use super::super::*;
use kstore_nondet::Rng;
use loom::future::block_on;
use loom::model::Builder;
use loom::thread::{self, JoinHandle};
use std::task::{Context, Poll, Waker};

/// Explores all interleavings of `threads` with at most `preemptions` preemptions.
fn model(preemptions: usize, threads: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(threads);
}

fn queue() -> Queue<u8> {
    Queue::new(Rng::seeded(1))
}

/// Spawns a thread that adds keys.
fn adder(queue: &Queue<u8>, keys: impl IntoIterator<Item = u8> + Send + 'static) -> JoinHandle<()> {
    let queue = queue.clone();
    thread::spawn(move || keys.into_iter().for_each(|key| queue.add(key, Causes::none())))
}

/// Spawns a thread that takes and returns one key.
fn worker(queue: &Queue<u8>) -> JoinHandle<Option<u8>> {
    let queue = queue.clone();
    thread::spawn(move || {
        let lease = block_on(queue.next())?;
        let key = *lease.key();
        lease.done();
        Some(key)
    })
}

/// Loom fails a model with threads that sleep forever; both workers returning proves that no wake-up is lost.
#[test]
fn each_of_two_waiting_workers_gets_one_of_two_keys() {
    model(3, || {
        let queue = queue();
        let (adder, workers) = (adder(&queue, [1, 2]), [worker(&queue), worker(&queue)]);
        adder.join().unwrap();
        let mut taken = workers.map(|worker| worker.join().unwrap().unwrap());
        taken.sort();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn two_concurrent_adds_wake_two_workers() {
    model(2, || {
        let queue = queue();
        let (one, two, other) = (adder(&queue, [1]), adder(&queue, [2]), worker(&queue));
        let mine = block_on(queue.next()).unwrap();
        let mut taken = [*mine.key(), other.join().unwrap().unwrap()];
        taken.sort();
        assert_eq!(taken, [1, 2]);
        mine.done();
        one.join().unwrap();
        two.join().unwrap();
    });
}

/// A worker looks once and leaves at any moment, also between its wake-up and its look.
#[test]
fn a_leaving_worker_passes_its_wake_up_on_under_loom() {
    model(3, || {
        let queue = queue();
        let fickle = {
            let queue = queue.clone();
            thread::spawn(move || {
                let next = std::pin::pin!(queue.next());
                // A lease dropped without a verdict would wait for a back-off, which needs a clock.
                if let Poll::Ready(Some(lease)) = next.poll(&mut Context::from_waker(Waker::noop())) {
                    lease.done();
                    queue.add(2, Causes::none());
                }
            })
        };
        let (adder, stays) = (adder(&queue, [1]), worker(&queue));
        assert!(stays.join().unwrap().is_some(), "whatever the other takes it gives back");
        adder.join().unwrap();
        fickle.join().unwrap();
    });
}

#[test]
fn a_key_added_while_it_runs_runs_again_and_never_twice_at_once() {
    model(3, || {
        let queue = queue();
        let running = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        queue.add(1, Causes::none());
        let adder = adder(&queue, [1]);
        let run = |queue: Queue<u8>, running: Arc<loom::sync::atomic::AtomicUsize>| {
            let mut runs = 0;
            while let Some(lease) = block_on(queue.next()) {
                let others = running.fetch_add(1, loom::sync::atomic::Ordering::SeqCst);
                assert_eq!(others, 0, "one run of a key at a time");
                running.fetch_sub(1, loom::sync::atomic::Ordering::SeqCst);
                lease.done();
                runs += 1;
            }
            runs
        };
        let other = {
            let (queue, running) = (queue.clone(), running.clone());
            thread::spawn(move || run(queue, running))
        };
        adder.join().unwrap();
        // Ends the workers gracefully, as a drain does.
        queue.0.change(QueueState::drain);
        let runs = run(queue, running) + other.join().unwrap();
        assert!(runs == 1 || runs == 2, "{runs}");
    });
}

#[test]
fn closing_wakes_every_worker_under_loom() {
    model(3, || {
        let queue = queue();
        let workers = [worker(&queue), worker(&queue)];
        queue.close();
        assert_eq!(workers.map(|worker| worker.join().unwrap()), [None, None]);
    });
}

/// A ticket is dropped while the key is added and a worker waits.
#[test]
fn a_released_key_that_was_added_runs() {
    model(3, || {
        let queue = queue();
        queue.add(1, Causes::none());
        let lease = block_on(queue.next()).unwrap();
        let ticket = lease.park(Verdict::Done, Duration::from_secs(1_000));
        let (adder, release) = (adder(&queue, [1]), thread::spawn(move || drop(ticket)));
        // Waits for both: until then a worker would keep a timer.
        adder.join().unwrap();
        release.join().unwrap();
        assert_eq!(worker(&queue).join().unwrap(), Some(1));
    });
}
