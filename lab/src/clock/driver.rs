//! [`Driver`]: moves the clock of a cluster on its own runtime. It knows nothing of clients in real time; `advance` does.

use super::gate::Gate;
use jiff::SignedDuration;
use kstore_nondet::ClockOffset;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Longest sleep of one move: tokio's timers reach two years, and a longer move is several.
const LONGEST_MOVE: Duration = Duration::from_secs(300 * 24 * 3600);

/// A flag with a wake-up: set on one thread, taken on another.
#[derive(Debug, Default)]
pub struct Signal {
    is_set: AtomicBool,
    changed: Notify,
}

impl Signal {
    /// Sets the flag and wakes the waiter. A flag that is set costs a load.
    pub fn set(&self) {
        // What the caller did before is under a lock that the waiter takes after it has cleared the flag: either the waiter sees it, or
        // the flag is clear here.
        if self.is_set() {
            return;
        }
        self.is_set.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Clears the flag, and returns whether it was set.
    pub fn take(&self) -> bool {
        self.is_set.swap(false, Ordering::AcqRel)
    }

    /// Waits until the flag is set; leaves it set. One waiter at a time.
    pub async fn wait(&self) {
        while !self.is_set() {
            self.changed.notified().await;
        }
    }
}

/// Why the clock stopped after a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveEnd {
    /// The target is there.
    There,
    /// Traffic of a counted client.
    Traffic,
    /// The goal of the advance is reached.
    Goal,
    /// One stop was asked for and made.
    Stopped,
    /// The number of stops is used up.
    Exhausted,
}

/// How far a move goes.
#[derive(Clone, Debug)]
pub struct Move {
    /// The clock does not pass this time.
    pub target: Instant,
    /// Largest number of stops; 1 goes to the next deadline.
    pub stops: u64,
    /// Cluster time that may pass after traffic before the clock stops for it, so that several deliveries share a barrier.
    pub granule: Duration,
    /// Ends the move when it is set.
    pub goal: Option<Arc<Signal>>,
}

/// The clock of a cluster's runtime.
#[derive(Debug)]
pub struct Driver {
    gate: Arc<Gate>,
    /// By which the wall time leaps backward.
    offset: ClockOffset,
    /// Set when anything was delivered to, answered for or asked by a counted client.
    traffic: Signal,
    /// Set by the hook of the runtime's thread when a deadline was reached and [`Self::allowed_stops`] are made.
    stopped: Signal,
    /// Whether a task waits until no other task is ready.
    wants_idle: AtomicBool,
    idle: Notify,
    /// Times to which the clock has moved so far.
    stops: AtomicU64,
    /// The number of stops at which a move ends.
    allowed_stops: AtomicU64,
    /// The time at the last stop.
    last: Mutex<Option<Instant>>,
    /// Whether the clock of the runtime is paused.
    is_paused: AtomicBool,
    /// Whether the clock is that of the process, which no driver moves.
    is_real: bool,
    /// Calls of the cluster to other servers that have no answer yet.
    calls: AtomicUsize,
}

/// A call of the cluster to another server; it ends when this is dropped.
#[derive(Debug)]
pub struct CallGuard(Arc<Driver>);

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
        self.0.note_traffic();
    }
}

impl Driver {
    /// The driver of a runtime whose clock is paused. [`Self::parked`] and [`Self::unparked`] must be hooks of that runtime.
    pub fn new() -> Arc<Self> {
        Self::of(false)
    }

    /// The driver of a cluster on the process's runtime: it moves nothing.
    pub fn in_real_time() -> Arc<Self> {
        Self::of(true)
    }

    fn of(is_real: bool) -> Arc<Self> {
        Arc::new(Self {
            gate: Arc::default(),
            offset: ClockOffset::new(),
            traffic: Signal::default(),
            stopped: Signal::default(),
            wants_idle: AtomicBool::new(false),
            idle: Notify::new(),
            stops: AtomicU64::new(0),
            allowed_stops: AtomicU64::new(u64::MAX),
            last: Mutex::new(None),
            is_paused: AtomicBool::new(!is_real),
            is_real,
            calls: AtomicUsize::new(0),
        })
    }

    /// Notes a call of the cluster to another server, such as a webhook: the clock stands until the guard is dropped.
    pub fn begin_call(self: &Arc<Self>) -> CallGuard {
        self.calls.fetch_add(1, Ordering::AcqRel);
        self.note_traffic();
        CallGuard(self.clone())
    }

    /// Number of calls to other servers that have no answer yet.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    /// The hook before the runtime's thread sleeps: no task is ready.
    pub fn parked(&self) {
        if self.wants_idle.swap(false, Ordering::AcqRel) {
            self.idle.notify_waiters();
        }
    }

    /// The hook after the runtime's thread slept: the clock may have moved.
    pub fn unparked(&self) {
        if !self.is_paused.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let mut last = self.last.lock();
        if last.replace(now).is_some_and(|last| last == now) {
            return;
        }
        drop(last);
        let made = self.stops.fetch_add(1, Ordering::AcqRel) + 1;
        if made >= self.allowed_stops.load(Ordering::Acquire) {
            self.stopped.set();
        }
    }

    /// Holds the clock. Must be called on the runtime.
    pub fn hold(&self) {
        self.last.lock().get_or_insert_with(Instant::now);
        self.gate.close();
    }

    /// Ends the gate, so that the runtime can end.
    pub fn end(&self) {
        self.gate.end();
    }

    /// Notes traffic of a counted client: the clock stops for a barrier.
    pub fn note_traffic(&self) {
        self.traffic.set();
    }

    /// Whether there was traffic since the last call; forgets it.
    pub fn take_traffic(&self) -> bool {
        self.traffic.take()
    }

    /// Whether there was traffic since it was last taken.
    pub fn has_traffic(&self) -> bool {
        self.traffic.is_set()
    }

    /// Number of times to which the clock has moved.
    pub fn stops(&self) -> u64 {
        self.stops.load(Ordering::Acquire)
    }

    /// Lets time pass as in reality, or not. Must be called on the runtime.
    pub fn set_paused(&self, is_paused: bool) {
        if self.is_paused.swap(is_paused, Ordering::AcqRel) != is_paused {
            if is_paused { tokio::time::pause() } else { tokio::time::resume() }
        }
    }

    /// Waits until no task of the runtime is ready. Must run on the runtime; time does not pass meanwhile if the gate is closed. Of the
    /// process's runtime nothing is known, so this returns at once.
    pub async fn until_idle(&self) {
        if self.is_real {
            return;
        }
        // Registered when it is made, so that the hook cannot miss it.
        let idle = self.idle.notified();
        self.wants_idle.store(true, Ordering::Release);
        idle.await;
    }

    /// Lets time pass once, then runs the cluster until no task is ready. Must run on the runtime, one call at a time. If the caller drops
    /// the future, the clock stops at once.
    pub async fn pass(&self, how: Move) -> MoveEnd {
        let Move { target, stops, granule, goal } = how;
        self.until_idle().await;
        if self.has_traffic() {
            return MoveEnd::Traffic;
        }
        self.stopped.take();
        self.allowed_stops.store(self.stops().saturating_add(stops), Ordering::Release);
        let goal = goal.unwrap_or_default();
        let open = OpenGate::open(self);
        let (mut end, mut is_delayed) = (target, false);
        let ended = loop {
            let part = end.min(Instant::now() + LONGEST_MOVE);
            tokio::select! {
                biased;
                () = goal.wait() => break MoveEnd::Goal,
                () = self.traffic.wait(), if !is_delayed => {
                    if granule.is_zero() {
                        break MoveEnd::Traffic;
                    }
                    (end, is_delayed) = (target.min(Instant::now() + granule), true);
                }
                () = self.stopped.wait() => {
                    break if stops == 1 { MoveEnd::Stopped } else { MoveEnd::Exhausted };
                }
                () = sleep_until(part) => {
                    if part == end {
                        break if self.has_traffic() { MoveEnd::Traffic } else { MoveEnd::There };
                    }
                }
            }
        };
        drop(open);
        // Tasks whose timers fired at this time.
        self.until_idle().await;
        ended
    }

    /// The offset of the cluster's clock.
    pub fn offset(&self) -> &ClockOffset {
        &self.offset
    }

    /// Sets the wall time back by `by`. Timers keep their remaining time.
    pub fn leap_back(&self, by: Duration) {
        self.offset.leap(-SignedDuration::try_from(by).unwrap_or_default());
    }

    /// Jumps `by` forward at once: what was due meanwhile fires late, at the new time. Must run on the runtime.
    pub async fn leap(&self, by: Duration) {
        self.until_idle().await;
        if self.is_paused.load(Ordering::Acquire) {
            tokio::time::advance(by).await;
        } else {
            self.set_paused(true);
            tokio::time::advance(by).await;
            self.set_paused(false);
        }
    }
}

/// An open gate, which closes when this is dropped.
struct OpenGate<'d>(&'d Driver);

impl<'d> OpenGate<'d> {
    fn open(driver: &'d Driver) -> Self {
        driver.gate.open();
        Self(driver)
    }
}

impl Drop for OpenGate<'_> {
    fn drop(&mut self) {
        self.0.gate.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::JoinHandle;

    /// Runs a future on a runtime with a paused clock.
    fn on_paused_runtime<F: Future<Output = ()> + Send + 'static>(
        test: impl FnOnce(Arc<Driver>) -> F + Send + 'static,
    ) -> JoinHandle<()> {
        std::thread::spawn(move || {
            let driver = Driver::new();
            let (park, unpark) = (driver.clone(), driver.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .on_thread_park(move || park.parked())
                .on_thread_unpark(move || unpark.unparked())
                .build()
                .unwrap();
            runtime.block_on(async {
                driver.hold();
                test(driver.clone()).await;
                driver.end();
            });
        })
    }

    fn to(target: Instant) -> Move {
        Move { target, stops: u64::MAX, granule: Duration::ZERO, goal: None }
    }

    #[test]
    fn a_move_ends_exactly_at_its_target_after_all_timers_before_it() {
        let test = async |driver: Arc<Driver>| {
            let (begin, fired) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
            for seconds in [7_u64, 3, 5, 11] {
                let fired = fired.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    fired.lock().push((seconds, begin.elapsed().as_secs()));
                });
            }
            let target = begin + Duration::from_secs(10);
            assert_eq!(driver.pass(to(target)).await, MoveEnd::There);
            assert_eq!(begin.elapsed(), Duration::from_secs(10));
            assert_eq!(*fired.lock(), [(3, 3), (5, 5), (7, 7)]);
            assert_eq!(
                driver.pass(Move { stops: 1, ..to(begin + Duration::from_secs(60)) }).await,
                MoveEnd::Stopped
            );
            assert!(begin.elapsed() <= Duration::from_secs(11));
        };
        on_paused_runtime(test).join().unwrap();
    }

    #[test]
    fn traffic_stops_the_clock_at_the_time_at_which_it_happens() {
        let test = async |driver: Arc<Driver>| {
            let begin = Instant::now();
            let busy = driver.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(4)).await;
                    busy.note_traffic();
                }
            });
            let target = begin + Duration::from_secs(10);
            assert_eq!(driver.pass(to(target)).await, MoveEnd::Traffic);
            assert_eq!(begin.elapsed(), Duration::from_secs(4));
            assert_eq!(driver.pass(to(target)).await, MoveEnd::Traffic, "nothing moves before it is taken");
            assert_eq!(begin.elapsed(), Duration::from_secs(4));
            assert!(driver.take_traffic());
            let granule = Duration::from_secs(1);
            assert_eq!(driver.pass(Move { granule, ..to(target) }).await, MoveEnd::Traffic);
            assert_eq!(begin.elapsed(), Duration::from_secs(9), "a granule after the second");
            driver.take_traffic();
            assert_eq!(driver.pass(to(target)).await, MoveEnd::There);
        };
        on_paused_runtime(test).join().unwrap();
    }

    #[test]
    fn a_leap_lets_timers_fire_late_and_a_goal_ends_a_move() {
        let test = async |driver: Arc<Driver>| {
            let begin = Instant::now();
            let timer = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(4)).await;
                begin.elapsed()
            });
            driver.leap(Duration::from_secs(3600)).await;
            assert_eq!(timer.await.unwrap(), Duration::from_secs(3600));
            let goal = Arc::new(Signal::default());
            let reached = goal.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(100)).await;
                reached.set();
            });
            let target = Instant::now() + Duration::from_secs(1_000_000_000);
            assert_eq!(driver.pass(Move { goal: Some(goal), ..to(target) }).await, MoveEnd::Goal);
            assert_eq!(begin.elapsed(), Duration::from_secs(3700));
        };
        on_paused_runtime(test).join().unwrap();
    }
}
