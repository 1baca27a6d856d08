//! The plugin NodeResourcesBalancedAllocation, a score: favors nodes on which the pod brings the used shares of the resources, by default
//! of CPU and memory, closer together (the rule of 1.36, in which 75 means "no change").

use super::scored_resources::{RequestBasis, ScoredResource};
use crate::event::EventSet;
use crate::fields::Fields;
use crate::limits::MAX_NODE_SCORE;
use crate::node_state::NodeState;
use crate::plugin::{ExtensionPoint, Plugin, Row};
use crate::pod::PodInfo;
use crate::score::Candidates;
use serde_json::{Value, json};

/// The plugin, with other resources than CPU and memory if its arguments name some.
#[derive(Default)]
pub(crate) struct NodeResourcesBalancedAllocation(Option<Vec<ScoredResource>>);

impl Plugin for NodeResourcesBalancedAllocation {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodeResourcesBalancedAllocation",
        points: &[ExtensionPoint::PreScore, ExtensionPoint::Score],
        weight: 1,
        reasons: &[],
        events: EventSet::NONE,
    };

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        let resources = ScoredResource::read(args);
        for (index, resource) in resources.iter().enumerate() {
            if resources[..index].iter().any(|before| before.name() == resource.name()) {
                args.duplicate(&format!("resources[{index}].name"), resource.name());
            }
            if resource.weight != 1 {
                args.invalid(&format!("resources[{index}].weight"), &resource.weight, "must be 1");
            }
        }
        Some(Self((resources != ScoredResource::defaults()).then_some(resources)))
    }

    fn arguments(&self) -> Option<Value> {
        let resources = self.0.clone().unwrap_or_else(ScoredResource::defaults);
        Some(json!({ "resources": ScoredResource::print(&resources) }))
    }

    /// Skips a pod that requests none of the resources: it changes no balance.
    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        let Some(resources) = &self.0 else {
            let has_requests = pod.requests.milli_cpu != 0 || pod.requests.memory != 0;
            return has_requests.then(|| candidates.map(|node| score(pod, node)));
        };
        let has_requests = resources.iter().any(|resource| resource.wanted(pod, RequestBasis::Actual) != 0);
        has_requests.then(|| candidates.map(|node| score_of(resources, pod, node)))
    }
}

/// The score for CPU and memory, 50 to 100.
fn score(pod: &PodInfo, node: &NodeState) -> i64 {
    let (all, taken) = (&node.info().allocatable, node.requested());
    let balance = |cpu, memory| balance([(cpu, all.milli_cpu.into()), (memory, all.memory.into())]);
    let before = balance(taken.milli_cpu, taken.memory);
    let after = balance(
        taken.milli_cpu + i128::from(pod.requests.milli_cpu),
        taken.memory + i128::from(pod.requests.memory),
    );
    improvement(before, after)
}

/// The score for any resources.
fn score_of(resources: &[ScoredResource], pod: &PodInfo, node: &NodeState) -> i64 {
    let used = || resources.iter().filter_map(|resource| resource.used(pod, node, RequestBasis::Actual));
    let before: Vec<f64> = used().map(|used| share(used.taken, used.allocatable)).collect();
    let after: Vec<f64> = used().map(|used| share(used.taken + used.wanted, used.allocatable)).collect();
    improvement(balance_of(&before), balance_of(&after))
}

fn improvement(before: i64, after: i64) -> i64 {
    let half = MAX_NODE_SCORE / 2;
    half + (half + after - before) / 2
}

fn share(taken: i128, all: i128) -> f64 {
    (taken as f64 / all as f64).min(1.0)
}

/// 100 minus the standard deviation of the used shares in per cent; for two shares, half their difference.
fn balance(parts: [(i128, i128); 2]) -> i64 {
    let share = |(taken, all): (i128, i128)| (all != 0).then(|| share(taken, all));
    match parts.map(share) {
        [Some(a), Some(b)] => balance_of(&[a, b]),
        [None, _] | [_, None] => balance_of(&[]),
    }
}

/// The balance of any number of shares.
fn balance_of(shares: &[f64]) -> i64 {
    let deviation = match shares {
        [] | [_] => 0.0,
        [a, b] => ((a - b) / 2.0).abs(),
        _ => {
            let count = shares.len() as f64;
            let mean = shares.iter().sum::<f64>() / count;
            (shares.iter().fold(0.0, |sum, share| sum + (share - mean) * (share - mean)) / count).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_is_100_minus_half_the_difference_of_the_shares() {
        assert_eq!(balance([(1, 2), (1, 2)]), 100);
        assert_eq!(balance([(0, 2), (2, 2)]), 50);
        assert_eq!(balance([(5, 2), (0, 2)]), 50);
        assert_eq!(balance([(1, 4), (1, 2)]), 87);
        assert_eq!(balance([(1, 0), (1, 2)]), 100);
    }

    #[test]
    fn balance_of_more_resources_is_100_minus_the_standard_deviation() {
        assert_eq!(balance_of(&[0.5, 0.5, 0.5]), 100);
        // The mean is 0.5, the variance 0.5 / 3.
        assert_eq!(balance_of(&[0.0, 0.5, 1.0]), 59);
        assert_eq!(balance_of(&[1.0]), 100);
    }
}
