//! [`Activity`]: the requests in flight on one connection, and the time since which it is idle. No sockets.

use crate::limits;
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
    opened: Instant,
    in_flight: AtomicUsize,
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
    pub(super) fn new(address: IpAddr) -> Self {
        Self {
            address,
            opened: Instant::now(),
            in_flight: AtomicUsize::new(0),
            has_answered: AtomicBool::new(false),
            latest: AtomicU64::new(0),
            is_upgraded: AtomicBool::new(false),
            evicted: CancellationToken::new(),
        }
    }

    /// Begins a request. It is in flight until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
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

    /// Waits until the connection has been idle for too long: for [`limits::FIRST_REQUEST`] before its first
    /// request, for [`limits::IDLE_CONNECTION`] between requests.
    pub(super) async fn idle_for_too_long(&self) {
        loop {
            let wait = match self.idle_since() {
                // The earliest time at which it could have been idle for too long.
                None => limits::IDLE_CONNECTION,
                Some((has_answered, since)) => {
                    let limit = if has_answered { limits::IDLE_CONNECTION } else { limits::FIRST_REQUEST };
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
        Arc::new(Activity::new(Ipv4Addr::LOCALHOST.into()))
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
        drop(activity.begin());
        sleep(Duration::from_secs(60)).await;
        drop(activity.begin());
        assert_eq!(patience(&activity).await.as_secs(), limits::IDLE_CONNECTION.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_not_idle_while_a_watch_is_open_or_after_an_upgrade() {
        let day = Duration::from_secs(24 * 3600);
        let (watching, upgraded) = (activity(), activity());
        let watch = watching.begin();
        upgraded.upgraded();
        assert!(timeout(day, watching.idle_for_too_long()).await.is_err());
        assert!(timeout(day, upgraded.idle_for_too_long()).await.is_err());
        drop(watch);
        assert!(patience(&watching).await <= limits::IDLE_CONNECTION);
    }
}
