//! The only source of time, randomness and hash order in kstore, and the back-off that uses randomness for its jitter.
//!
//! All other code takes a [`Nondet`] (or its clock or generator) as an argument. A whole control plane can
//! therefore run on one thread under a virtual clock and a seed, with the same bytes in every run. Clippy's
//! disallowed lists enforce it. This crate is not a runtime: sleeping is `tokio::time`, which a paused
//! runtime makes virtual.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backoff;
mod clock;
mod hash;
mod rng;

pub use backoff::{Backoff, Waits};
pub use clock::{Clock, ClockOffset};
pub use hash::{FixedState, HashMap, HashSet};
pub use rng::Rng;

/// Clock and random generator that belong together. Cheap to clone; clones share state.
#[derive(Clone, Debug)]
pub struct Nondet {
    /// Wall clock.
    pub clock: Clock,
    /// Random generator.
    pub rng: Rng,
}

impl Nondet {
    /// Real time and randomness: the system's clock, and a generator seeded by the operating system.
    pub fn real() -> Self {
        Self { clock: Clock::real(), rng: Rng::from_os() }
    }

    /// Simulated time and randomness. Time starts at 2026-01-01T00:00:00Z and advances with tokio's clock
    /// (pause the runtime to make it virtual); every random value follows from `seed`. Must be called inside
    /// a tokio runtime.
    pub fn simulated(seed: u64) -> Self {
        Self { clock: Clock::simulated(), rng: Rng::seeded(seed) }
    }
}
