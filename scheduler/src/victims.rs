//! The reason why preemption would not help a refused pod: the second sentence of the message, in
//! kube-scheduler's words. This file only computes the reason; the scheduler does not preempt.

use std::collections::BTreeMap;

use crate::cache::NodeState;
use crate::decide::Refusal;
use crate::explain::{count, counted};
use crate::filter::{self, Change, Claims, PreFilterState};
use crate::inventory::Inventory;
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

const NOT_ELIGIBLE: &str = "not eligible due to preemptionPolicy=Never.";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// The sentence for `refusal` of `pod` on this snapshot. `None` without nodes, or if the pod would fit on a
/// node without its pods of lower priority.
pub fn why_not(
    snapshot: &Snapshot,
    inventory: &Inventory,
    pod: &PodInfo,
    refusal: &Refusal,
) -> Option<String> {
    if refusal.nodes == 0 {
        return None;
    }
    if pod.never_preempts {
        return Some(NOT_ELIGIBLE.to_owned());
    }
    let mut reasons = BTreeMap::new();
    // One computation serves all nodes: in a full cluster thousands of nodes are examined, and each changes
    // only its own part.
    let mut prefilter_state = prefilter_state(snapshot, inventory, pod, snapshot.nodes().iter());
    let resolvable = refusal.rejections.iter().filter(|(_, rejection)| rejection.is_resolvable());
    let mut examined = 0;
    for (slot, _) in resolvable {
        examined += 1;
        let node = &snapshot.nodes()[*slot];
        let Some((stripped, lower)) = node.without_lower(pod.priority) else {
            count(&mut reasons, NO_VICTIMS, 1);
            continue;
        };
        let adjust = |prefilter_state: &mut PreFilterState<'_>, change| {
            lower.iter().for_each(|other| {
                prefilter_state.adjust(pod, node.info(), other, change, snapshot.namespaces());
            });
        };
        adjust(&mut prefilter_state, Change::Removed);
        let verdict = filter::check(pod, &prefilter_state, &stripped);
        adjust(&mut prefilter_state, Change::Added);
        match verdict {
            Ok(()) => return None,
            Err(rejection) => rejection.reasons(&mut |reason| count(&mut reasons, reason, 1)),
        }
    }
    count(&mut reasons, NOT_HELPFUL, refusal.nodes - examined);
    Some(counted(refusal.nodes, &reasons))
}

/// The state that the filters need. If no node can have the pod's volumes or devices, no node refused the pod,
/// and the function ignores them.
fn prefilter_state<'a, 'v>(
    snapshot: &Snapshot,
    inventory: &'v Inventory,
    pod: &PodInfo,
    nodes: impl Iterator<Item = &'a NodeState> + Clone,
) -> PreFilterState<'v> {
    let claims = Claims::of(pod, inventory).unwrap_or_default();
    PreFilterState::of(pod, nodes, snapshot.has_anti_affinity(), snapshot.namespaces(), claims)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, proptest};
    use serde_json::json;

    use super::*;
    use crate::cache::Cache;
    use crate::decide::{Outcome, Terms, decide};
    use crate::testing::{any_node, any_pod, cpu_pod, node, on, with};

    /// The sentence for a cluster of three nodes of four cores: one cordoned, one full of a pod of priority
    /// 5, one with a pod of priority 0 and 2 cores.
    fn why(pod: &PodInfo) -> Option<String> {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        cache.set_node(node("cordoned", json!({ "unschedulable": true })));
        cache.set_node(node("full", json!({})));
        cache.set_node(node("half", json!({})));
        let place = |cache: &mut Cache, name: &str, cpu: &str, priority: i32, node: &str| {
            let pod = with(&on(&cpu_pod(name, cpu), node), |pod| pod.priority = priority);
            cache.set_pod(pod, &Arc::from(node));
        };
        place(&mut cache, "high", "4", 5, "full");
        place(&mut cache, "low", "2", 0, "half");
        place(&mut cache, "other", "1500m", 5, "half");
        snapshot.update(&cache);
        match decide(&snapshot, &Inventory::default(), pod, Terms { start: 0, tie: 0, percentage: 0 }).outcome
        {
            Outcome::Unfit(refusal) => why_not(&snapshot, &Inventory::default(), pod, &refusal),
            Outcome::Fits(choice) => panic!("{choice:?}"),
        }
    }

    /// A plain [`why_not`] that computes the state over all nodes anew for each examined node.
    fn plain_why_not(snapshot: &Snapshot, pod: &PodInfo, refusal: &Refusal) -> Option<String> {
        let mut reasons = BTreeMap::new();
        let mut examined = 0;
        for (slot, _) in refusal.rejections.iter().filter(|(_, rejection)| rejection.is_resolvable()) {
            examined += 1;
            let Some((stripped, _)) = snapshot.nodes()[*slot].without_lower(pod.priority) else {
                count(&mut reasons, NO_VICTIMS, 1);
                continue;
            };
            let nodes = snapshot.nodes().iter().enumerate();
            let nodes = nodes.map(|(at, node)| if at == *slot { &stripped } else { node });
            match filter::check(pod, &prefilter_state(snapshot, &Inventory::default(), pod, nodes), &stripped)
            {
                Ok(()) => return None,
                Err(rejection) => rejection.reasons(&mut |reason| count(&mut reasons, reason, 1)),
            }
        }
        count(&mut reasons, NOT_HELPFUL, refusal.nodes - examined);
        Some(counted(refusal.nodes, &reasons))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

        #[test]
        fn the_preemption_message_equals_a_plain_computation(
            nodes in (any_node("n0".into()), any_node("n1".into()), any_node("n2".into())),
            placed in vec((any_pod(String::new()), 0usize..3), 0..8), pod in any_pod("p".into()),
        ) {
            let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
            for node in [nodes.0, nodes.1, nodes.2] {
                cache.set_node(node);
            }
            for (i, (other, node)) in placed.into_iter().enumerate() {
                let other = with(&other, |other| other.uid = format!("placed-{i}").into());
                cache.set_pod(other, &format!("n{node}").into());
            }
            snapshot.update(&cache);
            let pod = with(&pod, |pod| pod.priority = 2);
            if let Outcome::Unfit(refusal) = decide(&snapshot, &Inventory::default(), &pod, Terms { start: 0, tie: 0, percentage: 0 }).outcome {
                assert_eq!(why_not(&snapshot, &Inventory::default(), &pod, &refusal), plain_why_not(&snapshot, &pod, &refusal));
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "measures the time that code takes")]
    fn a_refusal_by_a_full_cluster_takes_time_linear_in_its_nodes() {
        let spread = json!([{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "a" } } }]);
        let alone = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "a" } } }] } });
        let spec = |cpu: &str| {
            json!({ "topologySpreadConstraints": spread, "affinity": alone,
            "containers": [{ "resources": { "requests": { "cpu": cpu } } }] })
        };
        let took = |nodes: usize, times: usize| {
            let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
            for n in 0..nodes {
                let name = format!("n{n}");
                cache.set_node(node(&name, json!({})));
                for (kind, cpu, priority) in [("low", "1", 0), ("high", "2500m", 9)] {
                    let placed = with(&crate::testing::pod(&format!("{kind}-{n}"), spec(cpu)), |pod| {
                        pod.priority = priority;
                        pod.labels.insert("app".into(), "a".into());
                    });
                    cache.set_pod(placed, &Arc::from(name.as_str()));
                }
            }
            snapshot.update(&cache);
            let pod = with(&crate::testing::pod("p", spec("2")), |pod| pod.priority = 5);
            let Outcome::Unfit(refusal) =
                decide(&snapshot, &Inventory::default(), &pod, Terms { start: 0, tie: 0, percentage: 0 })
                    .outcome
            else {
                panic!("the cluster is full");
            };
            let measure = || {
                let began = std::time::Instant::now();
                for _ in 0..times {
                    assert!(why_not(&snapshot, &Inventory::default(), &pod, &refusal).is_some());
                }
                began.elapsed()
            };
            (0..10).map(|_| measure()).min().unwrap()
        };
        // Both sides do the same amount of work, so that a busy machine interrupts both equally. A quadratic
        // algorithm would take eight times as long.
        let (few, many) = (took(125, 8), took(1000, 1));
        assert!(many < few * 4, "eight times 125 nodes took {few:?}, 1000 took {many:?}");
    }

    #[test]
    fn the_preemption_message_has_a_reason_for_each_node() {
        let pod = |cpu, priority| with(&cpu_pod("p", cpu), |pod| pod.priority = priority);
        let expected = "0/3 nodes are available: 1 Preemption is not helpful for scheduling, \
                        2 No preemption victims found for incoming pod.";
        assert_eq!(why(&pod("1", 0)).as_deref(), Some(expected));
        let expected = "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, \
                        1 Preemption is not helpful for scheduling.";
        assert_eq!(why(&pod("3", 3)).as_deref(), Some(expected));
        assert_eq!(why(&pod("2", 3)), None, "the low one could go");
        let never = with(&pod("1", 3), |pod| pod.never_preempts = true);
        assert_eq!(why(&never).as_deref(), Some("not eligible due to preemptionPolicy=Never."));
        let huge = "0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
        assert_eq!(why(&pod("5", 9)).as_deref(), Some(huge));
    }
}
