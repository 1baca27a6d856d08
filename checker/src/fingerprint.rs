//! [`Fingerprint`]: a 128-bit hash of a set of values that is updated in constant time when a value is added or
//! removed. Different sets have different fingerprints with high probability. It need not resist an attacker.

use std::hash::{Hash, Hasher};

/// The hash of a set of values. Adding a value twice removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(u128);

impl Fingerprint {
    /// The fingerprint of one value.
    pub(crate) fn of(value: &impl Hash) -> Self {
        let mut mixer = Mixer(0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F);
        value.hash(&mut mixer);
        Self(u128::from(mix(mixer.0)) << 64 | u128::from(mix(mixer.1)))
    }

    /// Adds a value's fingerprint, or removes it if it was added before.
    pub(crate) fn toggle(&mut self, part: Self) {
        self.0 ^= part.0;
    }

    /// The fingerprint of the set with one more value.
    pub(crate) fn with(mut self, value: &impl Hash) -> Self {
        self.toggle(Self::of(value));
        self
    }
}

/// A hasher of two independent 64-bit hashes.
struct Mixer(u64, u64);

impl Mixer {
    fn word(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
        self.1 = mix(self.1.rotate_left(23) ^ word.wrapping_mul(0xFF51_AFD7_ED55_8CCD));
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        self.word(bytes.len() as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.1
    }
}

/// The finalizer of SplitMix64: every input bit affects every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
