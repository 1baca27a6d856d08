//! From the replicas that the metrics propose to the target's new size: stabilization, rate limits, bounds.
//! Pure.
//!
//! With `spec.behavior`: the current size moves at most to the lowest recommendation of the scale-up window
//! and the highest of the scale-down window. Then the policies limit the step, counted from the size at the
//! start of their periods. Then the autoscaler's bounds apply. Without it, as upstream: the highest
//! recommendation of the last five minutes, at most doubled (or 4), within the bounds.

use super::history::{History, before};
use crate::limits::DOWNSCALE_STABILIZATION;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};

/// Current size of a target, its bounds, and the proposed size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaCounts {
    pub current: i32,
    pub desired: i32,
    pub min: i32,
    pub max: i32,
}

/// The new size, with reasons for the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounded {
    pub replicas: i32,
    /// Reason and message of `AbleToScale`, which is true.
    pub able: (&'static str, &'static str),
    /// Status of `ScalingLimited`: whether the size is limited.
    pub is_limited: bool,
    /// Reason and message of `ScalingLimited`.
    pub limited: (&'static str, &'static str),
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const UP_RATE: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_RATE: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");

/// Computes the new size and records the recommendation in `history`.
pub(crate) fn bound(
    behavior: Option<&HorizontalPodAutoscalerBehavior>,
    sizes: ReplicaCounts,
    history: &mut History,
    now: Timestamp,
) -> Bounded {
    match behavior {
        None => without_rules(sizes, history, now),
        Some(behavior) => {
            let rules = Rules::of(behavior);
            let (stable, able) = stabilize(&rules, sizes, history, now);
            let (replicas, limited) = limit(&rules, ReplicaCounts { desired: stable, ..sizes }, history, now);
            Bounded { replicas, able, is_limited: replicas != stable, limited }
        }
    }
}

/// Rules for both directions.
struct Rules<'a> {
    up: Option<&'a HPAScalingRules>,
    down: Option<&'a HPAScalingRules>,
}

impl<'a> Rules<'a> {
    fn of(behavior: &'a HorizontalPodAutoscalerBehavior) -> Self {
        Self { up: behavior.scale_up.as_ref(), down: behavior.scale_down.as_ref() }
    }

    /// Stabilization windows for scale-up and scale-down, in seconds.
    fn windows(&self) -> (i32, i32) {
        let of = |rules: Option<&HPAScalingRules>, default| {
            rules.and_then(|rules| rules.stabilization_window_seconds).unwrap_or(default)
        };
        (of(self.up, 0), of(self.down, DOWNSCALE_STABILIZATION))
    }
}

/// Longest policy periods for scale-up and scale-down, in seconds.
pub(crate) fn longest_periods(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> (i32, i32) {
    let longest = |rules: Option<&HPAScalingRules>| {
        let policies = rules.and_then(|rules| rules.policies.as_ref()).into_iter().flatten();
        policies.map(|policy| policy.period_seconds).max().unwrap_or_default()
    };
    let up = longest(behavior.and_then(|behavior| behavior.scale_up.as_ref()));
    let down = longest(behavior.and_then(|behavior| behavior.scale_down.as_ref()));
    // A policy of either direction counts the changes of both.
    (up.max(down), up.max(down))
}

fn without_rules(sizes: ReplicaCounts, history: &mut History, now: Timestamp) -> Bounded {
    let cutoff = before(now, DOWNSCALE_STABILIZATION);
    let recent = history.recommendations.iter().filter(|one| one.at >= cutoff).map(|one| one.replicas);
    let stable = recent.fold(sizes.desired, i32::max);
    history.recommend(sizes.desired, DOWNSCALE_STABILIZATION, now);
    let able = if stable == sizes.desired { READY } else { DOWN_STABILIZED };
    let doubled = sizes.current.saturating_mul(2).max(4);
    let (most, above) = if sizes.max > doubled { (doubled, UP_RATE) } else { (sizes.max, TOO_MANY) };
    let (replicas, limited) = match stable {
        few if few < sizes.min => (sizes.min, TOO_FEW),
        many if many > most => (most, above),
        _ => (stable, WITHIN),
    };
    Bounded { replicas, able, is_limited: replicas != stable, limited }
}

/// Moves the current size as far as the recommendations of both windows agree, with the reason of
/// `AbleToScale`.
fn stabilize(
    rules: &Rules<'_>,
    sizes: ReplicaCounts,
    history: &mut History,
    now: Timestamp,
) -> (i32, (&'static str, &'static str)) {
    let (up, down) = rules.windows();
    let (up_cutoff, down_cutoff) = (before(now, up), before(now, down));
    let (mut lowest, mut highest) = (sizes.desired, sizes.desired);
    for one in &history.recommendations {
        if one.at > up_cutoff {
            lowest = lowest.min(one.replicas);
        }
        if one.at > down_cutoff {
            highest = highest.max(one.replicas);
        }
    }
    let stable = sizes.current.max(lowest).min(highest);
    history.recommend(sizes.desired, up.max(down), now);
    let able = match stable {
        same if same == sizes.desired => READY,
        _ if sizes.desired >= sizes.current => UP_STABILIZED,
        _ => DOWN_STABILIZED,
    };
    (stable, able)
}

/// Limits the desired size to rates and bounds, with the reason of `ScalingLimited`.
fn limit(
    rules: &Rules<'_>,
    sizes: ReplicaCounts,
    history: &History,
    now: Timestamp,
) -> (i32, (&'static str, &'static str)) {
    let ReplicaCounts { current, desired, min, max } = sizes;
    if desired > current {
        let rate = most_up(rules.up, current, history, now).max(current);
        let (most, why) = if max > rate { (rate, UP_RATE) } else { (max, TOO_MANY) };
        if desired > most {
            return (most, why);
        }
    } else if desired < current {
        let rate = fewest_down(rules.down, current, history, now).min(current);
        let (fewest, why) = if min < rate { (rate, DOWN_RATE) } else { (min, TOO_FEW) };
        if desired < fewest {
            return (fewest, why);
        }
    }
    (desired, WITHIN)
}

fn policy(rules: Option<&HPAScalingRules>) -> &str {
    rules.and_then(|rules| rules.select_policy.as_deref()).unwrap_or("Max")
}

/// Largest size that the scale-up policies allow.
fn most_up(rules: Option<&HPAScalingRules>, current: i32, history: &History, now: Timestamp) -> i32 {
    let select = policy(rules);
    if select == "Disabled" {
        return current;
    }
    let proposals = rules.and_then(|rules| rules.policies.as_ref()).into_iter().flatten().map(|policy| {
        let start = current.saturating_sub(history.change_within(policy.period_seconds, now));
        match policy.type_.as_str() {
            "Pods" => start.saturating_add(policy.value),
            // Rounded up: a small target grows by at least one.
            _ => percent_of(start, 100 + i64::from(policy.value), true),
        }
    });
    let chosen = if select == "Min" { proposals.min() } else { proposals.max() };
    chosen.unwrap_or(current)
}

/// Smallest size that the scale-down policies allow.
fn fewest_down(rules: Option<&HPAScalingRules>, current: i32, history: &History, now: Timestamp) -> i32 {
    let select = policy(rules);
    if select == "Disabled" {
        return current;
    }
    let proposals = rules.and_then(|rules| rules.policies.as_ref()).into_iter().flatten().map(|policy| {
        let start = current.saturating_sub(history.change_within(policy.period_seconds, now));
        match policy.type_.as_str() {
            "Pods" => start.saturating_sub(policy.value),
            _ => percent_of(start, 100 - i64::from(policy.value), false),
        }
    });
    let chosen = if select == "Min" { proposals.max() } else { proposals.min() };
    chosen.unwrap_or(current)
}

fn percent_of(size: i32, percent: i64, up: bool) -> i32 {
    let product = i64::from(size).saturating_mul(percent);
    let share = if up { product.saturating_add(99).div_euclid(100) } else { product / 100 };
    i32::try_from(share).unwrap_or(if share > 0 { i32::MAX } else { i32::MIN })
}
