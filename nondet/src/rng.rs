//! Small seeded random generator (SplitMix64) that clones share. Its values are not for keys or secrets, which
//! [`Rng::fill_secret`] makes.
#![expect(clippy::disallowed_methods, reason = "this file is the one place that asks the system for entropy")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The odd constant of SplitMix64 (Steele, Lea, Flood 2014).
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Generator of pseudo-random values. Clones draw from the same sequence; [`Rng::fork`] makes an independent
/// one.
#[derive(Clone, Debug)]
pub struct Rng {
    state: Arc<AtomicU64>,
    seed: SeedSource,
}

/// The source of a generator's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeedSource {
    /// The operating system: nothing has to be repeatable.
    System,
    /// A number: all values must follow from it.
    Number,
}

impl Rng {
    /// A generator whose values all follow from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self::new(seed, SeedSource::Number)
    }

    /// A generator seeded by the operating system.
    pub fn from_os() -> Self {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).expect("the operating system gives eight random bytes");
        Self::new(u64::from_le_bytes(seed), SeedSource::System)
    }

    fn new(state: u64, seed: SeedSource) -> Self {
        Self { state: Arc::new(AtomicU64::new(state)), seed }
    }

    /// Fills `bytes` with randomness for keys and nonces: from the operating system, unless the generator was
    /// seeded with a number. Then the bytes follow from the seed, so that a simulation can be repeated, and
    /// are no secret.
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn fill_secret(&self, bytes: &mut [u8]) {
        match self.seed {
            SeedSource::System => {
                getrandom::fill(bytes).expect("the operating system gives random bytes");
            }
            SeedSource::Number => {
                for chunk in bytes.chunks_mut(8) {
                    chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
                }
            }
        }
    }

    /// The next 64 random bits.
    pub fn next_u64(&self) -> u64 {
        let state = self.state.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA);
        mix(state)
    }

    /// A random value in `0..bound`, uniform up to a bias below 2⁻³².
    ///
    /// # Panics
    /// When `bound` is zero.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound of a random value is positive");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A random value in `0.0..1.0`.
    pub fn unit(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The duration times a random factor between the bounds: jitter, which keeps callers that failed together from retrying together.
    ///
    /// # Panics
    /// When the product is negative or exceeds the range of a duration.
    pub fn scaled(&self, duration: Duration, factors: Range<f64>) -> Duration {
        duration.mul_f64(factors.start + (factors.end - factors.start) * self.unit())
    }

    /// An independent generator whose sequence follows from this generator's state and `label`. Give each
    /// task its own, so that draws of one task do not change those of another.
    pub fn fork(&self, label: &str) -> Self {
        let hash = label.bytes().fold(self.next_u64(), |h, b| mix(h ^ u64::from(b)));
        Self::new(hash, self.seed)
    }

    /// A random text of `len` characters for the ends of names: consonants and digits, none that look alike.
    pub fn name_suffix(&self, len: usize) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..len).map(|_| ALPHABET[self.below(ALPHABET.len() as u64) as usize] as char).collect()
    }

    /// A random UUID of version 4 as text.
    pub fn uuid(&self) -> String {
        let (a, b) = (self.next_u64(), self.next_u64());
        let (a, b) = ((a & !0xF000) | 0x4000, (b & !(0b11 << 62)) | (0b10 << 62));
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xFFFF,
            a & 0xFFFF,
            b >> 48,
            b & 0xFFFF_FFFF_FFFF
        )
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_values() {
        let (a, b, c) = (Rng::seeded(7), Rng::seeded(7), Rng::seeded(8));
        let draw = |r: &Rng| (r.uuid(), r.name_suffix(5), r.below(1000));
        assert_eq!(draw(&a), draw(&b));
        assert_ne!(draw(&a), draw(&c));
    }

    #[test]
    fn secret_bytes_follow_from_a_numeric_seed_and_from_nothing_else() {
        let draw = |rng: &Rng| {
            let mut bytes = [0; 13];
            rng.fill_secret(&mut bytes);
            bytes
        };
        assert_eq!(draw(&Rng::seeded(7)), draw(&Rng::seeded(7)));
        assert_eq!(draw(&Rng::seeded(7).fork("a")), draw(&Rng::seeded(7).fork("a")));
        assert_ne!(draw(&Rng::seeded(7)), draw(&Rng::seeded(8)));
        // Copies of one state: only the sequence of the generator would be equal.
        let system = Rng::new(1, SeedSource::System);
        assert_ne!(draw(&system), draw(&Rng::new(1, SeedSource::System)));
        assert_ne!(draw(&system.fork("a")), draw(&Rng::new(1, SeedSource::System).fork("a")));
    }

    #[test]
    fn uuids_have_version_four() {
        let rng = Rng::seeded(1);
        for _ in 0..100 {
            let uuid = rng.uuid();
            assert_eq!(uuid.len(), 36);
            assert_eq!(&uuid[14..15], "4", "{uuid}");
            assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        }
    }

    #[test]
    fn scaled_durations_are_between_the_factors() {
        let (rng, second) = (Rng::seeded(5), Duration::from_secs(1));
        let all: Vec<_> = (0..1000).map(|_| rng.scaled(second, 0.5..1.0)).collect();
        assert!(all.iter().all(|one| (second / 2..second).contains(one)));
        assert!(
            all.iter().any(|one| *one < second.mul_f64(0.6))
                && all.iter().any(|one| *one > second.mul_f64(0.9))
        );
    }

    #[test]
    fn below_returns_every_value_below_its_bound() {
        let rng = Rng::seeded(3);
        let mut seen = [false; 27];
        (0..10_000).for_each(|_| seen[rng.below(27) as usize] = true);
        assert!(seen.iter().all(|s| *s));
    }
}
