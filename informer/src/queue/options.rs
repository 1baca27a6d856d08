//! What can be chosen about a queue and about one add.

use std::{
    fmt,
    hash::{BuildHasher, Hash},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use kstore_nondet::FixedState;

use crate::{
    Causes,
    limits::{QUEUE_AGEING, QUEUE_BURST, QUEUE_PER_SECOND, RETRY_BASE, RETRY_CAP, RETRY_JITTER},
};

/// What a [`Queue`](crate::Queue) is made with. The default is what a controller wants.
#[derive(Clone, Debug)]
pub struct QueueOptions<K> {
    /// Its name in metrics.
    pub name: Arc<str>,
    /// The overall rate of failed keys and of adds that are [`Add::rate_limited`]. `None`: failed keys only wait for their
    /// own back-off, and rate-limited adds have the default rate.
    pub rate: Option<Rate>,
    /// How long failed keys wait.
    pub backoff: Backoff,
    /// How many runs each higher priority may have while a key of a lower one is ready. So nothing starves: of two
    /// priorities with much to do, the lower one has one run in `ageing + 1`.
    pub ageing: NonZeroU32,
    /// Divides the keys of one priority into tenants that take turns. `None`: first come, first served.
    pub fair: Option<Fair<K>>,
}

impl<K> Default for QueueOptions<K> {
    fn default() -> Self {
        Self { name: "".into(), rate: None, backoff: Backoff::default(), ageing: QUEUE_AGEING, fair: None }
    }
}

/// A rate over time, with a burst after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// At once, if there were none for long.
    pub burst: NonZeroU32,
}

/// Ten per second and a hundred at once, as client-go's controllers have it.
impl Default for Rate {
    fn default() -> Self {
        Self { per_second: QUEUE_PER_SECOND, burst: QUEUE_BURST }
    }
}

/// How long a failed key waits: `base · 2ⁿ` after n failures before this one, at most `cap`, spread by `jitter`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// After the first failure.
    pub base: Duration,
    /// At most, before the spread.
    pub cap: Duration,
    /// The part of the wait by which it may be longer or shorter, between 0 and 1.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: RETRY_BASE, cap: RETRY_CAP, jitter: RETRY_JITTER }
    }
}

impl Backoff {
    /// The wait after a failure that had `failures` before it; `chance` is in `0.0..1.0`.
    pub(super) fn wait(&self, failures: u32, chance: f64) -> Duration {
        let doubled = self.base.as_nanos().saturating_mul(1 << failures.min(100));
        let ideal = Duration::from_nanos_u128(doubled.min(self.cap.as_nanos()));
        let jitter = self.jitter.clamp(0.0, 1.0);
        ideal.mul_f64(1.0 - jitter + 2.0 * jitter * chance)
    }
}

/// Says which tenant a key belongs to, for queues that let tenants take turns.
pub struct Fair<K>(Arc<dyn Fn(&K) -> u64 + Send + Sync>);

impl<K> Fair<K> {
    /// Tenants by a part of the key, such as its namespace: `Fair::by(Key::namespace)`.
    pub fn by<T: Hash + ?Sized + 'static>(tenant: fn(&K) -> &T) -> Self
    where
        K: 'static,
    {
        Self(Arc::new(move |key| FixedState::default().hash_one(tenant(key))))
    }

    /// The tenant as a number. Of two that have the same number, both are one.
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

/// How much a key matters: higher ones run first. Meant for a handful of levels; the default is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// Below or equal to every other: what a key has that nobody asked for.
    pub(super) const LOWEST: Self = Self(i32::MIN);
}

/// One wish for a run of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Add {
    /// The run has at least this priority.
    pub priority: Priority,
    /// What led to it.
    pub causes: Causes,
    /// Not before this long from now. An earlier wish of the same key wins.
    pub after: Option<Duration>,
    /// Not before the overall rate allows it.
    pub rate_limited: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Q9: after n failures the wait is `base · 2ⁿ` or the cap, a fifth more or less, however large n is.
        #[test]
        fn a_wait_doubles_up_to_the_cap_and_is_spread_by_the_jitter(
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
