//! Benchmark of the queue's cost per key: `cargo run --release -p kstore-informer --example
//! queue_throughput`. Each result is the best of several rounds, because other load on the machine can only
//! slow a round down.

use kstore_informer::{Add, Causes, Key, KeyLease, Queue, Randomness, Revision};
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// Distinct keys in the queue at once.
const KEYS: usize = 100_000;

/// Number of rounds; the best counts.
const ROUNDS: usize = 9;

fn main() {
    let keys: Vec<Key> =
        (0..KEYS).map(|n| Key::new(&format!("ns-{}", n % 100), &format!("object-{n}"))).collect();
    report("add, next, done: distinct keys, each with a cause", KEYS, || through(&keys));
    report("add alone", KEYS, || add_alone(&keys));
    report("add of a key that is queued already, another cause", KEYS, || dedup(&keys));
    report("add of one key that is queued already, many causes", KEYS, || {
        dedup(&vec![keys[0].clone(); KEYS])
    });
    report("add of a delay, next, done", KEYS, || delayed(&keys));
    report("two threads, each adds, takes and ends", KEYS, || shared(&keys));
    report("one thread adds, one takes and ends", KEYS, || piped(&keys));
    report("the clock, three times", KEYS, || {
        let start = Instant::now();
        (0..KEYS * 3).map(|_| Instant::now()).for_each(|now| assert!(std::hint::black_box(now) >= start));
        start.elapsed()
    });
}

fn report(what: &str, items: usize, round: impl Fn() -> Duration) {
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort();
    let per_item = |took: Duration| took.as_nanos() as f64 / items as f64;
    let (best, median) = (per_item(rounds[0]), per_item(rounds[ROUNDS / 2]));
    println!("{what:52} {best:7.1} ns best {median:7.1} ns median {:6.2} M/s", 1_000.0 / best);
}

fn queue() -> Queue<Key> {
    Queue::new(Randomness::seeded(1))
}

fn cause(n: usize) -> Causes {
    Causes::one(Revision(n as u64 + 1))
}

/// Takes a key that is ready now, without waiting.
fn take(queue: &Queue<Key>) -> Option<KeyLease<Key>> {
    let next = std::pin::pin!(queue.next());
    match next.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(lease) => lease,
        Poll::Pending => None,
    }
}

fn fill(queue: &Queue<Key>, keys: &[Key]) {
    keys.iter().enumerate().for_each(|(n, key)| queue.add(key.clone(), cause(n)));
}

fn empty(queue: &Queue<Key>) {
    while let Some(lease) = take(queue) {
        lease.done();
    }
}

fn through(keys: &[Key]) -> Duration {
    let (queue, start) = (queue(), Instant::now());
    fill(&queue, keys);
    empty(&queue);
    start.elapsed()
}

fn add_alone(keys: &[Key]) -> Duration {
    let (queue, start) = (queue(), Instant::now());
    fill(&queue, keys);
    start.elapsed()
}

fn dedup(keys: &[Key]) -> Duration {
    let queue = queue();
    fill(&queue, keys);
    let start = Instant::now();
    keys.iter().zip(KEYS..).for_each(|(key, n)| queue.add(key.clone(), cause(n)));
    start.elapsed()
}

fn delayed(keys: &[Key]) -> Duration {
    let (queue, start) = (queue(), Instant::now());
    for (n, key) in keys.iter().enumerate() {
        let after = Some(Duration::from_nanos((n as u64).wrapping_mul(0x9E37_79B9) % 1_000));
        queue.add_with(key.clone(), Add { causes: cause(n), after, ..Add::default() });
    }
    empty(&queue);
    start.elapsed()
}

fn shared(keys: &[Key]) -> Duration {
    let (queue, both) = (queue(), Barrier::new(3));
    thread::scope(|scope| {
        for half in keys.chunks(KEYS / 2) {
            let (queue, both) = (&queue, &both);
            scope.spawn(move || {
                both.wait();
                for some in half.chunks(100) {
                    fill(queue, some);
                    some.iter().for_each(|_| take(queue).into_iter().for_each(KeyLease::done));
                }
                both.wait();
            });
        }
        both.wait();
        let start = Instant::now();
        both.wait();
        start.elapsed()
    })
}

fn piped(keys: &[Key]) -> Duration {
    let (queue, start) = (queue(), Instant::now());
    thread::scope(|scope| {
        scope.spawn(|| fill(&queue, keys));
        let mut done = 0;
        while done < KEYS {
            match take(&queue) {
                Some(lease) => {
                    lease.done();
                    done += 1;
                }
                None => thread::yield_now(),
            }
        }
    });
    start.elapsed()
}
