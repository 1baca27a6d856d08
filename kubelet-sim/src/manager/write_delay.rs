//! [`WriteDelay`]: the wait before a write of a slow node. Synchronous.

use jiff::Timestamp;
use kstore_container_sim::time::later;
use std::time::Duration;

/// The wait before one write of a slow node: the write is made when the wait is over, with what the kubelet knows then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WriteDelay {
    /// No write is due.
    #[default]
    Idle,
    /// A write is due, and waits until this time.
    Until(Timestamp),
    /// The write may be made.
    Over,
}

impl WriteDelay {
    /// Whether a write that is due may be made now, on a node whose writes come later by `delay`.
    pub(super) fn admits(&mut self, delay: Duration, now: Timestamp) -> bool {
        if delay.is_zero() || *self == Self::Over {
            *self = Self::Idle;
            return true;
        }
        if *self == Self::Idle {
            *self = Self::Until(later(now, delay));
        }
        false
    }

    /// Ends the wait if it is over by `now`.
    pub(super) fn elapse(&mut self, now: Timestamp) {
        if self.deadline().is_some_and(|at| at <= now) {
            *self = Self::Over;
        }
    }

    /// No write is due after all.
    pub(super) fn withdraw(&mut self) {
        *self = Self::Idle;
    }

    /// The end of the wait.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match *self {
            Self::Until(at) => Some(at),
            Self::Idle | Self::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_waits_once_and_a_healed_node_does_not_wait() {
        let (at, delay) = (|second| Timestamp::from_second(second).unwrap(), Duration::from_secs(5));
        let mut wait = WriteDelay::default();
        assert!(!wait.admits(delay, at(0)) && !wait.admits(delay, at(3)));
        assert_eq!(wait.deadline(), Some(at(5)));
        wait.elapse(at(4));
        assert!(!wait.admits(delay, at(4)));
        wait.elapse(at(5));
        assert!(wait.deadline().is_none() && wait.admits(delay, at(5)));
        assert!(!wait.admits(delay, at(5)), "the next write waits again");
        assert!(wait.admits(Duration::ZERO, at(6)));
        assert_eq!(wait, WriteDelay::Idle);
    }
}
