//! Arithmetic of a rollout: surge, unavailability, step sizes, proportional scaling. Pure, in 64 bits,
//! because users may set counts up to the 32-bit maximum.

use crate::portion::{Round, portion};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Bounds of a rollout, resolved from the strategy for the desired size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Desired number of replicas.
    pub wanted: i32,
    /// maxSurge: pods above the desired number.
    pub surge: i32,
    /// maxUnavailable: pods that may be missing.
    pub unavailable: i32,
}

impl Bounds {
    /// Rounds maxSurge up and maxUnavailable down. If both are zero, one pod may be missing, otherwise the
    /// rollout could not proceed. Recreate has neither. At most the desired number may be missing.
    pub(crate) fn of(d: &Deployment) -> Self {
        let spec = d.spec.as_ref();
        let wanted = spec.and_then(|s| s.replicas).unwrap_or(1).max(0);
        let strategy = spec.and_then(|s| s.strategy.as_ref());
        if strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate") {
            return Self { wanted, surge: 0, unavailable: 0 };
        }
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".into());
        let surge =
            portion(rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter), wanted, Round::Up);
        let missing = portion(
            rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter),
            wanted,
            Round::Down,
        );
        let missing = if surge == 0 && missing == 0 { 1 } else { missing };
        Self { wanted, surge, unavailable: missing.min(wanted) }
    }

    /// Largest total number of pods.
    pub(crate) fn most(self) -> i32 {
        self.wanted.saturating_add(self.surge)
    }

    /// Smallest number of available pods.
    pub(crate) fn least(self) -> i32 {
        self.wanted - self.unavailable
    }
}

/// The next size of the new ReplicaSet; `total` is the sum of all sizes, including it.
pub(crate) fn new_size(bounds: Bounds, total: i32, new: i32) -> i32 {
    if new > bounds.wanted {
        return bounds.wanted;
    }
    let room = i64::from(bounds.most()) - i64::from(total);
    let missing = i64::from(bounds.wanted) - i64::from(new);
    if room <= 0 { new } else { narrow(i64::from(new) + room.min(missing)) }
}

/// Saturating conversion to 32 bits.
fn narrow(n: i64) -> i32 {
    i32::try_from(n).unwrap_or(if n < 0 { i32::MIN } else { i32::MAX })
}

/// An old ReplicaSet to scale down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OldReplicaSet {
    /// Number of replicas in the ReplicaSet's spec.
    pub spec: i32,
    /// Number of available pods.
    pub available: i32,
}

/// The next sizes of the old ReplicaSets, given and returned oldest first. Unavailable pods are removed
/// first, in all ReplicaSets; then available ones, as far as enough stay available.
pub(crate) fn old_sizes(bounds: Bounds, old: &[OldReplicaSet], new: OldReplicaSet) -> Vec<i32> {
    let mut sizes: Vec<i64> = old.iter().map(|o| o.spec.into()).collect();
    let least = i64::from(bounds.least());
    let allowed = sizes.iter().sum::<i64>() - least + i64::from(new.available);
    if allowed <= 0 {
        return sizes.into_iter().map(narrow).collect();
    }
    let mut left = allowed;
    for (size, o) in sizes.iter_mut().zip(old) {
        let step = left.min(i64::from(o.spec) - i64::from(o.available)).max(0);
        *size -= step;
        left -= step;
    }
    let available: i64 = old.iter().chain([&new]).map(|o| i64::from(o.available)).sum();
    let mut left = (available - least).max(0);
    for size in &mut sizes {
        let step = left.min(*size);
        *size -= step;
        left -= step;
    }
    sizes.into_iter().map(narrow).collect()
}

/// An active ReplicaSet in proportional scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActiveReplicaSet {
    /// Number of replicas in the ReplicaSet's spec.
    pub size: i32,
    /// Largest total of the Deployment when this ReplicaSet was last scaled.
    pub most_before: i32,
}

/// The new sizes when a Deployment is resized during a rollout; `sets` in order of service (larger first).
/// Each gets its rounded share of the change; the first gets the rounding remainder, as far as possible.
/// Together they sum up to the allowed total.
pub(crate) fn proportional_sizes(bounds: Bounds, sets: &[ActiveReplicaSet]) -> Vec<i32> {
    let allowed = if bounds.wanted > 0 { bounds.most() } else { 0 };
    let delta = i64::from(allowed) - sets.iter().map(|s| i64::from(s.size)).sum::<i64>();
    let mut added = 0;
    let mut sizes: Vec<i64> = sets
        .iter()
        .map(|set| {
            let share = share_of(bounds, *set, delta, added);
            added += share;
            i64::from(set.size) + share
        })
        .collect();
    // Rounding can leave more to remove than the first ReplicaSet has.
    let mut left = delta - added;
    for size in &mut sizes {
        let step = left.max(-*size);
        *size += step;
        left -= step;
    }
    sizes.into_iter().map(narrow).collect()
}

fn share_of(bounds: Bounds, set: ActiveReplicaSet, delta: i64, added: i64) -> i64 {
    if set.size == 0 || delta == added {
        return 0;
    }
    let size = i64::from(set.size);
    let ideal = if bounds.wanted == 0 || set.most_before <= 0 {
        -size
    } else {
        let scaled = f64::from(set.size) * f64::from(bounds.most()) / f64::from(set.most_before);
        scaled.round() as i64 - size
    };
    let left = delta - added;
    if delta > 0 { ideal.clamp(0, left) } else { ideal.clamp(left.max(-size), 0) }
}
