//! [`charge`]: whether a change of an object fits into the quotas of its namespace, and what they have used after it.

use super::evaluator::Evaluator;
use super::scope::Quota;
use super::usage::Usage;
use super::{Amounts, Quantity};
use jiff::Timestamp;
use serde_json::Value;

/// A write of one object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Of the object's kind.
    pub evaluator: &'a Evaluator,
    /// The object before; `None`: it is created.
    pub old: Option<&'a Value>,
    /// The object after.
    pub new: &'a Value,
    /// Whether the write is one of the status, which reports what is already so: it is charged whatever the bounds are.
    pub is_report: bool,
}

/// Why an object may not be written. The texts are those of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A quota bounds a resource whose amount every container must state. State it.
    #[error("failed quota: {quota}: must specify {unstated}")]
    Unstated {
        /// The quota.
        quota: String,
        /// `limits.cpu for: a,b; …`
        unstated: String,
    },
    /// The quota controller has not counted yet what is used. Try again, or see why the controller does not count.
    #[error("status unknown for quota: {quota}, resources: {resources}")]
    Unknown {
        /// The quota.
        quota: String,
        /// The resources of the quota that the kind uses, sorted, with commas.
        resources: String,
    },
    /// There is not enough left.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// The quota.
        quota: String,
        /// Of the exceeded resources: what the write adds.
        requested: String,
        /// What is used before it.
        used: String,
        /// The bounds.
        limited: String,
    },
}

/// What a write does to the quotas of its namespace, by their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charges {
    /// The amounts of `status.used` that change, as they are afterwards.
    pub used: Vec<(usize, Amounts)>,
    /// Quotas that will bound resources of the object, and whose controller has not taken the bounds over yet. If one of them changes
    /// before the write, the write must be judged again.
    pub pending: Vec<usize>,
}

/// Judges a write. `quotas` are those of the namespace, in the order of their names.
///
/// As in Kubernetes, a write that makes an object use less is not credited here: the controller does that when it recounts.
///
/// # Errors
/// The first quota that refuses it.
pub fn charge(quotas: &[Quota], change: &Change<'_>, now: Timestamp) -> Result<Charges, Refusal> {
    let evaluator = change.evaluator;
    let new = evaluator.usage(change.new);
    let old = change.old.map(|old| evaluator.usage(old));
    let mut charges = Charges::default();
    let mut interested = Vec::new();
    for (at, quota) in quotas.iter().enumerate() {
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
        interested.push((at, quota, bounded));
    }
    for (at, quota, bounded) in interested {
        // What the object was outside of the scopes of a quota, the quota has not counted.
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

/// The new use of each resource that the object uses more of than before.
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
