//! [`PodBackoff`]: the back-off of a pod after its n-th failure. By default one second, doubled each time, at most ten; cut to the start
//! of a window. And how long a refused pod waits for an event.

use crate::limits::{BACKOFF_WINDOW, INITIAL_BACKOFF, MAX_BACKOFF, MAX_UNSCHEDULABLE_STAY};
use jiff::{SignedDuration, Timestamp};
use kstore_nondet::Backoff;

/// The waits of pods after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodBackoff {
    /// The wait after the first failure: kube-scheduler's `podInitialBackoffSeconds`.
    pub initial: SignedDuration,
    /// The longest wait: kube-scheduler's `podMaxBackoffSeconds`.
    pub longest: SignedDuration,
    /// The time after which a refused pod is tried again that no event has woken: kube-scheduler's flag
    /// `--pod-max-in-unschedulable-pods-duration`.
    pub longest_stay: SignedDuration,
    /// Whether pods in back-off after a refusal are tried as soon as no other pod is ready: the gate `SchedulerPopFromBackoffQ`.
    pub ends_early: bool,
}

impl Default for PodBackoff {
    fn default() -> Self {
        Self {
            initial: INITIAL_BACKOFF,
            longest: MAX_BACKOFF,
            longest_stay: MAX_UNSCHEDULABLE_STAY,
            ends_early: true,
        }
    }
}

impl PodBackoff {
    /// The time at which a pod may be tried again that was queued at `queued` after `failures` failures; `queued`
    /// for none.
    pub(super) fn expiry(&self, queued: Timestamp, failures: u32) -> Timestamp {
        if failures == 0 {
            return queued;
        }
        let waits = Backoff::doubling(self.initial.unsigned_abs(), self.longest.unsigned_abs());
        let end = queued.saturating_add(waits.wait(failures - 1)).unwrap_or(Timestamp::MAX);
        window_start(end)
    }
}

impl PodBackoff {
    /// The time at which a pod leaves the unschedulable pods that entered them at `queued`, whatever happens.
    pub(super) fn end_of_stay(&self, queued: Timestamp) -> Timestamp {
        queued.saturating_add(self.longest_stay).unwrap_or(Timestamp::MAX)
    }
}

fn window_start(at: Timestamp) -> Timestamp {
    let window = BACKOFF_WINDOW.as_nanos();
    let start = at.as_nanosecond().div_euclid(window) * window;
    Timestamp::from_nanosecond(start).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_up_to_ten_seconds() {
        let start = Timestamp::from_second(1000).unwrap();
        let waits: Vec<i64> =
            (0..40).map(|n| PodBackoff::default().expiry(start, n).as_second() - 1000).collect();
        assert_eq!(waits[..7], [0, 1, 2, 4, 8, 10, 10]);
        assert!(waits[7..].iter().all(|wait| *wait == 10));
    }

    #[test]
    fn expiries_are_cut_to_a_second() {
        let queued = Timestamp::from_millisecond(1_000_700).unwrap();
        assert_eq!(PodBackoff::default().expiry(queued, 1), Timestamp::from_second(1001).unwrap());
    }
}
