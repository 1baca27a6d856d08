//! [`WebhookBackoff`]: exponential backoff between attempts to reach a webhook, as in Kubernetes. Pure.

use kstore_nondet::{Backoff, Rng};
use std::time::Duration;

/// The growth of the pauses, and the bound of the random addition to each.
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
/// Attempts, including the first.
const ATTEMPTS: u32 = 5;

/// The pauses between attempts; the first one is given, the others follow from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebhookBackoff(Backoff);

impl WebhookBackoff {
    /// A backoff with this first pause.
    pub fn starting_at(initial: Duration) -> Self {
        Self(Backoff::growing(initial, FACTOR))
    }

    /// The pauses after failed attempts. When the iterator ends, the attempt was the last one.
    pub fn waits(self, rng: &Rng) -> impl Iterator<Item = Duration> + use<> {
        let rng = rng.clone();
        (0..ATTEMPTS - 1).map(move |failures| rng.scaled(self.0.wait(failures), 1.0..1.0 + JITTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let backoff = WebhookBackoff::starting_at(Duration::from_secs(10));
        let waits: Vec<_> = backoff.waits(&Rng::seeded(1)).collect();
        assert_eq!(waits.len(), 4);
        for (wait, least) in waits.iter().zip([10.0, 15.0, 22.5, 33.75]) {
            assert!((least..=least * 1.2).contains(&wait.as_secs_f64()), "{waits:?}");
        }
    }
}
