//! Amounts of resources as integers: millicores, bytes, counts. Quantities, which are text, end at decoding.
//!
//! An amount of one object is 64 bits wide, as in the API. Sums over the pods of a node are twice as wide, so
//! that subtracting a pod exactly undoes adding it, for any amounts that users wrote.

use std::sync::Arc;

/// The prefix of the name under which containers request devices of a class: the rest is the name of the DeviceClass.
pub const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether the resource is none of Kubernetes' own.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

/// Whether devices of a class can satisfy requests for the resource: it is an extended resource, or names a DeviceClass.
pub(crate) fn is_of_devices(name: &str) -> bool {
    is_extended(name) || name.starts_with(CLASS_PREFIX)
}

/// The requests of a pod or the allocatable resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// All other resources (devices, huge pages), sorted by name; each name occurs once.
    extended: Vec<(Arc<str>, i64)>,
}

impl Resources {
    /// An amount of CPU and memory, and nothing else.
    pub fn of(milli_cpu: i64, memory: i64) -> Self {
        Self { milli_cpu, memory, ephemeral_storage: 0, extended: Vec::new() }
    }

    /// Adds `other` and saturates.
    pub fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    /// Raises every amount to at least that of `other`.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }

    /// The amount of the extended resource `name`; zero if absent.
    pub fn extended(&self, name: &str) -> i64 {
        self.position(name).map_or(0, |at| self.extended[at].1)
    }

    /// Whether the extended resource `name` is listed, perhaps with the amount zero.
    pub fn has_extended(&self, name: &str) -> bool {
        self.position(name).is_ok()
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

    /// Whether the requests are empty; the node then only counts the pod.
    pub fn is_nothing(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.extended.is_empty()
    }

    /// Whether any amount is higher than in `other`.
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

/// The exact sum of the requests of any number of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedTotal {
    /// CPU in thousandths of a core.
    pub milli_cpu: i128,
    /// Memory in bytes.
    pub memory: i128,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i128,
    /// Non-zero sums of all other resources, sorted by name; each name occurs once.
    extended: Vec<(Arc<str>, i128)>,
}

impl RequestedTotal {
    /// Adds the requests of a pod.
    pub fn add(&mut self, requests: &Resources) {
        self.merge(requests, 1);
    }

    /// Subtracts the requests of a pod that were added before.
    pub fn subtract(&mut self, requests: &Resources) {
        self.merge(requests, -1);
    }

    /// The sum of the extended resource `name`; zero if absent.
    pub fn extended(&self, name: &str) -> i128 {
        self.position(name).map_or(0, |at| self.extended[at].1)
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.extended.binary_search_by(|(n, _)| n.as_ref().cmp(name))
    }

    /// Adds `sign` times `requests`. Each amount has 64 bits: a 128-bit sum can overflow only after 2^64
    /// pods.
    fn merge(&mut self, requests: &Resources, sign: i128) {
        self.milli_cpu += sign * i128::from(requests.milli_cpu);
        self.memory += sign * i128::from(requests.memory);
        self.ephemeral_storage += sign * i128::from(requests.ephemeral_storage);
        for (name, amount) in requests.iter_extended().filter(|(_, amount)| *amount != 0) {
            let by = sign * i128::from(amount);
            match self.position(name) {
                Ok(at) if self.extended[at].1 + by == 0 => drop(self.extended.remove(at)),
                Ok(at) => self.extended[at].1 += by,
                Err(at) => self.extended.insert(at, (Arc::clone(name), by)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_added_and_raised_by_name() {
        let mut gpu = Resources { milli_cpu: 500, memory: 7, ..Resources::default() };
        gpu.set_extended("example.com/gpu", 2);
        let mut sum = Resources { milli_cpu: 1, memory: 2, ephemeral_storage: 3, ..Resources::default() };
        let before = sum.clone();
        sum.add(&gpu);
        assert_eq!((sum.milli_cpu, sum.memory, sum.extended("example.com/gpu")), (501, 9, 2));
        assert!(sum.exceeds(&before) && !before.exceeds(&sum));
        let mut raised = before;
        raised.raise_to(&sum);
        assert_eq!(raised, sum);
    }

    #[test]
    fn subtracting_the_largest_requests_undoes_adding_them() {
        let mut small = Resources::of(500, 7);
        small.set_extended("example.com/gpu", 2);
        let mut huge = Resources { ephemeral_storage: i64::MAX, ..Resources::of(i64::MAX, i64::MAX) };
        huge.set_extended("example.com/gpu", i64::MAX);
        huge.set_extended("example.com/other", i64::MAX);
        let mut total = RequestedTotal::default();
        total.add(&small);
        let before = total.clone();
        for _ in 0..3 {
            total.add(&huge);
        }
        assert_eq!(total.extended("example.com/gpu"), 3 * i128::from(i64::MAX) + 2);
        for _ in 0..3 {
            total.subtract(&huge);
        }
        assert_eq!(total, before);
        total.subtract(&small);
        assert_eq!(total, RequestedTotal::default());
    }
}
