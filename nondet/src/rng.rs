//! Small seeded random generator (SplitMix64) that clones share. Not for keys or secrets.
#![expect(clippy::disallowed_methods, reason = "this file is the one place that asks the system for entropy")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The odd constant of SplitMix64 (Steele, Lea, Flood 2014).
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Generator of pseudo-random values. Clones draw from the same sequence; [`Rng::fork`] makes an independent
/// one.
#[derive(Clone, Debug)]
pub struct Rng(Arc<AtomicU64>);

impl Rng {
    /// A generator whose values all follow from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// A generator seeded by the operating system.
    pub fn from_os() -> Self {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).expect("the operating system gives eight random bytes");
        Self::seeded(u64::from_le_bytes(seed))
    }

    /// The next 64 random bits.
    pub fn next_u64(&self) -> u64 {
        let state = self.0.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA);
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

    /// An independent generator whose sequence follows from this generator's state and `label`. Give each
    /// task its own, so that draws of one task do not change those of another.
    pub fn fork(&self, label: &str) -> Self {
        let hash = label.bytes().fold(self.next_u64(), |h, b| mix(h ^ u64::from(b)));
        Self::seeded(hash)
    }

    /// A random text of `len` characters from Kubernetes' alphabet for generated names (no vowels, no similar
    /// characters).
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
    fn below_returns_every_value_below_its_bound() {
        let rng = Rng::seeded(3);
        let mut seen = [false; 27];
        (0..10_000).for_each(|_| seen[rng.below(27) as usize] = true);
        assert!(seen.iter().all(|s| *s));
    }
}
