//! One priority level as it runs: its [`QueueSet`] behind a lock, the seats of running requests as guards, and
//! the futures of waiting ones. A waiting request is woken when it may run; nothing polls.

use super::borrowing::{LevelShares, SeatBounds};
use super::config::LevelConfig;
use super::demand::SeatDemand;
use super::estimate::Work;
use super::flow::{Flow, Outcome};
use super::queue_set::{
    Arrival, LevelCounts, Limiting, QueueSet, QueueState, Rejection, RequestId, RequestState,
};
use http::Uri;
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

/// What dumps tell about a request.
#[derive(Clone, Debug)]
pub struct RequestSummary {
    /// The caller.
    pub user: Arc<UserInfo>,
    /// The API verb.
    pub verb: &'static str,
    /// The URI, also that of a gRPC call.
    pub uri: Uri,
}

impl RequestSummary {
    /// The summary of a request.
    pub fn new(user: &Arc<UserInfo>, verb: &'static str, uri: &Uri) -> Self {
        Self { user: user.clone(), verb, uri: uri.clone() }
    }
}

/// A request in a level.
#[derive(Debug)]
pub(super) struct Occupant {
    pub(super) flow: Arc<Flow>,
    pub(super) summary: RequestSummary,
    pub(super) is_watch: bool,
    /// Wakes the request if it waits.
    granted: Option<oneshot::Sender<()>>,
}

/// The seats of a level, as the last adjustment set them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LevelSeats {
    pub(super) bounds: SeatBounds,
    pub(super) current: u32,
    pub(super) demand: SeatDemand,
    /// Seats that the level wanted in the last adjustment.
    pub(super) target: f64,
}

/// A priority level.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) name: String,
    is_exempt: bool,
    /// Times of the queue set count from here.
    epoch: Instant,
    nominal: AtomicU32,
    state: Mutex<LevelState>,
    seats: Mutex<LevelSeats>,
    shares: Mutex<LevelShares>,
}

#[derive(Debug)]
struct LevelState {
    set: QueueSet<Occupant>,
    /// Whether a task waits for seats of requests that have run.
    has_timer: bool,
}

/// Lets a waiting request run.
fn wake(occupant: &mut Occupant) {
    if let Some(granted) = occupant.granted.take() {
        // A request that has just left does not receive this; its guard returns the seat.
        let _ = granted.send(());
    }
}

impl Level {
    /// A level without requests and, until it is given some, without seats.
    pub(super) fn new(name: &str, config: &LevelConfig, epoch: Instant) -> Self {
        Self {
            name: name.to_owned(),
            is_exempt: config.limiting == Limiting::Exempt,
            epoch,
            nominal: AtomicU32::new(0),
            state: Mutex::new(LevelState { set: QueueSet::new(config.limiting, 0), has_timer: false }),
            seats: Mutex::default(),
            shares: Mutex::new(config.shares),
        }
    }

    /// Whether the level has no limit.
    pub(super) fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    pub(super) fn nominal(&self) -> u32 {
        self.nominal.load(Ordering::Relaxed)
    }

    pub(super) fn shares(&self) -> LevelShares {
        *self.shares.lock()
    }

    pub(super) fn seats(&self) -> LevelSeats {
        *self.seats.lock()
    }

    /// Applies a changed configuration; requests stay where they are.
    pub(super) fn configure(self: &Arc<Self>, config: &LevelConfig) {
        *self.shares.lock() = config.shares;
        self.with_set(|set, now| set.configure(config.limiting, now, &mut wake));
    }

    /// Sets the seats.
    pub(super) fn set_seats(self: &Arc<Self>, seats: LevelSeats) {
        self.nominal.store(seats.bounds.nominal, Ordering::Relaxed);
        *self.seats.lock() = seats;
        self.with_set(|set, now| set.set_limit(seats.current, now, &mut wake));
    }

    /// Ends a period of the demand, and frees the seats of requests that run for too long. Returns whether the
    /// demand changed.
    pub(super) fn end_period(self: &Arc<Self>) -> bool {
        let observed = self.with_set(|set, now| {
            set.release_older(limits::REQUEST_TIMEOUT, now, &mut wake);
            set.take_demand(now)
        });
        self.seats.lock().demand.update(observed)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().set.is_idle()
    }

    pub(super) fn counts(self: &Arc<Self>) -> LevelCounts {
        self.with_set(|set, now| {
            set.expire(now, &mut wake);
            set.counts()
        })
    }

    pub(super) fn queues(&self) -> Vec<QueueState> {
        self.state.lock().set.queues()
    }

    /// Calls `each` with every request, and with the present time of its times.
    pub(super) fn each_request(&self, mut each: impl FnMut(&RequestState<'_, Occupant>, Duration)) {
        let now = self.now();
        self.state.lock().set.each_request(|request| each(request, now));
    }

    /// A request of `flow`, whose level this is, arrives.
    pub(super) fn enter(
        self: &Arc<Self>,
        flow: &Arc<Flow>,
        hash: u64,
        work: Work,
        is_watch: bool,
        summary: RequestSummary,
    ) -> Result<Entered, Rejection> {
        let occupant = Occupant { flow: flow.clone(), summary, is_watch, granted: None };
        let entered = self.with_set(|set, now| {
            Ok(match set.arrive(now, hash, work, occupant, &mut wake)? {
                Arrival::Running(id) => (id, None),
                Arrival::Waiting { id, length } => {
                    let (granted, receiver) = oneshot::channel();
                    set.about(id).granted = Some(granted);
                    (id, Some((receiver, length)))
                }
            })
        });
        let (id, waits) = entered?;
        let seat = Seat { flow: flow.clone(), id: Some(id) };
        Ok(match waits {
            None => Entered::Running(seat),
            Some((granted, length)) => {
                flow.metrics.queued(length);
                Entered::Waiting(Waiting { seat, granted, since: Instant::now() })
            }
        })
    }

    /// A request leaves: it has run, or it no longer waits. Returns false if it runs although its time to wait
    /// is over.
    fn leave(self: &Arc<Self>, id: RequestId, is_timeout: bool) -> bool {
        // Occupants are dropped after the lock is released.
        let (abandoned, finished) =
            self.with_set(|set, now| match set.abandon(id, is_timeout, now, &mut wake) {
                None if is_timeout => (None, None),
                None => (None, Some(set.finish(id, now, &mut wake))),
                abandoned => (abandoned, None),
            });
        if let Some((occupant, waited)) = abandoned.as_ref().filter(|_| !is_timeout) {
            occupant.flow.metrics.decided(Outcome::Cancelled, *waited);
        }
        if let Some((occupant, ran)) = &finished {
            occupant.flow.metrics.ran(occupant.is_watch, *ran);
        }
        abandoned.is_some() || finished.is_some()
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Changes the queue set. If requests then wait for the seats of requests that have run, a timer frees
    /// these seats.
    fn with_set<R>(self: &Arc<Self>, change: impl FnOnce(&mut QueueSet<Occupant>, Duration) -> R) -> R {
        let mut state = self.state.lock();
        // The time is read under the lock, so that the queue set's time never goes back.
        let now = self.now();
        let result = change(&mut state.set, now);
        if !state.has_timer
            && let Some(expiry) = state.set.next_expiry()
        {
            state.has_timer = self.expire_at(expiry);
        }
        result
    }

    /// Starts a task that frees the seats of requests that have run, at `expiry`; false while the runtime ends.
    fn expire_at(self: &Arc<Self>, expiry: Duration) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        let level = self.clone();
        runtime.spawn(async move {
            sleep_until(level.epoch + expiry).await;
            level.state.lock().has_timer = false;
            level.with_set(|set, now| set.expire(now, &mut wake));
        });
        true
    }
}

/// What became of a request that arrived at its level.
#[derive(Debug)]
pub enum Entered {
    /// It may run.
    Running(Seat),
    /// It waits.
    Waiting(Waiting),
}

/// The seats of a running request, or the place of a waiting one; dropping it frees them.
#[derive(Debug)]
pub struct Seat {
    flow: Arc<Flow>,
    /// `None` after the request has left.
    id: Option<RequestId>,
}

impl Seat {
    /// Whether the level has no limit.
    pub fn is_exempt(&self) -> bool {
        self.flow.level.is_exempt()
    }

    /// Ends the wait; whether the request still waited.
    fn time_out(&mut self) -> bool {
        let id = self.id.expect("a request leaves once");
        let has_left = self.flow.level.leave(id, true);
        if has_left {
            self.id = None;
        }
        has_left
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.flow.level.leave(id, false);
        }
    }
}

/// A request that waits in a queue. Dropping it gives up its place.
#[derive(Debug)]
pub struct Waiting {
    seat: Seat,
    granted: oneshot::Receiver<()>,
    since: Instant,
}

impl Waiting {
    /// Waits until the request may run; `None` if it may not within `limit`.
    pub async fn granted(self, limit: Duration) -> Option<Seat> {
        let Self { mut seat, granted, since } = self;
        let is_granted = timeout(limit, granted).await.is_ok() || !seat.time_out();
        let outcome = if is_granted { Outcome::Dispatched } else { Outcome::TimedOut };
        seat.flow.metrics.decided(outcome, since.elapsed());
        is_granted.then_some(seat)
    }
}
