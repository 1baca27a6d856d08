//! [`Queue`]: work queue of unique keys, each run by at most one worker at a time. Where keys come from and
//! what a run does is up to the controller.
//!
//! A key is ready, waiting for a time, running, or parked. The state is plain data under one lock
//! (`queue/state`), and so are the waiting workers (`queue/workers`); this file joins them.

mod entry;
mod lease;
mod metrics;
mod options;
mod rate;
mod ready;
mod slots;
mod state;
mod sync;
#[cfg(test)]
mod tests;
mod timers;
mod workers;

use crate::{Causes, Randomness};
pub use lease::{KeyLease, Ticket, Verdict};
pub use metrics::{QueueMetrics, QueueStats};
pub use options::{Add, Backoff, Fair, QueueOptions, Rate};
use state::{HashedKey, QueueState, Run, TakeResult};
use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use sync::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use workers::{WaitingWorkers, WorkerId};

/// A work queue. Clones share state.
///
/// An add of a ready or waiting key merges into it; the earlier time and the higher priority win. An add of a
/// running or parked key makes it run once more afterwards. After the last add of a key, a run therefore
/// starts that sees everything from before that add. Keys of one priority run in the order in which they
/// became ready. Lower priorities wait for higher ones, but ageing bounds the wait
/// ([`QueueOptions::ageing`]).
pub struct Queue<K>(Arc<Inner<K>>);

struct Inner<K> {
    name: Arc<str>,
    fair: Option<Fair<K>>,
    core: Mutex<Core<K>>,
    /// Notified when the queue has closed.
    closed: Notify,
}

struct Core<K> {
    state: QueueState<K>,
    workers: WaitingWorkers,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl<K: Ord + Hash + Clone> Queue<K> {
    /// An empty queue with default options. `rng` is the randomness of the back-off jitter.
    pub fn new(rng: impl Into<Randomness>) -> Self {
        Self::with(QueueOptions::default(), rng)
    }

    /// An empty queue with these options.
    pub fn with(options: QueueOptions<K>, rng: impl Into<Randomness>) -> Self {
        let core = Core {
            state: QueueState::new(&options, rng.into().into_rng()),
            workers: WaitingWorkers::default(),
        };
        let QueueOptions { name, fair, .. } = options;
        Self(Arc::new(Inner { name, fair, core: Mutex::new(core), closed: Notify::new() }))
    }

    /// The queue's name in metrics.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Makes `key` ready with the default priority. A key that waits for a time stops waiting, even if it
    /// waits after a failure, as in client-go. A failure of such an early run does not lengthen the back-off.
    /// Without effect once the queue drains or is closed.
    pub fn add(&self, key: K, causes: Causes) {
        self.add_with(key, Add { causes, ..Add::default() });
    }

    /// Makes `key` ready after `delay`, or earlier if another add does.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_with(key, Add { after: Some(delay), ..Add::default() });
    }

    /// Makes `key` ready as `add` says. Without effect once the queue drains or is closed.
    pub fn add_with(&self, key: K, add: Add) {
        let hash = slots::hash(&key);
        let tenant = self.0.fair.as_ref().map(|fair| fair.tenant(&key));
        self.0.change_lazily(|state| state.add(HashedKey { key, hash, tenant }, add, Instant::now));
    }

    /// Waits for the next key to run. Returns `None` once the queue is closed, or drained and empty. Dropping
    /// the future loses no key.
    ///
    /// Each key that becomes ready wakes one waiting caller. While any key waits for a time, one of the
    /// callers uses tokio's timer.
    pub async fn next(&self) -> Option<KeyLease<K>> {
        let mut visit = NextCall { queue: self, worker: None, alarm: None };
        poll_fn(|cx| visit.poll(cx)).await
    }

    /// Closes the queue at once: drops all ready, waiting and parked keys; later adds and verdicts have no
    /// effect, and every `next` returns `None`. Idempotent.
    pub fn close(&self) {
        self.0.change_lazily(QueueState::close);
    }

    /// Shuts the queue down gracefully. It refuses new adds, and gives up keys that wait for a time or fail.
    /// Returns when all ready, running and parked keys are done, or after `deadline`; the queue is then
    /// closed.
    ///
    /// Returns the keys that were given up, and those whose runs had not ended at the deadline, in order. If
    /// the future is dropped, the queue closes when everything is done.
    pub async fn drain(&self, deadline: Duration) -> Vec<K> {
        self.0.change(QueueState::drain);
        let closed = async {
            loop {
                let closed = self.0.closed.notified();
                if self.0.core.lock().state.is_closed() {
                    break;
                }
                closed.await;
            }
        };
        // The queue is closed below also after a timeout.
        let _ = timeout(deadline, closed).await;
        self.close();
        let mut left = self.0.core.lock().state.take_left();
        left.sort();
        left
    }

    /// Current counts of the queue.
    pub fn stats(&self) -> QueueStats {
        self.0.change(QueueState::stats)
    }

    /// All metrics of the queue. The cost is proportional to the running keys.
    pub fn metrics(&self) -> QueueMetrics {
        let name = self.0.name.clone();
        self.0.change(|state, now| state.metrics(name, now))
    }

    fn finish(&self, run: Run, verdict: Verdict) {
        self.0.change(|state, now| state.finish(run, verdict, now));
    }

    fn park(&self, run: Run, verdict: Verdict, deadline: Duration) -> Option<(slots::SlotId, timers::Timer)> {
        self.0.change(|state, now| state.park(run, verdict, deadline, now))
    }

    fn release(&self, at: slots::SlotId, deadline: timers::Timer) {
        self.0.change(|state, now| state.release(at, deadline, now));
    }
}

impl<K: Ord + Hash + Clone> Inner<K> {
    /// Applies one transition at the current time and wakes workers as needed.
    fn change<R>(&self, transition: impl FnOnce(&mut QueueState<K>, Instant) -> R) -> R {
        self.change_lazily(|state| transition(state, Instant::now()))
    }

    /// Applies one transition that reads the clock itself if needed, and wakes workers.
    fn change_lazily<R>(&self, transition: impl FnOnce(&mut QueueState<K>) -> R) -> R {
        let mut core = self.core.lock();
        let open = !core.state.is_closed();
        let result = transition(&mut core.state);
        let (calls, closes) = (core.calls(), open && core.state.is_closed());
        drop(core);
        calls.wake_all();
        if closes {
            self.closed.notify_waiters();
        }
        result
    }
}

impl<K: Eq + Hash + Clone> Core<K> {
    /// The workers to wake after a transition.
    fn calls(&mut self) -> workers::WakeUps {
        if self.state.is_closed() {
            return self.workers.call_all();
        }
        let (ready, alarm) = self.state.outlook();
        self.workers.call(ready, alarm)
    }
}

/// One call of [`Queue::next`].
struct NextCall<'a, K: Ord + Hash + Clone> {
    queue: &'a Queue<K>,
    /// The registration of this worker; `None` before its first wait.
    worker: Option<WorkerId>,
    /// Set while this worker keeps the timer for all waiting workers.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<K: Ord + Hash + Clone> NextCall<'_, K> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<KeyLease<K>>> {
        loop {
            let (result, alarm) = self.look(cx);
            let Poll::Pending = result else { return result };
            let Some(at) = alarm else {
                self.alarm = None;
                return Poll::Pending;
            };
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if alarm.deadline() != at {
                alarm.as_mut().reset(at);
            }
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes a key or registers as waiting, in one step. Returns the time of the timer if this worker must
    /// keep it.
    fn look(&mut self, cx: &Context<'_>) -> (Poll<Option<KeyLease<K>>>, Option<Instant>) {
        let inner = &*self.queue.0;
        let mut core = inner.core.lock();
        let open = !core.state.is_closed();
        let taken = core.state.take(Instant::now());
        let (_, alarm) = core.state.outlook();
        let (alarm, _waker) = match &taken {
            TakeResult::Nothing => core.workers.register(&mut self.worker, cx.waker(), alarm),
            TakeResult::Run(..) | TakeResult::Closed => (None, core.workers.leave(self.worker.take())),
        };
        let (calls, closes) = (core.calls(), open && core.state.is_closed());
        drop(core);
        calls.wake_all();
        if closes {
            inner.closed.notify_waiters();
        }
        let result = match taken {
            TakeResult::Nothing => Poll::Pending,
            TakeResult::Closed => Poll::Ready(None),
            TakeResult::Run(key, run) => Poll::Ready(Some(KeyLease::new(self.queue.clone(), key, run))),
        };
        (result, alarm)
    }
}

impl<K: Ord + Hash + Clone> Drop for NextCall<'_, K> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            let mut core = self.queue.0.core.lock();
            let _waker = core.workers.leave(Some(worker));
            let calls = core.calls();
            drop(core);
            calls.wake_all();
        }
    }
}
