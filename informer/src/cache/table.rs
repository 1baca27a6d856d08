//! [`Table`]: a persistent hash table from hashes to numbers. It does not store keys: the caller decides
//! whether a number is the searched one. A clone is one reference count.
//!
//! Open addressing with linear probing. An entry is the hash and the number in one word, so growing does not
//! rehash keys, and copying a leaf for a clone copies bytes.

use crate::cache::slots::Slots;

/// Entries that are copied together.
const LEAF: usize = 64;
/// Smallest capacity.
const SMALLEST: usize = 64;

/// Persistent hash table. A zero entry is free; other entries have the hash in the upper half and the number
/// plus one in the lower.
#[derive(Clone, Default)]
pub(crate) struct Table {
    entries: Slots<u64, LEAF>,
    capacity: usize,
    len: usize,
}

fn entry(hash: u32, number: u32) -> u64 {
    (u64::from(hash) << 32) | (u64::from(number) + 1)
}

fn hash_of(entry: u64) -> u32 {
    u32::try_from(entry >> 32).expect("half a word")
}

fn number_of(entry: u64) -> Option<u32> {
    u32::try_from(entry & u64::from(u32::MAX)).expect("half a word").checked_sub(1)
}

impl Table {
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.capacity - 1)
    }

    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.capacity - 1)
    }

    fn at(&self, bucket: usize) -> u64 {
        self.entries.get(bucket).copied().unwrap_or_default()
    }

    /// The number under `hash` that `is_meant` accepts.
    pub(crate) fn find(&self, hash: u32, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        let bucket = self.bucket(hash, is_meant)?;
        number_of(self.at(bucket))
    }

    fn bucket(&self, hash: u32, is_meant: impl Fn(u32) -> bool) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut bucket = self.home(hash);
        loop {
            let entry = self.at(bucket);
            let number = number_of(entry)?;
            if hash_of(entry) == hash && is_meant(number) {
                return Some(bucket);
            }
            bucket = self.next(bucket);
        }
    }

    /// Adds a number that is not in the table.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        if (self.len + 1) * 4 > self.capacity * 3 {
            self.resize((self.capacity * 2).max(SMALLEST));
        }
        self.put(entry(hash, number));
        self.len += 1;
    }

    fn put(&mut self, entry: u64) {
        let mut bucket = self.home(hash_of(entry));
        while self.at(bucket) != 0 {
            bucket = self.next(bucket);
        }
        *self.entries.get_mut(bucket) = entry;
    }

    fn resize(&mut self, capacity: usize) {
        let bigger = Self { entries: Slots::with_len(capacity), capacity, len: self.len };
        let old = std::mem::replace(self, bigger);
        (0..old.capacity).map(|bucket| old.at(bucket)).filter(|entry| *entry != 0).for_each(|e| self.put(e));
    }

    /// Removes `number`. Later entries move up, so that no gap breaks a probe sequence.
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        let Some(mut gap) = self.bucket(hash, |other| other == number) else { return };
        let mut bucket = self.next(gap);
        loop {
            let entry = self.at(bucket);
            if entry == 0 {
                break;
            }
            // The entry may move if its home is not between the gap and its slot.
            let home = self.home(hash_of(entry));
            let distance = |from: usize| bucket.wrapping_sub(from) & (self.capacity - 1);
            if distance(home) >= distance(gap) {
                *self.entries.get_mut(gap) = entry;
                gap = bucket;
            }
            bucket = self.next(bucket);
        }
        *self.entries.get_mut(gap) = 0;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_behaves_as_a_set_under_collisions_and_clones_never_change(
            ops in prop::collection::vec((0u32..300, any::<bool>(), prop::bool::weighted(0.03)), 0..600),
            spread in 1u32..40,
        ) {
            let hash = |number: u32| (number % spread).wrapping_mul(0x9e37_79b9);
            let (mut ours, mut model) = (Table::default(), BTreeSet::new());
            let mut clones = Vec::new();
            for (number, add, keep) in ops {
                match add {
                    true if model.insert(number) => ours.insert(hash(number), number),
                    true => {}
                    false => {
                        model.remove(&number);
                        ours.remove(hash(number), number);
                    }
                }
                if keep {
                    clones.push((ours.clone(), model.clone()));
                }
            }
            clones.push((ours, model));
            for (ours, model) in clones {
                for number in 0..300 {
                    let found = ours.find(hash(number), |other| other == number);
                    prop_assert_eq!(found, model.contains(&number).then_some(number));
                }
            }
        }
    }
}
