//! The clock and the random numbers that callers hand in, as types of this crate: who uses it needs no other crate of kstore. Not
//! a runtime: waiting is tokio's.

use kstore_nondet::{Nondet, Rng};

/// A source of random numbers: what spreads waits, so that many processes do not come back in the same moment.
#[derive(Clone, Debug)]
pub struct Randomness(Rng);

impl Randomness {
    /// Seeded by the operating system.
    pub fn from_os() -> Self {
        Self(Rng::from_os())
    }

    /// The same numbers for the same seed.
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

/// A clock and a source of random numbers that belong together. Clones share state.
#[derive(Clone, Debug)]
pub struct Environment(Nondet);

impl Environment {
    /// The system's clock, and random numbers seeded by the operating system.
    pub fn real() -> Self {
        Self(Nondet::real())
    }

    /// A clock that begins at 2026-01-01T00:00:00Z and moves with tokio's (pause the runtime to make it virtual), and random
    /// numbers that follow from `seed`. For tests.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn simulated(seed: u64) -> Self {
        Self(Nondet::simulated(seed))
    }

    /// Its source of random numbers.
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
