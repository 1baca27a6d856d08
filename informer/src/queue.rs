//! [`Queue`]: keys that want work, each at most once, run by at most one worker at a time. It schedules; what a run does and
//! where keys come from is the controller's matter.
//!
//! A key is in one place: ready, waiting for a time, running, or parked. The state is plain data under one lock
//! (`queue/state`), and so is who waits for it (`queue/room`); this file joins them.

mod entry;
mod exposition;
mod lease;
mod metrics;
mod options;
mod rate;
mod ready;
mod room;
mod slots;
mod state;
mod sync;
#[cfg(test)]
mod tests;
mod timers;

use std::{
    fmt,
    future::poll_fn,
    hash::Hash,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, Sleep, sleep_until, timeout},
};

use crate::{Causes, Randomness};
pub use lease::{Lease, Ticket, Verdict};
pub use metrics::{QueueMetrics, QueueStats};
pub use options::{Add, Backoff, Fair, Priority, QueueOptions, Rate};
use room::{Room, Seat};
use state::{Named, Run, State, Taken};
use sync::Mutex;

/// A work queue. Clones share it.
///
/// An add of a key that is ready or waiting merges into it, and the earlier time and the higher priority win; an add of a
/// running or parked key makes it run once more afterwards. So after the last add of a key, a run begins that sees
/// everything from before that add. Keys of one priority run in the order in which they became ready; lower priorities
/// wait for higher ones, but never for ever ([`QueueOptions::ageing`]).
pub struct Queue<K>(Arc<Inner<K>>);

struct Inner<K> {
    name: Arc<str>,
    fair: Option<Fair<K>>,
    core: Mutex<Core<K>>,
    /// Rung when the queue has closed.
    closed: Notify,
}

struct Core<K> {
    state: State<K>,
    room: Room,
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
    /// An empty queue. `rng` spreads the waits of failed keys.
    pub fn new(rng: impl Into<Randomness>) -> Self {
        Self::with(QueueOptions::default(), rng)
    }

    /// An empty queue with options.
    pub fn with(options: QueueOptions<K>, rng: impl Into<Randomness>) -> Self {
        let core = Core { state: State::new(&options, rng.into().into_rng()), room: Room::default() };
        let QueueOptions { name, fair, .. } = options;
        Self(Arc::new(Inner { name, fair, core: Mutex::new(core), closed: Notify::new() }))
    }

    /// Its name in metrics.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Makes `key` run as soon as a worker is free, with the default priority. A key that waits for a time stops waiting, also
    /// if it waits because it failed, as in client-go. A failure of such an early run does not lengthen the back-off. Without
    /// effect once the queue drains or is closed.
    pub fn add(&self, key: K, causes: Causes) {
        self.add_with(key, Add { causes, ..Add::default() });
    }

    /// Makes `key` run after `delay`, or earlier if something else makes it.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_with(key, Add { after: Some(delay), ..Add::default() });
    }

    /// Makes `key` run as `add` says. Without effect once the queue drains or is closed.
    pub fn add_with(&self, key: K, add: Add) {
        let hash = slots::hash(&key);
        let tenant = self.0.fair.as_ref().map(|fair| fair.tenant(&key));
        self.0.change_lazily(|state| state.add(Named { key, hash, tenant }, add, Instant::now));
    }

    /// The next key to run: waits until there is one. `None` once the queue is closed, or drained and empty. Dropping the
    /// future loses nothing.
    ///
    /// For each key that becomes ready one of the callers that wait is woken. While any key waits for a time, one of them
    /// needs tokio's timer.
    pub async fn next(&self) -> Option<Lease<K>> {
        let mut visit = Visit { queue: self, seat: None, alarm: None };
        poll_fn(|cx| visit.poll(cx)).await
    }

    /// Ends the queue now: what is ready, waiting or parked is dropped, adds and verdicts are without effect, and every
    /// `next` gives `None`. Again without effect.
    pub fn close(&self) {
        self.0.change_lazily(State::close);
    }

    /// Ends the queue in order: from now on adds are refused, and keys that wait for a time are given up, as are those
    /// that fail. Returns when everything that was ready, running or parked is done, or after `deadline`. Then the queue is
    /// closed.
    ///
    /// Gives the keys that were given up, and those whose runs had not ended at the deadline, in order. If the future is
    /// dropped the queue closes when everything is done.
    pub async fn drain(&self, deadline: Duration) -> Vec<K> {
        self.0.change(State::drain);
        let closed = async {
            loop {
                let closed = self.0.closed.notified();
                if self.0.core.lock().state.is_closed() {
                    break;
                }
                closed.await;
            }
        };
        // At the deadline it is closed all the same.
        let _ = timeout(deadline, closed).await;
        self.close();
        let mut left = self.0.core.lock().state.take_left();
        left.sort();
        left
    }

    /// Its numbers now.
    pub fn stats(&self) -> QueueStats {
        self.0.change(State::stats)
    }

    /// Everything that is measured of it. Costs a look at each running key.
    pub fn metrics(&self) -> QueueMetrics {
        let name = self.0.name.clone();
        self.0.change(|state, now| state.metrics(name, now))
    }

    fn finish(&self, run: Run, verdict: Verdict) {
        self.0.change(|state, now| state.finish(run, verdict, now));
    }

    fn park(&self, run: Run, verdict: Verdict, deadline: Duration) -> Option<(slots::At, timers::Timer)> {
        self.0.change(|state, now| state.park(run, verdict, deadline, now))
    }

    fn release(&self, at: slots::At, deadline: timers::Timer) {
        self.0.change(|state, now| state.release(at, deadline, now));
    }
}

impl<K: Ord + Hash + Clone> Inner<K> {
    /// One transition at this moment.
    fn change<R>(&self, transition: impl FnOnce(&mut State<K>, Instant) -> R) -> R {
        self.change_lazily(|state| transition(state, Instant::now()))
    }

    /// One transition, and the calls that it makes necessary.
    fn change_lazily<R>(&self, transition: impl FnOnce(&mut State<K>) -> R) -> R {
        let mut core = self.core.lock();
        let open = !core.state.is_closed();
        let result = transition(&mut core.state);
        let (calls, closes) = (core.calls(), open && core.state.is_closed());
        drop(core);
        calls.ring();
        if closes {
            self.closed.notify_waiters();
        }
        result
    }
}

impl<K: Eq + Hash + Clone> Core<K> {
    /// Whom to wake after a transition.
    fn calls(&mut self) -> room::Calls {
        if self.state.is_closed() {
            return self.room.call_all();
        }
        let (ready, alarm) = self.state.outlook();
        self.room.call(ready, alarm)
    }
}

/// One call of [`Queue::next`].
struct Visit<'a, K: Ord + Hash + Clone> {
    queue: &'a Queue<K>,
    /// Nothing before it first had to wait.
    seat: Option<Seat>,
    /// Set while it keeps the time for those that wait.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<K: Ord + Hash + Clone> Visit<'_, K> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Lease<K>>> {
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

    /// Takes a key, or sits down, in one step. Gives the time to look again, if this one has to keep it.
    fn look(&mut self, cx: &Context<'_>) -> (Poll<Option<Lease<K>>>, Option<Instant>) {
        let inner = &*self.queue.0;
        let mut core = inner.core.lock();
        let open = !core.state.is_closed();
        let taken = core.state.take(Instant::now());
        let (_, alarm) = core.state.outlook();
        let (alarm, _waker) = match &taken {
            Taken::Nothing => core.room.sit(&mut self.seat, cx.waker(), alarm),
            Taken::Run(..) | Taken::Closed => (None, core.room.leave(self.seat.take())),
        };
        let (calls, closes) = (core.calls(), open && core.state.is_closed());
        drop(core);
        calls.ring();
        if closes {
            inner.closed.notify_waiters();
        }
        let result = match taken {
            Taken::Nothing => Poll::Pending,
            Taken::Closed => Poll::Ready(None),
            Taken::Run(key, run) => Poll::Ready(Some(Lease::new(self.queue.clone(), key, run))),
        };
        (result, alarm)
    }
}

impl<K: Ord + Hash + Clone> Drop for Visit<'_, K> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            let mut core = self.queue.0.core.lock();
            let _waker = core.room.leave(Some(seat));
            let calls = core.calls();
            drop(core);
            calls.ring();
        }
    }
}
