//! [`StartFaults`]: what the faults of a node do to its runtime and to the starts of its pods. Pure.

use crate::behavior::PullError;
use std::time::Duration;

/// What the faults of a node do to its runtime and to the starts of its pods. `Default` is a node without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartFaults {
    /// Whether the container runtime does not answer.
    pub is_runtime_down: bool,
    /// How many times as long everything takes.
    pub slow: u32,
    /// How many times as long pulls of images take beside that.
    pub pull_slow: u32,
    /// How pulls of images fail, if they do.
    pub pull: Option<PullError>,
    /// Whether volumes of claims cannot be attached.
    pub attach_fails: bool,
    /// How long the volumes of a pod take to mount.
    pub mount: Duration,
}

impl Default for StartFaults {
    fn default() -> Self {
        Self {
            is_runtime_down: false,
            slow: 1,
            pull_slow: 1,
            pull: None,
            attach_fails: false,
            mount: Duration::ZERO,
        }
    }
}

impl StartFaults {
    /// The time that something takes on the node that usually takes `usual`.
    pub fn time(&self, usual: Duration) -> Duration {
        usual.saturating_mul(self.slow)
    }

    /// The time of a pull that usually takes `usual`. A slow registry also delays a pull that usually takes no time: by a second for each
    /// time that it is slower.
    pub fn pull_time(&self, usual: Duration) -> Duration {
        let slower = u64::from(self.pull_slow.saturating_sub(1));
        self.time(usual).saturating_mul(self.pull_slow).saturating_add(Duration::from_secs(slower))
    }

    /// How much later each write of the kubelet comes: by a second for each time that the node is slower.
    pub fn write_delay(&self) -> Duration {
        Duration::from_secs(u64::from(self.slow.saturating_sub(1)))
    }

    /// Adds a factor to one that holds already: the greater one counts.
    pub(crate) fn slower(factor: &mut u32, by: Option<u32>) {
        *factor = by.unwrap_or(1).max(*factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_apply_to_usual_times_and_delay_what_takes_none() {
        let seconds = Duration::from_secs;
        let plain = StartFaults::default();
        assert_eq!(
            [plain.time(seconds(4)), plain.pull_time(seconds(4)), plain.write_delay()],
            [4, 4, 0].map(seconds)
        );
        let slow = StartFaults { slow: 3, ..plain };
        assert_eq!(
            [slow.time(seconds(4)), slow.pull_time(seconds(4)), slow.write_delay()],
            [12, 12, 2].map(seconds)
        );
        let both = StartFaults { pull_slow: 5, ..slow };
        assert_eq!(
            [both.time(seconds(4)), both.pull_time(seconds(4)), both.pull_time(seconds(0))],
            [12, 64, 4].map(seconds)
        );
        let endless = StartFaults { slow: u32::MAX, pull_slow: u32::MAX, ..plain };
        assert!(endless.pull_time(Duration::MAX) == Duration::MAX);
    }
}
