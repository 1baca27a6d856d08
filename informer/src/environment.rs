//! The clock and the randomness that callers pass in, as types of this crate, so that callers need no other
//! kstore crate. Not a runtime: timers come from tokio.

use kstore_nondet::{Nondet, Rng};

/// A source of random numbers for jitter, which keeps many processes from retrying at the same moment.
#[derive(Clone, Debug)]
pub struct Randomness(Rng);

impl Randomness {
    /// A source seeded by the operating system.
    pub fn from_os() -> Self {
        Self(Rng::from_os())
    }

    /// A source that yields the same numbers for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self(Rng::seeded(seed))
    }

    pub(crate) fn into_rng(self) -> Rng {
        self.0
    }
}

impl From<Rng> for Randomness {
    fn from(rng: Rng) -> Self {
        Self(rng)
    }
}

impl From<&Rng> for Randomness {
    fn from(rng: &Rng) -> Self {
        Self(rng.clone())
    }
}

/// A clock and a source of randomness. Clones share state.
#[derive(Clone, Debug)]
pub struct Environment(Nondet);

impl Environment {
    /// The system clock, and randomness seeded by the operating system.
    pub fn real() -> Self {
        Self(Nondet::real())
    }

    /// A clock that starts at 2026-01-01T00:00:00Z and advances with tokio's (pause the runtime to make it
    /// virtual), and randomness derived from `seed`. For tests.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn simulated(seed: u64) -> Self {
        Self(Nondet::simulated(seed))
    }

    /// The environment's source of randomness.
    pub fn randomness(&self) -> Randomness {
        Randomness(self.0.rng.clone())
    }

    pub(crate) fn into_nondet(self) -> Nondet {
        self.0
    }
}

impl From<Nondet> for Environment {
    fn from(nondet: Nondet) -> Self {
        Self(nondet)
    }
}

impl From<&Nondet> for Environment {
    fn from(nondet: &Nondet) -> Self {
        Self(nondet.clone())
    }
}

impl From<&Environment> for Environment {
    fn from(environment: &Environment) -> Self {
        environment.clone()
    }
}
