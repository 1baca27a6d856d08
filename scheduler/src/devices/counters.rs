//! Counters of a pool during a search for devices: what devices that are in use leave of them.

use super::in_use::InUse;
use super::pools::NodePool;
use super::slice::{CounterSets, Device};
use kstore_api::quantity::Quantity;
use std::collections::BTreeMap;

/// The rest of the counters of a pool.
#[derive(Debug)]
pub(super) struct Counters(CounterSets);

impl Counters {
    /// The counters that the devices in use leave.
    pub(super) fn of(pool: &NodePool<'_>, in_use: &InUse) -> Self {
        let sets = pool.all.iter().flat_map(|slice| &slice.counters);
        let mut counters = Self(sets.map(|(name, set)| (name.clone(), set.clone())).collect());
        let devices = pool.all.iter().flat_map(|slice| &slice.devices);
        devices.filter(|device| in_use.is_used(&device.id)).for_each(|device| counters.consume(device));
        counters
    }

    /// Whether the counters have what a device consumes.
    pub(super) fn have(&self, device: &Device) -> bool {
        let is_enough = |set: &BTreeMap<String, Quantity>, name: &str, amount: &Quantity| {
            set.get(name).is_some_and(|rest| rest >= amount)
        };
        device.consumes.iter().all(|(set, amounts)| {
            let set = self.0.get(set);
            amounts.iter().all(|(name, amount)| set.is_some_and(|set| is_enough(set, name, amount)))
        })
    }

    /// Subtracts what a device consumes.
    pub(super) fn consume(&mut self, device: &Device) {
        self.change(device, Quantity::sub);
    }

    /// Reverts [`consume`](Self::consume).
    pub(super) fn restore(&mut self, device: &Device) {
        self.change(device, Quantity::add);
    }

    fn change(&mut self, device: &Device, change: fn(Quantity, Quantity) -> Quantity) {
        for (set, amounts) in &device.consumes {
            let Some(set) = self.0.get_mut(set) else { continue };
            for (name, amount) in amounts {
                if let Some(rest) = set.get_mut(name) {
                    *rest = change(*rest, *amount);
                }
            }
        }
    }
}
