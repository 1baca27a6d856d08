//! [`LimitedResource`]: kinds whose objects need a quota that covers them, as `limitedResources` of the admission
//! plugin ResourceQuota configures. Without it, an object that no quota bounds is free.

use super::evaluator::Evaluator;
use super::scope::{Quota, Selector};
use super::usage::Usage;
use jiff::Timestamp;
use std::collections::BTreeSet;

/// One kind whose use is limited, with the resources and scopes that a quota must cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedResource {
    /// API group of the kind.
    pub group: String,
    /// Plural name of the kind.
    pub plural: String,
    /// Parts of resource names, e.g. `requests.cpu`. A used resource whose name contains one needs a quota that
    /// bounds this resource.
    pub match_contains: Vec<String>,
    /// Scopes. An object that one matches needs a quota with the same scope that matches the object, too.
    pub match_scopes: Vec<Selector>,
}

impl LimitedResource {
    /// Whether this limits objects of the kind.
    pub fn concerns(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Resources in the use of an object that must be bounded.
    fn names<'u>(&self, usage: &'u Usage, now: Timestamp) -> impl Iterator<Item = &'u str> {
        let is_used = usage.at(now).filter(|(_, amount)| !amount.is_zero() && !amount.is_negative());
        is_used
            .map(|(name, _)| name)
            .filter(|name| self.match_contains.iter().any(|part| name.contains(part.as_str())))
    }
}

/// What must cover an object, and what the quotas of its namespace cover.
pub(super) struct Coverage<'a> {
    needed_names: BTreeSet<&'a str>,
    needed_scopes: Vec<&'a Selector>,
    names: BTreeSet<&'a str>,
    scopes: BTreeSet<&'a str>,
}

impl<'a> Coverage<'a> {
    /// The needs of an object with this use, not yet covered by any quota.
    pub(super) fn of(
        limited: &'a [LimitedResource],
        evaluator: &Evaluator,
        usage: &'a Usage,
        now: Timestamp,
    ) -> Self {
        let scopes = limited.iter().flat_map(|one| &one.match_scopes);
        Self {
            needed_names: limited.iter().flat_map(|one| one.names(usage, now)).collect(),
            needed_scopes: scopes.filter(|scope| scope.selects(evaluator, usage)).collect(),
            names: BTreeSet::new(),
            scopes: BTreeSet::new(),
        }
    }

    /// Adds the scopes of a quota that match the object. Kubernetes counts each by itself, even of a quota that
    /// does not apply because of another scope.
    pub(super) fn add_scopes(&mut self, quota: &'a Quota, evaluator: &Evaluator, usage: &Usage) {
        if !self.needed_scopes.is_empty() {
            let matching = quota.scopes.iter().filter(|scope| scope.selects(evaluator, usage));
            self.scopes.extend(matching.map(Selector::scope));
        }
    }

    /// Adds the resources that a quota bounds.
    pub(super) fn add_names(&mut self, bounded: &[&'a str]) {
        if !self.needed_names.is_empty() {
            self.names.extend(bounded);
        }
    }

    /// Resources that no quota bounds, in alphabetical order, separated by commas; empty if there are none.
    pub(super) fn uncovered_names(&self) -> String {
        self.needed_names.difference(&self.names).copied().collect::<Vec<_>>().join(",")
    }

    /// Scopes that no quota has, as in `[{PriorityClass In [a b]}]`; empty if there are none.
    pub(super) fn uncovered_scopes(&self) -> String {
        let uncovered = self.needed_scopes.iter().filter(|scope| !self.scopes.contains(scope.scope()));
        let uncovered: Vec<String> = uncovered.map(ToString::to_string).collect();
        if uncovered.is_empty() { String::new() } else { format!("[{}]", uncovered.join(" ")) }
    }
}
