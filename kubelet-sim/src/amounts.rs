//! Amounts of resources as integers: thousandths of a processor, bytes, counts. An amount of one object has 64 bits, as in the API; sums
//! over the pods of a node have 128, so that subtracting a pod exactly undoes adding it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_api::quantity::Quantity as Parsed;
use std::collections::BTreeMap;

/// The requests of a pod, or the allocatable resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Processors in thousandths.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Local disk in bytes.
    pub ephemeral_storage: i64,
    /// All other resources by name, in whole units.
    pub others: BTreeMap<String, i64>,
}

impl Amounts {
    /// The amounts in a resource list of the API. What is not a quantity, which the API does not store, counts as zero.
    pub fn of(list: Option<&BTreeMap<String, Quantity>>) -> Self {
        let mut amounts = Self::default();
        amounts.set(list);
        amounts
    }

    /// Replaces the amounts that `list` names.
    pub fn set(&mut self, list: Option<&BTreeMap<String, Quantity>>) {
        for (name, quantity) in list.into_iter().flatten() {
            let parsed = Parsed::parse(&quantity.0).ok();
            let units = parsed.map_or(0, Parsed::units);
            match name.as_str() {
                "cpu" => self.milli_cpu = parsed.map_or(0, Parsed::milli),
                "memory" => self.memory = units,
                "ephemeral-storage" => self.ephemeral_storage = units,
                _ => drop(self.others.insert(name.clone(), units)),
            }
        }
    }

    /// Adds `other`; saturates.
    pub fn add(&mut self, other: &Self) {
        self.merge(other, i64::saturating_add);
    }

    /// Raises each amount to at least that of `other`.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge(other, i64::max);
    }

    fn merge(&mut self, other: &Self, join: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = join(self.milli_cpu, other.milli_cpu);
        self.memory = join(self.memory, other.memory);
        self.ephemeral_storage = join(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.others {
            let entry = self.others.entry(name.clone()).or_default();
            *entry = join(*entry, *amount);
        }
    }
}

/// The exact sum of the requests of the pods on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Processors in thousandths.
    pub milli_cpu: i128,
    /// Memory in bytes.
    pub memory: i128,
    /// Local disk in bytes.
    pub ephemeral_storage: i128,
    /// Sums of all other resources that are not zero, by name.
    others: BTreeMap<String, i128>,
}

impl Total {
    /// Adds the requests of a pod.
    pub fn add(&mut self, requests: &Amounts) {
        self.merge(requests, 1);
    }

    /// Subtracts the requests of a pod, which were added before.
    pub fn subtract(&mut self, requests: &Amounts) {
        self.merge(requests, -1);
    }

    /// The sum of another resource than the three above.
    pub fn other(&self, name: &str) -> i128 {
        self.others.get(name).copied().unwrap_or(0)
    }

    fn merge(&mut self, requests: &Amounts, sign: i128) {
        self.milli_cpu += sign * i128::from(requests.milli_cpu);
        self.memory += sign * i128::from(requests.memory);
        self.ephemeral_storage += sign * i128::from(requests.ephemeral_storage);
        for (name, amount) in requests.others.iter().filter(|(_, amount)| **amount != 0) {
            let sum = self.other(name) + sign * i128::from(*amount);
            match sum {
                0 => drop(self.others.remove(name)),
                sum => drop(self.others.insert(name.clone(), sum)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, &str)]) -> Amounts {
        let list = list.iter().map(|(name, text)| ((*name).to_owned(), Quantity((*text).to_owned())));
        Amounts::of(Some(&list.collect()))
    }

    #[test]
    fn amounts_are_read_added_and_raised_by_name() {
        let mut sum = amounts(&[("cpu", "1500m"), ("memory", "1Ki"), ("example.com/gpu", "2")]);
        sum.add(&amounts(&[("cpu", "1"), ("ephemeral-storage", "7"), ("example.com/gpu", "1")]));
        assert_eq!((sum.milli_cpu, sum.memory, sum.ephemeral_storage), (2500, 1024, 7));
        assert_eq!(sum.others["example.com/gpu"], 3);
        sum.raise_to(&amounts(&[("cpu", "3"), ("memory", "1")]));
        assert_eq!((sum.milli_cpu, sum.memory), (3000, 1024));
        assert_eq!(amounts(&[("cpu", "much")]), Amounts::default());
    }

    #[test]
    fn subtracting_the_largest_requests_undoes_adding_them() {
        let huge = Amounts {
            milli_cpu: i64::MAX,
            memory: i64::MAX,
            ephemeral_storage: i64::MAX,
            others: BTreeMap::from([("x".to_owned(), i64::MAX)]),
        };
        let mut total = Total::default();
        (0..3).for_each(|_| total.add(&huge));
        assert_eq!(total.other("x"), 3 * i128::from(i64::MAX));
        (0..3).for_each(|_| total.subtract(&huge));
        assert_eq!(total, Total::default());
    }
}
