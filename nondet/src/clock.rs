//! Wall time, real or derived from tokio's (pausable) clock. It has no timers: sleep with `tokio::time`.
#![expect(clippy::disallowed_methods, reason = "this file is the one place that reads the system clock")]

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Clock that returns wall time. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock(ClockSource);

#[derive(Clone, Copy, Debug)]
enum ClockSource {
    /// The system's clock.
    Real,
    /// Simulated: `start` plus the time that tokio's clock has advanced since `origin`.
    Simulated { start: Timestamp, origin: Instant },
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
        Self(ClockSource::Simulated { start, origin: Instant::now() })
    }

    /// Whether the clock is simulated, and follows tokio's.
    pub fn is_simulated(&self) -> bool {
        matches!(self.0, ClockSource::Simulated { .. })
    }

    /// Current wall time.
    pub fn now(&self) -> Timestamp {
        match self.0 {
            ClockSource::Real => Timestamp::now(),
            ClockSource::Simulated { start, origin } => {
                let elapsed = SignedDuration::try_from(origin.elapsed()).unwrap_or(SignedDuration::MAX);
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
}
