//! The only source of time, randomness and hash order in kstore.
//!
//! Everything else takes a [`Nondet`] (or one of its halves) as an argument, so that a whole control plane can run on
//! one thread under a virtual clock and a seed and give the same bytes twice. Clippy's disallowed lists enforce it.
//! This crate is not a runtime: sleeping is `tokio::time`, which a paused runtime makes virtual.

mod clock;
mod hash;
mod rng;

pub use clock::Clock;
pub use hash::{FixedState, HashMap, HashSet};
pub use rng::Rng;

/// A clock and a generator that belong together. Cheap to clone; clones share state.
#[derive(Clone, Debug)]
pub struct Nondet {
    /// Wall time.
    pub clock: Clock,
    /// Randomness.
    pub rng: Rng,
}

impl Nondet {
    /// The real world: the system's clock, and a generator seeded by the operating system.
    pub fn real() -> Self {
        Self { clock: Clock::real(), rng: Rng::from_os() }
    }

    /// A world of its own: time starts at 2026-01-01T00:00:00Z and moves with tokio's clock (pause the runtime to make
    /// it virtual); every random value follows from `seed`. Must be called inside a tokio runtime.
    pub fn simulated(seed: u64) -> Self {
        Self { clock: Clock::simulated(), rng: Rng::seeded(seed) }
    }
}
