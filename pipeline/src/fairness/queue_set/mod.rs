//! The requests of one priority level: which run, and which wait in which queue. Queues are served by fair
//! queuing in virtual time. Pure: the time is an argument, and a callback learns which requests may run.
//!
//! The virtual time of a level advances by the seat-seconds that each active queue would receive if the seats
//! were divided equally. A queue remembers the virtual time up to which it has been served. Of all waiting
//! requests, the one whose queue would be served up to the earliest virtual time runs next; at equal times,
//! the next queue in turn. A request that needs more seats than are free lets the others wait, since it would
//! otherwise never run.
//!
//! Before a request has run, its work counts as [`ASSUMED`]; afterwards as the time that it took. A queue that
//! becomes active begins at the present virtual time: a flow neither saves up service nor owes it.

mod requests;

use super::dealer::deal;
use super::demand::{ObservedSeats, SeatIntegrator};
use super::estimate::Work;
use requests::{Entry, Requests};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// The assumed running time of a request that has not run yet, as in Kubernetes.
const ASSUMED: Duration = Duration::from_millis(3);

/// What a level does with requests for which it has no seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limiting {
    /// The level has no limit.
    Exempt,
    /// They are rejected.
    Reject,
    /// They wait in one of the queues of their flow's hand.
    Queue {
        /// Number of queues, at least 1.
        queues: usize,
        /// Queues of one flow.
        hand: usize,
        /// The most requests that wait in one queue.
        length: usize,
    },
}

/// The number of a request in its level. It is free for another request after the request has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestId(usize);

/// What became of a request that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It runs.
    Running(RequestId),
    /// It waits; `length` is the length of its queue with it.
    Waiting { id: RequestId, length: usize },
}

/// Why a level rejects a request at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// All queues of the flow are full.
    QueueFull,
    /// The level has no queues and no seat is free.
    NoSeat,
}

/// Totals of a level, for metrics and dumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelCounts {
    pub(super) waiting: usize,
    pub(super) waiting_seats: u64,
    pub(super) running: usize,
    pub(super) seats: u64,
    pub(super) active_queues: usize,
    pub(super) dispatched: u64,
    pub(super) rejected: u64,
    pub(super) timed_out: u64,
    pub(super) cancelled: u64,
    /// How often the next request had to wait although a seat was free.
    pub(super) too_wide: u64,
}

/// One queue, for dumps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QueueState {
    pub(super) waiting: usize,
    pub(super) running: usize,
    pub(super) seats: u64,
    pub(super) served_until: f64,
    pub(super) waiting_seats: u64,
    pub(super) widest_seats: u64,
    pub(super) waiting_work: f64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<RequestId>,
    /// Seat-seconds of the waiting requests.
    waiting_work: f64,
    running: usize,
    seats: u64,
    /// The virtual time up to which the queue has been served.
    served_until: f64,
}

impl Queue {
    fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.seats > 0 || self.running > 0
    }
}

/// The requests of one level. `T` is what the level's owner knows about a request.
#[derive(Debug)]
pub(super) struct QueueSet<T> {
    limiting: Limiting,
    limit: u64,
    /// At least as many as `limiting` states; further ones drain.
    queues: Vec<Queue>,
    /// The number of active queues.
    active: usize,
    requests: Requests<T>,
    /// Seats of requests that have run: when they become free, their number, and their queue.
    lingering: BinaryHeap<Reverse<(Duration, u32, Option<usize>)>>,
    virtual_time: f64,
    updated: Duration,
    /// The queue that was served last; the turn of the others comes first.
    served_last: usize,
    demand: SeatIntegrator,
    counts: LevelCounts,
}

impl<T> QueueSet<T> {
    /// A level without requests.
    pub(super) fn new(limiting: Limiting, limit: u32) -> Self {
        let mut new = Self {
            limiting,
            limit: u64::from(limit),
            queues: Vec::new(),
            active: 0,
            requests: Requests::default(),
            lingering: BinaryHeap::new(),
            virtual_time: 0.0,
            updated: Duration::ZERO,
            served_last: 0,
            demand: SeatIntegrator::default(),
            counts: LevelCounts::default(),
        };
        new.resize();
        new
    }

    /// Changes the configuration. Waiting requests keep their queues, also beyond the new number of queues.
    pub(super) fn configure(&mut self, limiting: Limiting, now: Duration, wake: &mut impl FnMut(&mut T)) {
        self.advance(now);
        self.limiting = limiting;
        self.resize();
        self.dispatch(now, wake);
    }

    /// Changes the number of seats. Running requests keep theirs.
    pub(super) fn set_limit(&mut self, limit: u32, now: Duration, wake: &mut impl FnMut(&mut T)) {
        self.advance(now);
        self.limit = u64::from(limit);
        self.dispatch(now, wake);
    }

    /// A request of the flow with this hash arrives. `wake` is called for other requests that now may run:
    /// those for which an earlier one has left seats since the last call.
    pub(super) fn arrive(
        &mut self,
        now: Duration,
        hash: u64,
        work: Work,
        about: T,
        wake: &mut impl FnMut(&mut T),
    ) -> Result<Arrival, Rejection> {
        self.advance(now);
        self.dispatch(now, wake);
        let queue = match self.limiting {
            Limiting::Exempt => None,
            Limiting::Reject if self.counts.waiting == 0 && self.has_room(work.widest()) => None,
            Limiting::Reject => return Err(self.reject(Rejection::NoSeat)),
            Limiting::Queue { queues, hand, length } => {
                let queue = self.choose(hash, queues, hand);
                if self.queues[queue].waiting.len() >= length {
                    return Err(self.reject(Rejection::QueueFull));
                }
                Some(queue)
            }
        };
        let entry = Entry::new(about, work, queue, now, self.virtual_time);
        let id = self.requests.add(entry);
        let Some(queue) = queue else {
            self.start(id, now);
            return Ok(Arrival::Running(id));
        };
        self.begin_backlog(queue);
        if self.counts.waiting == 0 && self.has_room(work.widest()) {
            self.start(id, now);
            return Ok(Arrival::Running(id));
        }
        let length = self.change(queue, |queue| {
            queue.waiting.push_back(id);
            queue.waiting_work += assumed_work(work);
            queue.waiting.len()
        });
        self.counts.waiting += 1;
        self.counts.waiting_seats += u64::from(work.widest());
        self.observe_demand(now);
        let mut runs = false;
        self.dispatch_with(now, &mut |started, about| if started == id { runs = true } else { wake(about) });
        Ok(if runs { Arrival::Running(id) } else { Arrival::Waiting { id, length } })
    }

    /// A request stops waiting: its time is over, or its client has left. Returns what is known about it, and
    /// how long it waited; `None` if it runs already, so that it must [`finish`](Self::finish).
    pub(super) fn abandon(
        &mut self,
        id: RequestId,
        is_timeout: bool,
        now: Duration,
        wake: &mut impl FnMut(&mut T),
    ) -> Option<(T, Duration)> {
        if self.requests.get(id).started.is_some() {
            return None;
        }
        self.advance(now);
        let entry = self.requests.remove(id);
        let queue = entry.queue.expect("a request waits in a queue");
        self.leave_queue(queue, entry.work, |waiting| waiting.retain(|waiting| *waiting != id));
        match is_timeout {
            true => self.counts.timed_out += 1,
            false => self.counts.cancelled += 1,
        }
        self.observe_demand(now);
        self.dispatch(now, wake);
        Some((entry.about, now.saturating_sub(entry.arrived)))
    }

    /// A request has run. Returns what is known about it, and how long it ran.
    pub(super) fn finish(
        &mut self,
        id: RequestId,
        now: Duration,
        wake: &mut impl FnMut(&mut T),
    ) -> (T, Duration) {
        self.advance(now);
        let entry = self.requests.remove(id);
        let started = entry.started.expect("only a running request finishes");
        let ran = now.saturating_sub(started);
        self.counts.running -= 1;
        if let Some(queue) = entry.queue {
            let more = f64::from(entry.work.seats) * (ran.as_secs_f64() - ASSUMED.as_secs_f64());
            self.queues[queue].served_until += more;
        }
        if entry.is_released {
            // Its seats are free already.
        } else if entry.work.extra.is_zero() {
            self.free(entry.queue, entry.work.widest());
        } else {
            let end = now.saturating_add(entry.work.extra);
            self.lingering.push(Reverse((end, entry.work.widest(), entry.queue)));
        }
        if let Some(queue) = entry.queue {
            self.change(queue, |queue| queue.running -= 1);
        }
        self.observe_demand(now);
        self.dispatch(now, wake);
        (entry.about, ran)
    }

    /// Takes away the seats of requests that have run for longer than `limit`: a client that does not read its
    /// answer must not occupy seats forever.
    pub(super) fn release_older(&mut self, limit: Duration, now: Duration, wake: &mut impl FnMut(&mut T)) {
        self.advance(now);
        let is_older = |started: Duration| now.saturating_sub(started) > limit;
        let mut freed = Vec::new();
        for entry in self.requests.iter_mut() {
            if !entry.is_released && entry.started.is_some_and(is_older) {
                entry.is_released = true;
                freed.push((entry.queue, entry.work.widest()));
            }
        }
        freed.into_iter().for_each(|(queue, seats)| self.free(queue, seats));
        self.observe_demand(now);
        self.dispatch(now, wake);
    }

    /// Frees the seats whose time is over, and lets requests run on them.
    pub(super) fn expire(&mut self, now: Duration, wake: &mut impl FnMut(&mut T)) {
        self.advance(now);
        self.dispatch(now, wake);
    }

    /// When the next seats of a request that has run become free, if requests wait for seats.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        let Reverse((end, ..)) = self.lingering.peek()?;
        (self.counts.waiting > 0).then_some(*end)
    }

    /// What is known about a request that has not left.
    pub(super) fn about(&mut self, id: RequestId) -> &mut T {
        &mut self.requests.get_mut(id).about
    }

    /// Whether the level has neither running nor waiting requests.
    pub(super) fn is_idle(&self) -> bool {
        self.counts.waiting == 0 && self.counts.running == 0 && self.counts.seats == 0
    }

    /// The seats that running and waiting requests needed since the last call.
    pub(super) fn take_demand(&mut self, now: Duration) -> ObservedSeats {
        self.advance(now);
        self.demand.reset(now)
    }

    /// Totals of the level.
    pub(super) fn counts(&self) -> LevelCounts {
        LevelCounts { active_queues: self.active, ..self.counts }
    }

    /// The states of all queues, by index.
    pub(super) fn queues(&self) -> Vec<QueueState> {
        let state = |queue: &Queue| {
            let works = || queue.waiting.iter().map(|id| self.requests.get(*id).work);
            QueueState {
                waiting: queue.waiting.len(),
                running: queue.running,
                seats: queue.seats,
                served_until: queue.served_until,
                waiting_seats: works().map(|work| u64::from(work.seats)).sum(),
                widest_seats: works().map(|work| u64::from(work.widest())).sum(),
                waiting_work: queue.waiting_work,
            }
        };
        self.queues.iter().map(state).collect()
    }

    /// Calls `each` with every request that has not left: running ones first, then waiting ones in the order
    /// of their queues, with the position in its queue.
    pub(super) fn each_request(&self, mut each: impl FnMut(&RequestState<'_, T>)) {
        let mut show = |entry: &Entry<T>, position: Option<usize>| {
            each(&RequestState {
                about: &entry.about,
                queue: entry.queue,
                position,
                work: entry.work,
                arrived: entry.arrived,
                started: entry.started,
            });
        };
        self.requests.iter().filter(|entry| entry.started.is_some()).for_each(|entry| show(entry, None));
        for queue in &self.queues {
            for (position, id) in queue.waiting.iter().enumerate() {
                show(self.requests.get(*id), Some(position));
            }
        }
    }

    fn reject(&mut self, rejection: Rejection) -> Rejection {
        self.counts.rejected += 1;
        rejection
    }

    /// Makes queues as configured, and drops queues beyond them that have drained.
    fn resize(&mut self) {
        let wanted = match self.limiting {
            Limiting::Queue { queues, .. } => queues.max(1),
            Limiting::Exempt | Limiting::Reject => 0,
        };
        while self.queues.len() > wanted && self.queues.last().is_some_and(|queue| !queue.is_active()) {
            self.queues.pop();
        }
        if self.queues.len() < wanted {
            self.queues.resize_with(wanted, Queue::default);
        }
    }

    /// The queue of the hand with the least work.
    fn choose(&self, hash: u64, queues: usize, hand: usize) -> usize {
        let mut best: Option<(f64, usize)> = None;
        deal(hash, queues.max(1), hand.max(1), |card| {
            let queue = &self.queues[card];
            let work = queue.waiting_work + queue.seats as f64 * ASSUMED.as_secs_f64();
            if best.is_none_or(|(least, _)| work < least) {
                best = Some((work, card));
            }
        });
        best.map_or(0, |(_, card)| card)
    }

    /// Whether a request with this many seats may run. One that needs more seats than the level has runs
    /// alone.
    fn has_room(&self, seats: u32) -> bool {
        let seats = u64::from(seats);
        matches!(self.limiting, Limiting::Exempt)
            || self.counts.seats == 0
            || self.counts.seats + seats <= self.limit
    }

    /// Sets the virtual time of a queue in which no request waits, before one does or runs.
    fn begin_backlog(&mut self, queue: usize) {
        let (now, queue) = (self.virtual_time, &mut self.queues[queue]);
        if !queue.is_active() {
            queue.served_until = now;
        } else if queue.waiting.is_empty() {
            queue.served_until = queue.served_until.max(now);
        }
    }

    fn start(&mut self, id: RequestId, now: Duration) {
        let entry = self.requests.get_mut(id);
        entry.started = Some(now);
        let (queue, work) = (entry.queue, entry.work);
        self.counts.running += 1;
        self.counts.dispatched += 1;
        self.counts.seats += u64::from(work.widest());
        if let Some(queue) = queue {
            self.change(queue, |queue| {
                queue.running += 1;
                queue.seats += u64::from(work.widest());
                queue.served_until += assumed_work(work);
            });
        }
        self.observe_demand(now);
    }

    /// Changes a queue, and counts whether it is active.
    fn change<R>(&mut self, queue: usize, change: impl FnOnce(&mut Queue) -> R) -> R {
        let queue = &mut self.queues[queue];
        self.active -= usize::from(queue.is_active());
        let result = change(queue);
        self.active += usize::from(queue.is_active());
        result
    }

    fn free(&mut self, queue: Option<usize>, seats: u32) {
        self.counts.seats -= u64::from(seats);
        if let Some(queue) = queue {
            self.change(queue, |queue| queue.seats -= u64::from(seats));
        }
    }

    /// `remove` takes a request out of its queue.
    fn leave_queue(&mut self, queue: usize, work: Work, remove: impl FnOnce(&mut VecDeque<RequestId>)) {
        self.counts.waiting -= 1;
        self.counts.waiting_seats -= u64::from(work.widest());
        self.change(queue, |queue| {
            remove(&mut queue.waiting);
            // Sums of floats drift; an empty queue has no work.
            queue.waiting_work = match queue.waiting.is_empty() {
                true => 0.0,
                false => queue.waiting_work - assumed_work(work),
            };
        });
    }

    fn dispatch(&mut self, now: Duration, wake: &mut impl FnMut(&mut T)) {
        self.dispatch_with(now, &mut |_, about| wake(about));
    }

    /// Lets waiting requests run, in order, until one does not fit.
    fn dispatch_with(&mut self, now: Duration, started: &mut impl FnMut(RequestId, &mut T)) {
        if self.counts.waiting == 0 {
            return;
        }
        while let Some(queue) = self.next_queue() {
            let id = self.queues[queue].waiting[0];
            let work = self.requests.get(id).work;
            if !self.has_room(work.widest()) {
                self.counts.too_wide += u64::from(self.counts.seats < self.limit);
                break;
            }
            self.leave_queue(queue, work, |waiting| {
                waiting.pop_front();
            });
            self.served_last = queue;
            self.start(id, now);
            started(id, &mut self.requests.get_mut(id).about);
        }
        self.resize();
    }

    /// The queue whose first request would be served up to the earliest virtual time.
    fn next_queue(&mut self) -> Option<usize> {
        let count = self.queues.len();
        let mut best: Option<(f64, usize)> = None;
        for index in (1..=count).map(|offset| (self.served_last + offset) % count) {
            let queue = &mut self.queues[index];
            let Some(first) = queue.waiting.front() else { continue };
            let first = self.requests.get(*first);
            // A queue that used less than its part while it had few requests does not save up the rest.
            queue.served_until = queue.served_until.max(first.arrived_virtual);
            let end = queue.served_until + assumed_work(first.work);
            if best.is_none_or(|(earliest, _)| end < earliest) {
                best = Some((end, index));
            }
        }
        best.map(|(_, index)| index)
    }

    /// Advances the virtual time to `now`, and frees the seats whose time is over on the way.
    fn advance(&mut self, now: Duration) {
        while let Some(Reverse((end, seats, queue))) = self.lingering.peek().copied() {
            if end > now {
                break;
            }
            self.lingering.pop();
            self.advance_virtual(end);
            self.free(queue, seats);
            self.observe_demand(end);
        }
        self.advance_virtual(now);
    }

    fn advance_virtual(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.updated);
        if passed.is_zero() {
            return;
        }
        self.updated = now;
        // An idle or exempt level needs no virtual time.
        if self.active > 0 {
            let wanted = (self.counts.seats + self.counts.waiting_seats).min(self.limit.max(1));
            self.virtual_time += passed.as_secs_f64() * wanted as f64 / self.active as f64;
        }
    }

    fn observe_demand(&mut self, now: Duration) {
        self.demand.set(now, self.counts.seats + self.counts.waiting_seats);
    }
}

/// One request, for dumps.
#[derive(Debug)]
pub(super) struct RequestState<'a, T> {
    pub(super) about: &'a T,
    pub(super) queue: Option<usize>,
    /// The position among the waiting requests of its queue; `None` if it runs.
    pub(super) position: Option<usize>,
    pub(super) work: Work,
    pub(super) arrived: Duration,
    pub(super) started: Option<Duration>,
}

/// Seat-seconds of a request that has not run.
fn assumed_work(work: Work) -> f64 {
    f64::from(work.seats) * ASSUMED.as_secs_f64() + work.extra_work()
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
