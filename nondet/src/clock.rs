//! Wall time, real or derived from tokio's (pausable) clock. It has no timers: sleep with `tokio::time`.
#![expect(clippy::disallowed_methods, reason = "this file is the one place that reads the system clock")]

use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// Clock that returns wall time. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock(ClockSource);

#[derive(Clone, Copy, Debug)]
enum ClockSource {
    /// The system's clock.
    Real,
    /// Simulated: `start` plus the time that tokio's clock has advanced since `origin`, plus the nanoseconds of an offset.
    Simulated { start: Timestamp, origin: Instant, offset: Option<&'static AtomicI64> },
}

/// Offsets that no clock uses any more. A clock is copied freely, so its offset has to outlive every copy.
static UNUSED: Mutex<Vec<&'static AtomicI64>> = Mutex::new(Vec::new());

/// The offset of a clock and its copies, by which their wall time leaps while tokio's timers keep their remaining time. It belongs to other
/// clocks after this is dropped, so it should live as long as the clock is used.
#[derive(Debug)]
pub struct ClockOffset(&'static AtomicI64);

impl ClockOffset {
    /// An offset of zero.
    pub fn new() -> Self {
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(unused.unwrap_or_else(|| Box::leak(Box::new(AtomicI64::new(0)))))
    }

    /// Lets the wall time of the clocks with this offset leap, at once.
    pub fn leap(&self, by: SignedDuration) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(if by.is_negative() { i64::MIN } else { i64::MAX });
        let add = |offset: i64| Some(offset.saturating_add(by));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }
}

impl Default for ClockOffset {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ClockOffset {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

impl Clock {
    /// The clock of the system.
    pub fn real() -> Self {
        Self(ClockSource::Real)
    }

    /// A simulated clock: 2026-01-01T00:00:00Z plus the time that tokio's clock advances after this call.
    pub fn simulated() -> Self {
        Self::simulated_from(Timestamp::constant(1_767_225_600, 0))
    }

    /// A simulated clock: `start` plus the time that tokio's clock advances after this call.
    pub fn simulated_from(start: Timestamp) -> Self {
        Self(ClockSource::Simulated { start, origin: Instant::now(), offset: None })
    }

    /// This clock with an offset, by which it leaps; a real clock has none.
    #[must_use]
    pub fn with_offset(self, offset: &ClockOffset) -> Self {
        match self.0 {
            ClockSource::Real => self,
            ClockSource::Simulated { start, origin, .. } => {
                Self(ClockSource::Simulated { start, origin, offset: Some(offset.0) })
            }
        }
    }

    /// A simulated clock that begins at another time now and keeps its offset; a real clock stays as it is.
    #[must_use]
    pub fn restarted_from(self, start: Timestamp) -> Self {
        match self.0 {
            ClockSource::Real => self,
            ClockSource::Simulated { offset, .. } => {
                Self(ClockSource::Simulated { start, origin: Instant::now(), offset })
            }
        }
    }

    /// Whether the clock is simulated, and follows tokio's.
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, ClockSource::Simulated { .. })
    }

    /// Current wall time.
    pub fn now(&self) -> Timestamp {
        match self.0 {
            ClockSource::Real => Timestamp::now(),
            ClockSource::Simulated { start, origin, offset } => {
                let elapsed = SignedDuration::try_from(origin.elapsed()).unwrap_or(SignedDuration::MAX);
                let offset = offset.map_or(0, |offset| offset.load(Ordering::Acquire));
                let elapsed = elapsed.saturating_add(SignedDuration::from_nanos(offset));
                start.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Current wall time truncated to whole seconds.
    pub fn now_seconds(&self) -> Timestamp {
        Timestamp::from_second(self.now().as_second()).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_advances_only_with_tokio() {
        let clock = Clock::simulated();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        tokio::time::sleep(Duration::from_millis(61_500)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:01.5Z");
        assert_eq!(clock.now_seconds().to_string(), "2026-01-01T00:01:01Z");
        assert_eq!(Clock::simulated_from(clock.now()).now(), clock.now());
        assert!(clock.is_simulated() && !Clock::real().is_simulated());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_leaps_by_its_offset_and_timers_keep_their_remaining_time() {
        let offset = ClockOffset::new();
        let clock = Clock::simulated().with_offset(&offset);
        let timer = tokio::time::sleep(Duration::from_secs(60));
        offset.leap(SignedDuration::from_secs(-1800));
        assert_eq!(clock.now().to_string(), "2025-12-31T23:30:00Z");
        timer.await;
        assert_eq!(clock.now().to_string(), "2025-12-31T23:31:00Z");
        let again = clock.restarted_from(Timestamp::UNIX_EPOCH);
        offset.leap(SignedDuration::from_secs(1800));
        assert_eq!(again.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(Clock::simulated().now().to_string(), "2026-01-01T00:00:00Z", "others do not leap");
        offset.leap(SignedDuration::MIN);
        assert!(clock.now() < Timestamp::UNIX_EPOCH, "it does not overflow");
        drop(offset);
        let next = Clock::simulated().with_offset(&ClockOffset::new());
        assert_eq!(next.now().to_string(), "2026-01-01T00:00:00Z", "an offset is used again from zero");
    }
}
