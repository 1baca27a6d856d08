//! The work queue, on one thread.

use super::corpus;
use super::rounds::Recorder;
use kstore_informer::{Causes, Key, Queue, Revision};
use kstore_nondet::Rng;

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()
}

fn keys(count: usize) -> Vec<Key> {
    corpus::shuffled(count).map(corpus::key).collect()
}

fn add(queue: &Queue<Key>, keys: &[Key]) {
    for (at, key) in keys.iter().enumerate() {
        queue.add(key.clone(), Causes::one(Revision(at as u64 + 1)));
    }
}

async fn drain(queue: &Queue<Key>, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        let lease = queue.next().await;
        lease.ok_or_else(|| anyhow::anyhow!("the queue is open"))?.done();
    }
    Ok(())
}

/// Adds each key with a cause, then gets and completes all of them.
pub(crate) fn cycle(recorder: &mut Recorder, count: usize) -> anyhow::Result<()> {
    let (runtime, queue, keys) = (runtime()?, Queue::new(Rng::seeded(1)), keys(count));
    recorder.time(|| {
        runtime.block_on(async {
            add(&queue, &keys);
            drain(&queue, count).await
        })
    })
}

/// Adds keys that are queued already.
pub(crate) fn dedup(recorder: &mut Recorder, count: usize) -> anyhow::Result<()> {
    let (runtime, queue, keys) = (runtime()?, Queue::new(Rng::seeded(1)), keys(count));
    let _in = runtime.enter();
    add(&queue, &keys);
    recorder.time(|| add(&queue, &keys));
    anyhow::ensure!(queue.stats().ready == count, "each is in it once");
    Ok(())
}

/// Adds keys with a delay of a millisecond.
pub(crate) fn delayed(recorder: &mut Recorder, count: usize) -> anyhow::Result<()> {
    let (runtime, queue, keys) = (runtime()?, Queue::new(Rng::seeded(1)), keys(count));
    let delay = std::time::Duration::from_millis(1);
    recorder.time(|| {
        runtime.block_on(async {
            keys.iter().for_each(|key| queue.add_after(key.clone(), delay));
            drain(&queue, count).await
        })
    })
}
