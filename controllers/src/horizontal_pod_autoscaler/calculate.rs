//! Replicas that one metric proposes. Pure; numbers and rules are those of upstream's replica calculator.
//!
//! The count is `ceil(usage / target * pods)`; it does not change while the ratio is within the tolerance.
//! Pods without a sample count against the direction. On scale-down they count as using all of their request
//! (or the target, if higher); on scale-up they count as using nothing. Unready pods count as using nothing
//! on scale-up. If this reverses the direction, the count does not change.

use super::pods::{self, Groups, Pod};
use super::sample::Samples;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Data of the target for the calculator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// `spec.replicas` of the scale.
    pub spec_replicas: i32,
    /// `status.replicas` of the scale.
    pub status_replicas: i32,
    /// Pods of the target.
    pub pods: &'a [Pod],
    /// Largest deviation of usage from the target without an effect.
    pub tolerance: Tolerance,
}

/// Largest deviation from 1 of the ratio of usage and target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tolerance {
    /// Deviation above 1.
    pub up: f64,
    /// Deviation below 1.
    pub down: f64,
}

impl Tolerance {
    fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// Proposal of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// Proposed replicas.
    pub replicas: i32,
    /// The metric's value in the status: percent of the requests, or thousandths.
    pub shown: i64,
    /// The average in thousandths, where `shown` is a percentage.
    pub average: i64,
}

/// The target that usage is compared with.
#[derive(Clone, Debug)]
pub(crate) enum TargetValue {
    /// Percent of the requests of the pods.
    Utilization { target: i32, requests: BTreeMap<String, i64> },
    /// An average per pod, in thousandths.
    Average(i64),
}

impl TargetValue {
    /// The ratio of usage and target, the value for the status, and the average per pod.
    fn ratio(&self, samples: &BTreeMap<String, i64>) -> Result<(f64, i64, i64), String> {
        match self {
            Self::Utilization { target, requests } => {
                let (mut used, mut requested, mut entries) = (0_i64, 0_i64, 0_i64);
                for (pod, value) in samples {
                    let Some(request) = requests.get(pod) else { continue };
                    used = used.saturating_add(*value);
                    requested = requested.saturating_add(*request);
                    entries += 1;
                }
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let percent = used.saturating_mul(100) / requested;
                Ok((quotient(percent, i64::from(*target)), percent, used / entries))
            }
            Self::Average(target) => {
                let sum = samples.values().fold(0_i64, |sum, value| sum.saturating_add(*value));
                let average = sum / i64::try_from(samples.len()).unwrap_or(i64::MAX).max(1);
                Ok((quotient(average, *target), average, average))
            }
        }
    }

    /// Assumed usage of a pod without a sample on scale-down.
    fn full(&self, pod: &str) -> i64 {
        match self {
            Self::Utilization { target, requests } => {
                let request = requests.get(pod).copied().unwrap_or_default();
                request.saturating_mul(i64::from((*target).max(100))) / 100
            }
            Self::Average(target) => *target,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "upstream divides in the same precision")]
fn quotient(value: i64, by: i64) -> f64 {
    value as f64 / by as f64
}

/// Rounds up, saturating at the range of replica counts.
#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates")]
fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

/// Proposal by samples per pod. `resource` is the resource of the samples, if any.
///
/// # Errors
/// In upstream's words: no pods, or no usable samples.
pub(crate) fn by_pods(
    target: Target<'_>,
    samples: &Samples,
    goal: &TargetValue,
    resource: Option<&str>,
    now: Timestamp,
) -> Result<Proposal, String> {
    if target.pods.is_empty() {
        return Err(NO_PODS.to_owned());
    }
    let groups = pods::group(target.pods, samples, resource, now);
    let counts = |name: &String| !groups.unready.contains(name) && !groups.ignored.contains(name);
    let counted = samples.iter().filter(|(name, _)| counts(name));
    let mut used: BTreeMap<String, i64> = counted.map(|(name, one)| (name.clone(), one.value)).collect();
    if used.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let (ratio, shown, average) = goal.ratio(&used)?;
    let stays = Proposal { replicas: target.spec_replicas, shown, average };
    let fills_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !fills_unready && groups.missing.is_empty() {
        let ready = i32::try_from(groups.ready).unwrap_or(i32::MAX);
        let replicas = ceil(ratio * f64::from(ready));
        return Ok(if target.tolerance.holds(ratio) { stays } else { Proposal { replicas, ..stays } });
    }
    fill(&mut used, &groups, goal, ratio);
    let (filled, ..) = goal.ratio(&used)?;
    if target.tolerance.holds(filled) || (ratio < 1.0 && filled > 1.0) || (ratio > 1.0 && filled < 1.0) {
        return Ok(stays);
    }
    let replicas = ceil(filled * f64::from(i32::try_from(used.len()).unwrap_or(i32::MAX)));
    let reverses = (filled < 1.0 && replicas > target.spec_replicas)
        || (filled > 1.0 && replicas < target.spec_replicas);
    Ok(if reverses { stays } else { Proposal { replicas, ..stays } })
}

/// Assigns values to the pods without a sample.
fn fill(used: &mut BTreeMap<String, i64>, groups: &Groups, goal: &TargetValue, ratio: f64) {
    if ratio < 1.0 {
        used.extend(groups.missing.iter().map(|pod| (pod.clone(), goal.full(pod))));
    } else {
        used.extend(groups.missing.iter().map(|pod| (pod.clone(), 0)));
    }
    if ratio > 1.0 {
        used.extend(groups.unready.iter().map(|pod| (pod.clone(), 0)));
    }
}

/// Proposal by one total value and a target for it.
///
/// # Errors
/// In upstream's words: no pods.
pub(crate) fn by_total(target: Target<'_>, value: i64, goal: i64) -> Result<Proposal, String> {
    let ratio = quotient(value, goal);
    let shown = Proposal { replicas: target.spec_replicas, shown: value, average: value };
    // Without running pods the ratio alone decides.
    if target.spec_replicas == 0 {
        return Ok(Proposal { replicas: ceil(ratio), ..shown });
    }
    if target.tolerance.holds(ratio) {
        return Ok(shown);
    }
    if target.pods.is_empty() {
        return Err(format!("unable to calculate ready pods: {NO_PODS}"));
    }
    let ready = target.pods.iter().filter(|pod| pod.is_ready()).count();
    Ok(Proposal { replicas: ceil(ratio * f64::from(i32::try_from(ready).unwrap_or(i32::MAX))), ..shown })
}

/// Upstream's message for a selector without pods.
pub(crate) const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// Proposal by one total value and a target per pod.
pub(crate) fn by_share(target: Target<'_>, value: i64, goal: i64) -> Proposal {
    let now = target.status_replicas;
    let ratio = quotient(value, goal) / f64::from(now);
    let replicas = if target.tolerance.holds(ratio) { now } else { ceil(quotient(value, goal)) };
    let share = if now == 0 { value } else { div_ceil(value, i64::from(now)) };
    Proposal { replicas, shown: share, average: share }
}

fn div_ceil(value: i64, by: i64) -> i64 {
    value / by + i64::from(value % by > 0)
}
