//! [`Queue`]: keys that want work, each at most once, run by at most one worker at a time. It schedules; what a run does and
//! where keys come from is the controller's matter.
//!
//! A key is in one place: ready (first come, first served), waiting for a time, or running. The state is plain data under
//! one lock (`queue/state`); this file adds the waiting.

mod state;
#[cfg(test)]
mod tests;

use std::{hash::Hash, sync::Arc, time::Duration};

use kstore_nondet::Rng;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::Causes;
use state::{State, Taken, Verdict};

/// A work queue. Clones share it.
///
/// An add of a key that is ready or waiting merges into it; an add of a running key makes it run once more afterwards. So
/// after the last add of a key, a run begins that sees everything from before that add.
pub struct Queue<K>(Arc<Inner<K>>);

struct Inner<K> {
    state: Mutex<State<K>>,
    /// Rung when a worker could have something to do.
    bell: Notify,
    /// Rung when nothing is ready or running any more.
    empty: Notify,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Numbers of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Keys ready to run.
    pub ready: usize,
    /// Keys waiting for a time.
    pub waiting: usize,
    /// Keys running.
    pub running: usize,
    /// Adds so far.
    pub adds: u64,
    /// Adds that merged into a key that was ready or waiting, or already to be run again.
    pub merged: u64,
    /// Runs so far.
    pub runs: u64,
    /// Failed runs so far.
    pub retries: u64,
}

impl<K: Ord + Hash + Clone> Queue<K> {
    /// An empty queue. `rng` spreads the waits of failed keys.
    pub fn new(rng: Rng) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State::new(rng)),
            bell: Notify::new(),
            empty: Notify::new(),
        }))
    }

    /// Makes `key` run as soon as a worker is free. A waiting key stops waiting. Without effect once the queue closes.
    pub fn add(&self, key: K, causes: Causes) {
        let ring = self.0.state.lock().add(key, &causes);
        if ring {
            self.0.bell.notify_one();
        }
    }

    /// Makes `key` run after `delay`, or earlier if something else makes it.
    pub fn add_after(&self, key: K, delay: Duration) {
        let ring = self.0.state.lock().add_at(key, Instant::now() + delay);
        if ring {
            self.0.bell.notify_one();
        }
    }

    /// The next key to run: waits until there is one. `None` once the queue is closed, or drained and empty. Dropping the
    /// future loses nothing.
    pub async fn next(&self) -> Option<Lease<K>> {
        loop {
            let (taken, more) = {
                let mut state = self.0.state.lock();
                (state.take(Instant::now()), state.has_more())
            };
            let deadline = match taken {
                Taken::Run { key, causes, failures } => {
                    // Pass the bell on: there may be another key, or a time that no sleeper knows of now.
                    if more {
                        self.0.bell.notify_one();
                    }
                    let (queue, started) = (self.clone(), Instant::now());
                    return Some(Lease { queue, key, causes, attempt: failures, started, open: true });
                }
                Taken::Closed => {
                    self.0.bell.notify_one();
                    return None;
                }
                Taken::Nothing { until } => until,
            };
            let bell = self.0.bell.notified();
            match deadline {
                None => bell.await,
                Some(at) => tokio::select! {
                    biased;
                    () = bell => {}
                    () = sleep_until(at) => {}
                },
            }
        }
    }

    /// Ends the queue now: what is ready or waiting is dropped, adds and verdicts are without effect, and every `next`
    /// gives `None`.
    pub fn close(&self) {
        self.0.state.lock().close();
        self.0.bell.notify_one();
        self.0.empty.notify_waiters();
    }

    /// Ends the queue in order: adds are refused and waiting keys dropped from now on; returns when everything that was
    /// ready or running is done. Failed keys are not run again.
    pub async fn drain(&self) {
        self.0.state.lock().drain();
        self.0.bell.notify_one();
        loop {
            let empty = self.0.empty.notified();
            if self.0.state.lock().is_drained() {
                break;
            }
            empty.await;
        }
        self.close();
    }

    /// Its numbers now.
    pub fn stats(&self) -> QueueStats {
        self.0.state.lock().stats()
    }

    fn finish(&self, lease: &mut Lease<K>, verdict: Verdict) {
        if !std::mem::take(&mut lease.open) {
            return;
        }
        let now = Instant::now();
        let causes = std::mem::take(&mut lease.causes);
        let (ring, drained) = {
            let mut state = self.0.state.lock();
            (state.finish(&lease.key, causes, lease.started, verdict, now), state.is_drained())
        };
        if ring {
            self.0.bell.notify_one();
        }
        if drained {
            self.0.empty.notify_waiters();
        }
    }
}

/// The right to work on one key. No one else gets the key until the lease ends; dropped without a verdict (a panic, a
/// cancelled run) it counts as failed.
pub struct Lease<K: Ord + Hash + Clone> {
    queue: Queue<K>,
    key: K,
    causes: Causes,
    attempt: u32,
    started: Instant,
    open: bool,
}

impl<K: Ord + Hash + Clone> Lease<K> {
    /// The key to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// What led to this run, including what led to failed runs before it.
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Failed runs of this key since its last success.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The run succeeded: failures are forgotten.
    pub fn done(mut self) {
        self.finish(Verdict::Done);
    }

    /// The run failed: the key runs again after its back-off, or at once if it was added meanwhile.
    pub fn retry(mut self) {
        self.finish(Verdict::Retry);
    }

    /// The run succeeded and wants another one in `delay`, which then has the causes of this one, too.
    pub fn again_in(mut self, delay: Duration) {
        self.finish(Verdict::Again(delay));
    }

    fn finish(&mut self, verdict: Verdict) {
        let queue = self.queue.clone();
        queue.finish(self, verdict);
    }
}

impl<K: Ord + Hash + Clone> Drop for Lease<K> {
    fn drop(&mut self) {
        self.finish(Verdict::Retry);
    }
}
