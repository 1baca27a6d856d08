//! [`Activity`]: the requests in flight on one connection, the time since which it is idle, and the time since which its
//! client takes nothing of its answers. No sockets.

use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The state of one connection's requests. Shared by the connection's task, its requests, and the
/// [`Connections`](super::connections).
#[derive(Debug)]
pub(super) struct Activity {
    /// The address of the client.
    pub(super) address: IpAddr,
    /// Whether the connection has a kept slot: it serves health checks and administrators only.
    pub(super) is_kept: bool,
    opened: Instant,
    in_flight: AtomicUsize,
    /// Answers of which the client has something to take.
    untaken: AtomicUsize,
    /// Milliseconds from `opened` to the last time that the client took a part of an answer.
    taken: AtomicU64,
    /// Whether the last request came over HTTP/1.1, where one answer holds up the connection.
    is_http1: AtomicBool,
    /// The last user with credentials.
    pub(super) user: Arc<Mutex<Option<Arc<UserInfo>>>>,
    /// Whether a request was answered.
    has_answered: AtomicBool,
    /// Milliseconds from `opened` to the end of the last answer.
    latest: AtomicU64,
    /// Whether the connection was upgraded to another protocol, such as a WebSocket; it then never counts as
    /// idle.
    is_upgraded: AtomicBool,
    /// Ends the connection at once, in favour of another one.
    pub(super) evicted: CancellationToken,
}

impl Activity {
    /// The activity of a connection that is open from now on.
    pub(super) fn new(address: IpAddr, is_kept: bool) -> Self {
        Self {
            address,
            is_kept,
            opened: Instant::now(),
            in_flight: AtomicUsize::new(0),
            untaken: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            is_http1: AtomicBool::new(false),
            user: Arc::default(),
            has_answered: AtomicBool::new(false),
            latest: AtomicU64::new(0),
            is_upgraded: AtomicBool::new(false),
            evicted: CancellationToken::new(),
        }
    }

    /// Begins a request. It is in flight until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, is_http1: bool) -> InFlight {
        self.is_http1.store(is_http1, Ordering::Release);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(self.clone())
    }

    /// Records that the connection was upgraded to another protocol.
    pub(super) fn upgraded(&self) {
        self.is_upgraded.store(true, Ordering::Release);
    }

    /// Whether a request was answered, and the time since which the connection is idle; `None` while a
    /// request is in flight.
    pub(super) fn idle_since(&self) -> Option<(bool, Instant)> {
        if self.in_flight.load(Ordering::Acquire) > 0 || self.is_upgraded.load(Ordering::Acquire) {
            return None;
        }
        let since = self.opened + Duration::from_millis(self.latest.load(Ordering::Acquire));
        Some((self.has_answered.load(Ordering::Acquire), since))
    }

    /// Whether a client with credentials uses the connection.
    pub(super) fn is_anonymous(&self) -> bool {
        self.user.lock().is_none()
    }

    /// The time since which the client takes nothing, although each request in flight has an answer for it.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        let (in_flight, untaken) =
            (self.in_flight.load(Ordering::Acquire), self.untaken.load(Ordering::Acquire));
        let is_stalled = untaken > 0 && untaken >= in_flight && !self.is_upgraded.load(Ordering::Acquire);
        is_stalled.then(|| self.last_taken())
    }

    /// How long the connection is open.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// When the client last took a part of an answer; the time of the opening, if it never did.
    pub(super) fn last_taken(&self) -> Instant {
        self.opened + Duration::from_millis(self.taken.load(Ordering::Acquire))
    }

    /// The time since which a request is in flight on a connection without credentials; `None` for other connections.
    pub(super) fn anonymous_since(&self) -> Option<Instant> {
        let is_busy = self.in_flight.load(Ordering::Acquire) > 0 && !self.is_upgraded.load(Ordering::Acquire);
        (is_busy && self.is_anonymous()).then_some(self.opened)
    }

    /// Waits until the client of an HTTP/1.1 connection has taken nothing for [`limits::STALLED_ANSWER`]. Over HTTP/2
    /// single streams are reset.
    pub(super) async fn stalled_for_too_long(&self) {
        loop {
            let stalled = self.stalled_since().filter(|_| self.is_http1.load(Ordering::Acquire));
            let wait = match stalled.map(|since| limits::STALLED_ANSWER.checked_sub(since.elapsed())) {
                None => limits::STALLED_ANSWER,
                Some(None | Some(Duration::ZERO)) => return,
                Some(Some(left)) => left,
            };
            sleep(wait).await;
        }
    }

    fn has_taken(&self) {
        let taken = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.taken.store(taken, Ordering::Release);
    }

    /// Waits until the connection has been idle for too long: for [`limits::FIRST_REQUEST`] before its first
    /// request, for [`limits::IDLE_CONNECTION`] between requests, and in a kept slot for [`limits::KEPT_CONNECTION`].
    pub(super) async fn idle_for_too_long(&self) {
        let (first, later) = match self.is_kept {
            true => (limits::KEPT_CONNECTION, limits::KEPT_CONNECTION),
            false => (limits::FIRST_REQUEST, limits::IDLE_CONNECTION),
        };
        loop {
            let wait = match self.idle_since() {
                // The earliest time at which it could have been idle for too long.
                None => later,
                Some((has_answered, since)) => {
                    let limit = if has_answered { later } else { first };
                    match limit.checked_sub(since.elapsed()) {
                        None | Some(Duration::ZERO) => return,
                        Some(left) => left,
                    }
                }
            };
            sleep(wait).await;
        }
    }
}

/// Guard of a request in flight; dropped with the body of its answer.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl InFlight {
    /// Records that the client has something to take of the answer.
    pub(super) fn waits_for_client(&self) {
        self.0.has_taken();
        self.0.untaken.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that the client has taken a part of the answer.
    pub(super) fn was_taken(&self) {
        self.0.has_taken();
    }

    /// Records that the client has taken what there is of the answer.
    pub(super) fn waits_for_server(&self) {
        self.0.has_taken();
        self.0.untaken.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let activity = &self.0;
        let latest = u64::try_from(activity.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        activity.latest.store(latest, Ordering::Release);
        activity.has_answered.store(true, Ordering::Release);
        activity.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::time::timeout;

    fn activity() -> Arc<Activity> {
        Arc::new(Activity::new(Ipv4Addr::LOCALHOST.into(), false))
    }

    /// How long the connection may stay idle from now on.
    async fn patience(activity: &Activity) -> Duration {
        let began = Instant::now();
        activity.idle_for_too_long().await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_is_closed_after_half_a_minute() {
        assert_eq!(patience(&activity()).await.as_secs(), limits::FIRST_REQUEST.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn idleness_counts_from_the_end_of_the_latest_answer() {
        let activity = activity();
        drop(activity.begin(false));
        sleep(Duration::from_secs(60)).await;
        drop(activity.begin(false));
        assert_eq!(patience(&activity).await.as_secs(), limits::IDLE_CONNECTION.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn an_http1_connection_whose_client_takes_nothing_is_closed_after_half_a_minute() {
        let (one, two) = (activity(), activity());
        let answers = [one.begin(true), two.begin(false)];
        let day = Duration::from_secs(24 * 3600);
        assert!(timeout(day, one.stalled_for_too_long()).await.is_err(), "the server has not answered");
        answers.iter().for_each(InFlight::waits_for_client);
        sleep(limits::STALLED_ANSWER / 2).await;
        answers[0].was_taken();
        let began = Instant::now();
        one.stalled_for_too_long().await;
        assert_eq!(began.elapsed().as_secs(), limits::STALLED_ANSWER.as_secs());
        assert!(timeout(day, two.stalled_for_too_long()).await.is_err(), "over HTTP/2 streams are reset");
        answers.iter().for_each(InFlight::waits_for_server);
        assert_eq!((one.stalled_since(), two.stalled_since()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_idle_while_a_watch_is_open_or_after_an_upgrade() {
        let day = Duration::from_secs(24 * 3600);
        let (watching, upgraded) = (activity(), activity());
        let watch = watching.begin(false);
        upgraded.upgraded();
        assert!(timeout(day, watching.idle_for_too_long()).await.is_err());
        assert!(timeout(day, upgraded.idle_for_too_long()).await.is_err());
        drop(watch);
        assert!(patience(&watching).await <= limits::IDLE_CONNECTION);
    }
}
