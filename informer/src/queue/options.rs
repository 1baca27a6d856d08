//! Options of a queue and of one add.

use crate::limits::{QUEUE_AGEING, QUEUE_BURST, QUEUE_PER_SECOND, RETRY_BASE, RETRY_CAP, RETRY_JITTER};
use crate::{Causes, Priority};
use kstore_nondet::FixedState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Options of a [`Queue`](crate::Queue). The default suits a controller.
#[derive(Clone, Debug)]
pub struct QueueOptions<K> {
    /// The queue's name in metrics.
    pub name: Arc<str>,
    /// Overall rate of failed keys and of adds with [`Add::rate_limited`]. With `None`, failed keys wait only
    /// for their own back-off, and rate-limited adds use the default rate.
    pub rate: Option<Rate>,
    /// Back-off of failed keys.
    pub backoff: Backoff,
    /// Number of runs that each higher priority may have while a key of a lower priority is ready. This
    /// prevents starvation: of two busy priorities, the lower one gets one run in `ageing + 1`.
    pub ageing: NonZeroU32,
    /// Divides the keys of one priority into tenants that are served in turn. `None`: first come, first
    /// served.
    pub fair: Option<Fair<K>>,
}

impl<K> Default for QueueOptions<K> {
    fn default() -> Self {
        Self { name: "".into(), rate: None, backoff: Backoff::default(), ageing: QUEUE_AGEING, fair: None }
    }
}

/// A sustained rate with a burst after a pause (token bucket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Sustained rate per second.
    pub per_second: NonZeroU32,
    /// Size of the burst.
    pub burst: NonZeroU32,
}

/// Ten per second with a burst of a hundred, the default of client-go's controllers.
impl Default for Rate {
    fn default() -> Self {
        Self { per_second: QUEUE_PER_SECOND, burst: QUEUE_BURST }
    }
}

/// Exponential back-off of a failed key: `min(base · 2ⁿ, cap)` after n earlier failures, ± `jitter`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Wait after the first failure.
    pub base: Duration,
    /// Largest wait, before jitter.
    pub cap: Duration,
    /// Fraction by which a wait is randomly longer or shorter, between 0 and 1.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: RETRY_BASE, cap: RETRY_CAP, jitter: RETRY_JITTER }
    }
}

impl Backoff {
    /// The wait after a failure with `failures` earlier ones; `chance` is random in `0.0..1.0`.
    pub(super) fn wait(&self, failures: u32, chance: f64) -> Duration {
        let ideal = kstore_nondet::Backoff::doubling(self.base, self.cap).wait(failures);
        let jitter = self.jitter.clamp(0.0, 1.0);
        ideal.mul_f64(1.0 - jitter + 2.0 * jitter * chance)
    }
}

/// Maps keys to tenants, for queues that serve tenants in turn.
pub struct Fair<K>(Arc<dyn Fn(&K) -> u64 + Send + Sync>);

impl<K> Fair<K> {
    /// Tenants by a part of the key, such as its namespace: `Fair::by(Key::namespace)`.
    pub fn by<T: Hash + ?Sized + 'static>(tenant: fn(&K) -> &T) -> Self
    where
        K: 'static,
    {
        Self(Arc::new(move |key| FixedState::default().hash_one(tenant(key))))
    }

    /// The tenant as a hash. Two tenants with the same hash are treated as one.
    pub(super) fn tenant(&self, key: &K) -> u64 {
        (self.0)(key)
    }
}

impl<K> Clone for Fair<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Fair<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fair")
    }
}

/// One request for a run of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Add {
    /// Lowest priority of the run.
    pub priority: Priority,
    /// Causes of the run.
    pub causes: Causes,
    /// Earliest start of the run, from now. An earlier request of the same key wins.
    pub after: Option<Duration>,
    /// Whether the overall rate applies to this add.
    pub rate_limited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Q9: after n failures the wait is `base · 2ⁿ` or the cap, ± the jitter, for every n.
        #[test]
        fn back_off_doubles_up_to_the_cap_with_jitter(
            base in 1u64..10_000, cap in 1u64..10_000_000_000, failures in 0u32..80, chance in 0.0f64..1.0
        ) {
            let micros = Duration::from_micros;
            let backoff = Backoff { base: micros(base), cap: micros(cap), jitter: 0.2 };
            let ideal = (2f64.powi(failures as i32) * base as f64).min(cap as f64);
            let wait = backoff.wait(failures, chance).as_secs_f64() * 1e6;
            prop_assert!(wait >= ideal * 0.8 - 0.001 && wait <= ideal * 1.2 + 0.001, "{wait} for {ideal}");
        }
    }
}
