//! [`Usage`]: what one object uses, in a form small enough to be kept for every object, and the traits that scopes ask about.

use super::Amounts;
use crate::quantity::Quantity;
use jiff::Timestamp;
use std::borrow::Cow;

/// Resources and amounts, in no order.
pub(super) type Used = Vec<(Cow<'static, str>, Quantity)>;

/// What one object uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Used as long as the object is stored.
    pub(super) always: Used,
    /// Used until the object ends (`until`). Empty for objects that have ended.
    pub(super) alive: Used,
    /// The object uses what is `alive` up to and including this time; `None`: as long as it is stored.
    pub(super) until: Option<Timestamp>,
    pub(super) traits: Traits,
}

/// What scopes of quotas ask about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    /// Most scopes apply to pods only.
    pub(super) is_pod: bool,
    /// Whether the pod has a deadline.
    pub(super) is_terminating: bool,
    pub(super) is_best_effort: bool,
    /// Whether the pod's affinity looks at pods of other namespaces.
    pub(super) crosses_namespaces: bool,
    /// Empty: the pod has none.
    pub(super) priority_class: String,
    /// Of a claim.
    pub(super) volume_classes: Vec<String>,
}

impl Usage {
    /// The resources that are used at a time, with amounts.
    pub fn at(&self, now: Timestamp) -> impl Iterator<Item = (&str, Quantity)> {
        let is_alive = self.until.is_none_or(|until| now <= until);
        let alive = if is_alive { &self.alive[..] } else { &[] };
        self.always.iter().chain(alive).map(|(name, amount)| (name.as_ref(), *amount))
    }

    /// When the object uses less without any change to it; `None` if it does not.
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| now <= *until && !self.alive.is_empty())
    }

    /// How much of a resource is used at a time.
    pub(super) fn amount(&self, resource: &str, now: Timestamp) -> Quantity {
        self.at(now).find(|(name, _)| *name == resource).map_or(Quantity::ZERO, |(_, amount)| amount)
    }

    /// Adds what is used at a time to those of `totals` that are there.
    pub fn add_to(&self, totals: &mut Amounts, now: Timestamp) {
        for (name, amount) in self.at(now) {
            if let Some(total) = totals.get_mut(name) {
                *total = total.add(amount);
            }
        }
    }
}
