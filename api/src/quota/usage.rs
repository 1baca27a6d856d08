//! [`Usage`]: resources used by one object, compact enough to be kept for every object, and the properties
//! that scopes match.

use super::Amounts;
use super::devices::{ClaimDevices, DeviceNames};
use crate::quantity::Quantity;
use jiff::Timestamp;
use std::borrow::Cow;

/// Resources and amounts, unordered.
pub(super) type Used = Vec<(Cow<'static, str>, Quantity)>;

/// Resources used by one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Amounts used as long as the object is stored.
    pub(super) always: Used,
    /// Amounts used until the object terminates (`until`). Empty for terminated objects.
    pub(super) alive: Used,
    /// Last moment at which the object uses the `alive` amounts; `None` if they last as long as the object.
    pub(super) until: Option<Timestamp>,
    pub(super) traits: Traits,
    /// The devices that a ResourceClaim may get.
    pub(super) devices: Option<Box<ClaimDevices>>,
}

/// Properties of an object that quota scopes match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    /// Whether the object is a pod; most scopes match only pods.
    pub(super) is_pod: bool,
    /// Whether the pod has an active deadline.
    pub(super) is_terminating: bool,
    pub(super) is_best_effort: bool,
    /// Whether the pod's affinity selects pods of other namespaces.
    pub(super) crosses_namespaces: bool,
    /// Priority class of the pod; empty if it has none.
    pub(super) priority_class: String,
    /// Volume attributes classes of a claim.
    pub(super) volume_classes: Vec<String>,
}

impl Usage {
    /// The devices that the object, a ResourceClaim, may get.
    pub fn devices(&self) -> Option<&ClaimDevices> {
        self.devices.as_deref()
    }

    /// The usage with the devices under the names of resources, too.
    #[must_use]
    pub fn with_names(mut self, names: &DeviceNames) -> Self {
        self.always.extend(self.devices.iter().flat_map(|devices| devices.by_resource(names)));
        self
    }

    /// Resources used at a time, with amounts.
    pub fn at(&self, now: Timestamp) -> impl Iterator<Item = (&str, Quantity)> {
        let is_alive = self.until.is_none_or(|until| now <= until);
        let alive = if is_alive { &self.alive[..] } else { &[] };
        self.always.iter().chain(alive).map(|(name, amount)| (name.as_ref(), *amount))
    }

    /// Time after which the object uses less without a write; `None` if there is none.
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| now <= *until && !self.alive.is_empty())
    }

    /// Used amount of one resource at a time.
    pub(super) fn amount(&self, resource: &str, now: Timestamp) -> Quantity {
        self.at(now).find(|(name, _)| *name == resource).map_or(Quantity::ZERO, |(_, amount)| amount)
    }

    /// Adds the amounts used at a time to the entries of `totals`; other resources are skipped.
    pub fn add_to(&self, totals: &mut Amounts, now: Timestamp) {
        for (name, amount) in self.at(now) {
            if let Some(total) = totals.get_mut(name) {
                *total = total.add(amount);
            }
        }
    }
}
