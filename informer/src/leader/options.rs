//! [`ElectorOptions`]: identity and durations of a candidate, and their validation. Pure.

use crate::limits::{LEASE_DURATION, LEASE_JITTER, LEASE_RETRY, RENEW_DEADLINE};
use std::time::Duration;

/// Identity and durations of a candidate. All candidates for one lease should use the same durations; waiting
/// candidates respect the duration that the holder stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectorOptions {
    /// Unique identity of the candidate. It should differ for each process (host name and a random part): a
    /// candidate at once takes over a lease with its own identity.
    pub identity: String,
    /// Name of the election in metrics and logs; empty for the name of the lease.
    pub name: String,
    /// Validity of the lease after a renewal, in whole seconds: the record has no finer unit.
    pub lease: Duration,
    /// Renew deadline: a leader that could not renew for this long stops.
    pub renew: Duration,
    /// Time between two renewals. Between two attempts to acquire the lease, up to 1.2 times this is added at
    /// random.
    pub retry: Duration,
}

/// Why options are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// An empty holder in a lease means that the lease is free.
    #[error("the identity is empty")]
    NoIdentity,
    /// Shorter durations do not protect against a slow network.
    #[error("lease, renew deadline and retry must be at least 1 s each")]
    TooShort,
    /// The record stores whole seconds; with a fraction other candidates would take over early.
    #[error("the lease duration must be whole seconds")]
    NotWholeSeconds,
    /// A leader must stop before another candidate may start.
    #[error("the lease duration must be greater than the renew deadline")]
    LeaseWithinRenew,
    /// A leader must have a second attempt.
    #[error("the renew deadline must be greater than 1.2 times the retry period")]
    RenewWithinRetry,
}

impl ElectorOptions {
    /// The default durations of the Kubernetes components: 15 s, 10 s, 2 s.
    pub fn new(identity: &str) -> Self {
        Self {
            identity: identity.to_owned(),
            name: String::new(),
            lease: LEASE_DURATION,
            renew: RENEW_DEADLINE,
            retry: LEASE_RETRY,
        }
    }

    pub(super) fn check(&self) -> Result<(), OptionsError> {
        let second = Duration::from_secs(1);
        if self.identity.is_empty() {
            Err(OptionsError::NoIdentity)
        } else if self.lease < second || self.renew < second || self.retry < second {
            Err(OptionsError::TooShort)
        } else if self.lease.subsec_nanos() != 0 {
            Err(OptionsError::NotWholeSeconds)
        } else if self.lease <= self.renew {
            Err(OptionsError::LeaseWithinRenew)
        } else if self.renew <= self.retry.mul_f64(LEASE_JITTER) {
            Err(OptionsError::RenewWithinRetry)
        } else {
            Ok(())
        }
    }

    /// Time that the work of a deposed leader has to end before it is dropped. Two fifths of the time between
    /// the renew deadline and the end of the lease; the rest absorbs clock drift. With the default durations
    /// it is 2 s, and a waiting candidate's clock may run up to a quarter faster than the leader's.
    pub fn grace(&self) -> Duration {
        (self.lease - self.renew) * 2 / 5
    }

    /// When the watchdog fires, from the last renewal: after every orderly stop, but before the lease
    /// expires.
    pub(super) fn bite(&self) -> Duration {
        let stopped = self.renew + self.grace();
        stopped + (self.lease - stopped) / 2
    }

    /// Time limit of one request to the store: one lost request must not cost the lease.
    pub(super) fn request(&self) -> Duration {
        (self.renew / 2).max(Duration::from_secs(1))
    }

    /// The wait before the next attempt to acquire the lease; `unit` is a random number in 0..1.
    pub(super) fn pause(&self, unit: f64) -> Duration {
        self.retry.mul_f64(1.0 + LEASE_JITTER * unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(lease: f64, renew: f64, retry: f64) -> Result<(), OptionsError> {
        let [lease, renew, retry] = [lease, renew, retry].map(Duration::from_secs_f64);
        ElectorOptions { lease, renew, retry, ..ElectorOptions::new("a") }.check()
    }

    #[test]
    fn elector_options_are_validated_as_in_client_go() {
        assert_eq!(ElectorOptions::new("a").check(), Ok(()));
        assert_eq!(ElectorOptions::new("").check(), Err(OptionsError::NoIdentity));
        assert_eq!(options(137.0, 107.0, 26.0), Ok(()));
        assert_eq!(options(2.0, 1.3, 1.0), Ok(()));
        assert_eq!(options(10.0, 10.0, 2.0), Err(OptionsError::LeaseWithinRenew));
        assert_eq!(options(15.0, 2.4, 2.0), Err(OptionsError::RenewWithinRetry));
        assert_eq!(options(15.0, 10.0, 0.9), Err(OptionsError::TooShort));
        assert_eq!(options(15.5, 10.0, 2.0), Err(OptionsError::NotWholeSeconds));
    }

    #[test]
    fn every_stop_ends_within_the_lease() {
        let options = ElectorOptions::new("a");
        assert_eq!(options.grace(), Duration::from_secs(2));
        assert!(crate::limits::STOP_GRACE < options.grace(), "runs end within the grace");
        assert!(options.renew + options.grace() < options.bite() && options.bite() < options.lease);
        assert_eq!((options.request(), options.pause(1.0)), (options.renew / 2, options.retry.mul_f64(2.2)));
    }
}
