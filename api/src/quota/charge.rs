//! [`charge`]: whether a write of an object fits into the quotas of its namespace, and the used amounts after
//! it.
//!
//! Follows `CheckRequest`.

use super::devices::DeviceNames;
use super::evaluator::Evaluator;
use super::limited::{Coverage, LimitedResource};
use super::scope::Quota;
use super::usage::Usage;
use super::{Amounts, Quantity};
use jiff::Timestamp;
use serde_json::Value;

/// Write of one object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Evaluator of the object's kind.
    pub evaluator: &'a Evaluator,
    /// The stored object; `None` on create.
    pub old: Option<&'a Value>,
    /// The new object.
    pub new: &'a Value,
    /// Whether this is a status write, which reports existing use and is charged even beyond the bounds.
    pub is_report: bool,
    /// The names under which the devices of a claim are charged besides their class.
    pub names: &'a DeviceNames,
    /// What the kind's objects need a quota for; empty if an object without a quota is free.
    pub limited: &'a [LimitedResource],
}

/// Reason why quotas refuse a write. The texts are those of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A quota bounds a resource, and some container does not state an amount of it. The client must state
    /// it.
    #[error("failed quota: {quota}: must specify {unstated}")]
    Unstated {
        /// Name of the quota.
        quota: String,
        /// Resources and containers, e.g. `limits.cpu for: a,b; …`.
        unstated: String,
    },
    /// The quota controller has not counted the used amounts yet. The client may try again.
    #[error("status unknown for quota: {quota}, resources: {resources}")]
    Unknown {
        /// Name of the quota.
        quota: String,
        /// Resources of the quota that the kind can use, sorted, separated by commas.
        resources: String,
    },
    /// The remaining amount is too small.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// Name of the quota.
        quota: String,
        /// Added amounts of the exceeded resources.
        requested: String,
        /// Used amounts before the write.
        used: String,
        /// Hard limits.
        limited: String,
    },
    /// The object uses limited resources that no quota of the namespace bounds. An administrator must create
    /// such a quota.
    #[error("insufficient quota to consume: {0}")]
    UncoveredResources(String),
    /// The object matches limited scopes that no quota of the namespace has. An administrator must create such
    /// a quota.
    #[error("insufficient quota to match these scopes: {0}")]
    UncoveredScopes(String),
}

/// Effect of a write on the quotas of its namespace; each quota is named by its index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charges {
    /// New amounts of `status.used`, for those that change.
    pub used: Vec<(usize, Amounts)>,
    /// Quotas whose spec bounds resources of the object, and whose status does not have these bounds yet. If
    /// one of them changes before the write is committed, the write must be charged again.
    pub pending: Vec<usize>,
}

/// Computes the charges of a write. `quotas` are those of the namespace, sorted by name.
///
/// A write that lowers an object's use is not credited, as in Kubernetes; the controller's recount does that.
///
/// # Errors
/// The refusal of the first quota that the write does not fit into.
pub fn charge(quotas: &[Quota], change: &Change<'_>, now: Timestamp) -> Result<Charges, Refusal> {
    let evaluator = change.evaluator;
    let usage = |object| match evaluator.charges_resources() {
        true => evaluator.usage(object).with_names(change.names),
        false => evaluator.usage(object),
    };
    let new = usage(change.new);
    let old = change.old.map(usage);
    let mut charges = Charges::default();
    let mut interested = Vec::new();
    let mut coverage = Coverage::of(change.limited, evaluator, &new, now);
    for (at, quota) in quotas.iter().enumerate() {
        coverage.add_scopes(quota, evaluator, &new);
        if !quota.selects(evaluator, &new) {
            continue;
        }
        let is_pending = |name: &&String| evaluator.covers(name) && !quota.hard.contains_key(*name);
        if quota.wanted.keys().any(|name| is_pending(&name)) {
            charges.pending.push(at);
        }
        let bounded: Vec<&str> =
            quota.hard.keys().map(String::as_str).filter(|name| evaluator.covers(name)).collect();
        if bounded.is_empty() {
            continue;
        }
        check(quota, change, &bounded)?;
        coverage.add_names(&bounded);
        interested.push((at, quota, bounded));
    }
    let (names, scopes) = (coverage.uncovered_names(), coverage.uncovered_scopes());
    if !names.is_empty() {
        return Err(Refusal::UncoveredResources(names));
    }
    if !scopes.is_empty() {
        return Err(Refusal::UncoveredScopes(scopes));
    }
    for (at, quota, bounded) in interested {
        // A quota has counted the old object only if its scopes matched it.
        let before = old.as_ref().filter(|old| quota.selects(evaluator, old));
        let used = use_more(quota, &bounded, (&new, before), change.is_report, now)?;
        if !used.is_empty() {
            charges.used.push((at, used));
        }
    }
    Ok(charges)
}

fn check(quota: &Quota, change: &Change<'_>, bounded: &[&str]) -> Result<(), Refusal> {
    if let Some(unstated) = change.evaluator.unstated(bounded.iter().copied(), change.new) {
        return Err(Refusal::Unstated { quota: quota.name.clone(), unstated });
    }
    if bounded.iter().all(|name| quota.used.contains_key(*name)) {
        return Ok(());
    }
    Err(Refusal::Unknown { quota: quota.name.clone(), resources: bounded.join(",") })
}

/// New used amounts of the resources that the object uses more of than before.
fn use_more(
    quota: &Quota,
    bounded: &[&str],
    (new, old): (&Usage, Option<&Usage>),
    is_report: bool,
    now: Timestamp,
) -> Result<Amounts, Refusal> {
    let (mut after, mut exceeded) = (Amounts::new(), Vec::new());
    for name in bounded {
        let before = old.map_or(Quantity::ZERO, |old| old.amount(name, now));
        let more = new.amount(name, now).sub(before);
        if more.is_zero() || more.is_negative() {
            continue;
        }
        let used = quota.used[*name].add(more);
        if used > quota.hard[*name] && !is_report {
            exceeded.push((*name, more));
        }
        after.insert((*name).to_owned(), used);
    }
    if exceeded.is_empty() {
        return Ok(after);
    }
    let list = |amount: &dyn Fn(&str, Quantity) -> Quantity| {
        let items: Vec<String> =
            exceeded.iter().map(|(name, more)| format!("{name}={}", amount(name, *more))).collect();
        items.join(",")
    };
    Err(Refusal::Exceeded {
        quota: quota.name.clone(),
        requested: list(&|_, more| more),
        used: list(&|name, _| quota.used[name]),
        limited: list(&|name, _| quota.hard[name]),
    })
}
