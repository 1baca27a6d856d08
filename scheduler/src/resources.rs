//! Amounts of resources as integers: millicores, bytes, counts. Not quantities: those are text and end at decoding.

use std::sync::Arc;

/// What a pod asks for, what is taken on a node, or what a node has to give.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// Everything else (devices, huge pages), ordered by name; a name occurs once.
    extended: Vec<(Arc<str>, i64)>,
}

impl Resources {
    /// So much CPU and memory and nothing else.
    pub fn of(milli_cpu: i64, memory: i64) -> Self {
        Self { milli_cpu, memory, ephemeral_storage: 0, extended: Vec::new() }
    }

    /// Adds `other`, saturating.
    pub fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    /// Takes `other` away, saturating. Amounts may become negative only if more is taken than was added.
    pub fn subtract(&mut self, other: &Self) {
        self.merge(other, i64::saturating_sub);
    }

    /// Raises every amount to at least that of `other`.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }

    /// The amount of the extended resource `name`; zero if it does not occur.
    pub fn extended(&self, name: &str) -> i64 {
        self.position(name).map_or(0, |at| self.extended[at].1)
    }

    /// Sets the amount of the extended resource `name`.
    pub fn set_extended(&mut self, name: &str, amount: i64) {
        match self.position(name) {
            Ok(at) => self.extended[at].1 = amount,
            Err(at) => self.extended.insert(at, (name.into(), amount)),
        }
    }

    /// The extended resources by name, zero amounts included.
    pub fn iter_extended(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.extended.iter().map(|(name, amount)| (name, *amount))
    }

    /// Whether a pod with these requests asks for nothing; such a pod is only counted.
    pub fn is_nothing(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.extended.is_empty()
    }

    /// Whether any amount is higher here than in `other`.
    pub fn exceeds(&self, other: &Self) -> bool {
        self.milli_cpu > other.milli_cpu
            || self.memory > other.memory
            || self.ephemeral_storage > other.ephemeral_storage
            || self.extended.iter().any(|(name, amount)| *amount > other.extended(name))
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.extended.binary_search_by(|(n, _)| n.as_ref().cmp(name))
    }

    fn merge(&mut self, other: &Self, f: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = f(self.milli_cpu, other.milli_cpu);
        self.memory = f(self.memory, other.memory);
        self.ephemeral_storage = f(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.extended {
            match self.position(name) {
                Ok(at) => self.extended[at].1 = f(self.extended[at].1, *amount),
                Err(at) => self.extended.insert(at, (Arc::clone(name), f(0, *amount))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_can_be_taken_away() {
        let mut gpu = Resources { milli_cpu: 500, memory: 7, ..Resources::default() };
        gpu.set_extended("example.com/gpu", 2);
        let mut sum = Resources { milli_cpu: 1, memory: 2, ephemeral_storage: 3, ..Resources::default() };
        let before = sum.clone();
        sum.add(&gpu);
        assert_eq!((sum.milli_cpu, sum.memory, sum.extended("example.com/gpu")), (501, 9, 2));
        assert!(sum.exceeds(&before));
        sum.subtract(&gpu);
        assert_eq!((sum.milli_cpu, sum.extended("example.com/gpu")), (before.milli_cpu, 0));
        assert!(!sum.exceeds(&before));
    }
}
