//! [`Backoff`]: the pauses between attempts to reach a webhook, as Kubernetes makes them. Pure.

use kstore_nondet::Rng;
use std::time::Duration;

/// Each pause is half as long again as the one before, and up to a fifth longer by chance.
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
/// Attempts, the first one included.
const ATTEMPTS: i32 = 5;

/// The law of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    /// With this first pause.
    pub(crate) fn starting_at(initial: Duration) -> Self {
        Self(initial)
    }

    /// The pauses after attempts that failed; when there is none any more, the attempt was the last one.
    pub(crate) fn waits(self, rng: &Rng) -> impl Iterator<Item = Duration> + use<> {
        let rng = rng.clone();
        (0..ATTEMPTS - 1)
            .map(move |attempt| self.0.mul_f64(FACTOR.powi(attempt) * (1.0 + JITTER * rng.unit())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let waits: Vec<_> = Backoff::starting_at(Duration::from_secs(10)).waits(&Rng::seeded(1)).collect();
        assert_eq!(waits.len(), 4);
        for (wait, least) in waits.iter().zip([10.0, 15.0, 22.5, 33.75]) {
            assert!((least..=least * 1.2).contains(&wait.as_secs_f64()), "{waits:?}");
        }
    }
}
