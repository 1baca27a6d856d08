//! How many replicas one metric asks for. Pure; the numbers and rules are those of upstream's calculator.
//!
//! The count is `ceil(usage / target * pods)`, and stays as it is while the ratio is within the tolerance. Pods without a sample count
//! against the direction: as using all of their request (or the target, where it is above it) when the metric asks for fewer, as using
//! nothing when it asks for more; pods that are not ready count as using nothing when the metric asks for more. If that turns the direction
//! around, the count stays.

use super::pods::{self, Groups, Pod};
use super::sample::Samples;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// What the calculator knows of the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// `spec.replicas` of the scale.
    pub spec_replicas: i32,
    /// `status.replicas` of the scale.
    pub status_replicas: i32,
    /// Its pods.
    pub pods: &'a [Pod],
    /// How far usage may be from the target without an effect.
    pub tolerance: Tolerance,
}

/// How far the ratio of usage and target may be from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tolerance {
    /// Above 1.
    pub up: f64,
    /// Below 1.
    pub down: f64,
}

impl Tolerance {
    fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// What a metric asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// Replicas.
    pub replicas: i32,
    /// The metric as the status shows it: percent of the requests, or thousandths.
    pub shown: i64,
    /// The average, in thousandths, where `shown` is a percentage.
    pub average: i64,
}

/// How usage is compared with the target.
#[derive(Clone, Debug)]
pub(crate) enum Goal {
    /// Percent of the requests of the pods.
    Utilization { target: i32, requests: BTreeMap<String, i64> },
    /// An average of each pod, in thousandths.
    Average(i64),
}

impl Goal {
    /// The ratio of usage and target, what of the metric is shown, and the average of each pod.
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

    /// What a pod without a sample is taken to use when the metric asks for fewer replicas.
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

/// The next whole number; what is no count of replicas becomes the nearest that is.
#[expect(clippy::cast_possible_truncation, reason = "the conversion saturates")]
fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

/// Replicas by samples of each pod. `resource` is the resource that the samples are of, if they are of one.
///
/// # Errors
/// In upstream's words: there are no pods, or no samples that count.
pub(crate) fn by_pods(
    target: Target<'_>,
    samples: &Samples,
    goal: &Goal,
    (resource, now): (Option<&str>, Timestamp),
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
    let turns = (filled < 1.0 && replicas > target.spec_replicas)
        || (filled > 1.0 && replicas < target.spec_replicas);
    Ok(if turns { stays } else { Proposal { replicas, ..stays } })
}

/// Gives values to the pods without one.
fn fill(used: &mut BTreeMap<String, i64>, groups: &Groups, goal: &Goal, ratio: f64) {
    if ratio < 1.0 {
        used.extend(groups.missing.iter().map(|pod| (pod.clone(), goal.full(pod))));
    } else {
        used.extend(groups.missing.iter().map(|pod| (pod.clone(), 0)));
    }
    if ratio > 1.0 {
        used.extend(groups.unready.iter().map(|pod| (pod.clone(), 0)));
    }
}

/// Replicas by one value for all pods and a target for this value.
///
/// # Errors
/// In upstream's words: there are no pods.
pub(crate) fn by_total(target: Target<'_>, value: i64, goal: i64) -> Result<Proposal, String> {
    let ratio = quotient(value, goal);
    let shown = Proposal { replicas: target.spec_replicas, shown: value, average: value };
    // Nothing runs whose samples could count: the ratio alone says how many there are to be.
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

/// What upstream says of a selector without pods.
pub(crate) const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// Replicas by one value for all pods and a target for the share of each.
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
