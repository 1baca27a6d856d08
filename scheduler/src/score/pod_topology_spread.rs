//! The PodTopologySpread score (ScheduleAnyway): favors nodes in whose domains few matching pods run. Pods without any
//! constraint are spread among the pods of their Services and of their controller, over nodes and zones.

use std::collections::BTreeMap;

use super::Candidates;
use crate::filter::taint_toleration;
use crate::limits::MAX_NODE_SCORE;
use crate::node::{NodeInfo, ZONE};
use crate::pod::PodInfo;
use crate::pod_constraints::{LabelSelector, Spread};
use crate::tally::{Tally, label};
use crate::workloads::Workloads;

/// The label whose values name nodes: each node is a domain.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The keys and maximum skews of the constraints of pods without their own.
const DEFAULTS: [(&str, i64); 2] = [(HOSTNAME, 3), (ZONE, 5)];

/// The constraints by which the pod is scored.
struct Constraints {
    all: Vec<Spread>,
    /// Whether nodes without the label of any constraint do not count.
    needs_all_labels: bool,
}

impl Constraints {
    fn of(pod: &PodInfo, workloads: &Workloads) -> Option<Self> {
        let preferences = pod.preferences.as_ref()?;
        if preferences.has_spread {
            let all = preferences.spread.clone();
            return (!all.is_empty()).then_some(Self { all, needs_all_labels: true });
        }
        let selector = workloads.selector(pod)?;
        let default = |(key, max_skew): (&str, i64)| Spread {
            topology_key: key.to_owned(),
            max_skew,
            min_domains: 1,
            selector: Some(selector.clone()),
            honor_affinity: true,
            honor_taints: false,
        };
        Some(Self { all: DEFAULTS.map(default).into(), needs_all_labels: false })
    }

    fn are_labelled(&self, node: &NodeInfo) -> bool {
        !self.needs_all_labels || self.all.iter().all(|spread| node.labels.contains_key(&spread.topology_key))
    }
}

/// The selectors whose pods are counted for the pod's score, without repetition.
pub fn selectors(pod: &PodInfo, workloads: &Workloads) -> Vec<LabelSelector> {
    let constraints = Constraints::of(pod, workloads);
    let mut selectors: Vec<LabelSelector> = Vec::new();
    for spread in constraints.into_iter().flat_map(|constraints| constraints.all) {
        if let Some(selector) = spread.selector
            && !selectors.contains(&selector)
        {
            selectors.push(selector);
        }
    }
    selectors
}

/// The scores, 0 to 100; `None` for a pod without constraints.
pub fn scores(pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
    let constraints = Constraints::of(pod, &candidates.inventory.workloads)?;
    let nodes = || candidates.nodes.iter().map(|node| node.info());
    let counted: Vec<bool> = nodes().map(|node| constraints.are_labelled(node)).collect();
    let mut sums = vec![0.0; candidates.nodes.len()];
    for spread in &constraints.all {
        let key = spread.topology_key.as_str();
        let tally = spread.selector.as_ref().map(|selector| candidates.tally(pod, selector));
        // Domains with a node to choose. A node without the label is in a domain of its kind.
        let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
        if key != HOSTNAME {
            let values = nodes().zip(&counted).filter(|(_, counted)| **counted);
            domains.extend(values.map(|(node, _)| (label(node, key), 0)));
            if let Some(tally) = &tally {
                sum_domains(pod, spread, &constraints, candidates, tally, &mut domains);
            }
        }
        let size =
            if key == HOSTNAME { counted.iter().filter(|counted| **counted).count() } else { domains.len() };
        let weight = ((size + 2) as f64).ln();
        for (at, node) in
            nodes().enumerate().filter(|(at, node)| counted[*at] && node.labels.contains_key(key))
        {
            let count = match key {
                HOSTNAME => tally.as_ref().map_or(0, |tally| tally.on(candidates.slots[at])),
                _ => domains[label(node, key)],
            };
            sums[at] += count as f64 * weight + (spread.max_skew - 1) as f64;
        }
    }
    let raw: Vec<i64> = sums.into_iter().map(|sum| f64::round(sum) as i64).collect();
    Some(reversed(&raw, &counted))
}

/// Adds the pods of all nodes that the constraint counts to those of `domains` that are there.
fn sum_domains(
    pod: &PodInfo,
    spread: &Spread,
    constraints: &Constraints,
    candidates: &Candidates<'_>,
    tally: &Tally,
    domains: &mut BTreeMap<&str, i64>,
) {
    let all_nodes = !constraints.needs_all_labels && !spread.honor_taints && pod.affinity.is_open();
    if all_nodes && spread.topology_key == ZONE {
        for (zone, count) in tally.zones() {
            if let Some(sum) = domains.get_mut(zone) {
                *sum += count;
            }
        }
        return;
    }
    for (slot, count) in tally.occupied() {
        let node = candidates.snapshot.nodes()[slot].info();
        let is_counted = constraints.are_labelled(node)
            && (!spread.honor_affinity || pod.affinity.admits(&node.name, &node.labels))
            && (!spread.honor_taints || taint_toleration::admits(pod, node));
        if is_counted && let Some(sum) = domains.get_mut(label(node, &spread.topology_key)) {
            *sum += count;
        }
    }
}

/// Turns sums into scores: the smallest becomes the highest. Nodes that do not count get zero.
fn reversed(raw: &[i64], counted: &[bool]) -> Vec<i64> {
    let values = || raw.iter().zip(counted).filter(|(_, counted)| **counted).map(|(raw, _)| *raw);
    let (min, max) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    let score = |(raw, counted): (&i64, &bool)| match (*counted, max) {
        (false, _) => 0,
        (true, 0) => MAX_NODE_SCORE,
        (true, max) => MAX_NODE_SCORE * (max + min - raw) / max,
    };
    raw.iter().zip(counted).map(score).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::cache::Cache;
    use crate::snapshot::Snapshot;
    use crate::testing::{decode_node, on, pod, set, with};
    use crate::workloads::{WorkloadChange, WorkloadKind, decode_labels};

    /// Two nodes in zone a, one in zone b, one without a zone, and a Service for pods `app=web`.
    fn cluster() -> Cache {
        let mut cache = Cache::default();
        for (name, zone) in [("a1", Some("a")), ("a2", Some("a")), ("b1", Some("b")), ("none", None)] {
            let mut labels = json!({ HOSTNAME: name });
            if let Some(zone) = zone {
                labels[ZONE] = zone.into();
            }
            cache.set_node(decode_node(&json!({ "metadata": { "name": name, "labels": labels } })));
        }
        let service = json!({ "metadata": { "namespace": "ns", "name": "web" }, "spec": { "selector": { "app": "web" } } });
        let change = set(&service, decode_labels);
        cache.workloads_mut().apply(WorkloadChange { kind: WorkloadKind::Service, change });
        cache
    }

    fn web(name: &str) -> Arc<PodInfo> {
        with(&pod(name, json!({})), |pod| drop(pod.labels.insert("app".into(), "web".into())))
    }

    fn scored(cache: &mut Cache, snapshot: &mut Snapshot, is_refreshed: bool) -> Vec<(String, i64)> {
        snapshot.update(cache);
        if is_refreshed {
            cache.refresh_tallies(snapshot, &web("p"));
        }
        let slots: Vec<usize> = (0..snapshot.nodes().len()).collect();
        let candidates = Candidates::new(snapshot, cache.inventory(), &slots);
        let names = candidates.nodes.iter().map(|node| node.info().name.to_string());
        let mut all: Vec<_> = names.zip(scores(&web("p"), &candidates).unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn pods_of_a_service_are_spread_over_nodes_and_zones_by_default() {
        let (mut cache, mut snapshot) = (cluster(), Snapshot::default());
        let place = |cache: &mut Cache, name: &str, node: &str| {
            cache.set_pod(on(&web(name), node), &node.into());
        };
        place(&mut cache, "p1", "a1");
        place(&mut cache, "p2", "none");
        // Hostnames: 4 nodes, weight ln 6 = 1.79. Zones: a, b and none, weight ln 5 = 1.61; in a zone 4 for the skew of
        // 5, 2 for that of 3. a1: 1.79 + 2 + 1.61 + 4 = 9; a2: 2 + 1.61 + 4 = 8; b1: 6; none: 1.79 + 2 = 4.
        let score = |raw: i64| 100 * (9 + 4 - raw) / 9;
        let expected =
            [("a1", 9), ("a2", 8), ("b1", 6), ("none", 4)].map(|(n, raw)| (n.to_owned(), score(raw)));
        assert_eq!(scored(&mut cache, &mut snapshot, false), expected);
        assert_eq!(scored(&mut cache, &mut snapshot, true), expected);
        // Another namespace and a pod that is being deleted do not count.
        let stranger = with(&on(&web("x"), "b1"), |pod| pod.key = kstore_informer::Key::new("other", "x"));
        cache.set_pod(stranger, &"b1".into());
        cache.set_pod(with(&on(&web("y"), "b1"), |pod| pod.deleting = true), &"b1".into());
        assert_eq!(scored(&mut cache, &mut snapshot, true), expected);
        // Counts follow changes of pods, and of a node's zone.
        place(&mut cache, "p3", "b1");
        cache.remove_pod(&"p1".into());
        assert_eq!(scored(&mut cache, &mut snapshot, true), scored(&mut cache, &mut snapshot, false));
        let moved = json!({ "metadata": { "name": "b1", "labels": { HOSTNAME: "b1", ZONE: "a" } } });
        cache.set_node(decode_node(&moved));
        let kept = scored(&mut cache, &mut snapshot, true);
        let mut fresh = Snapshot::default();
        fresh.update(&cache);
        assert_eq!(kept, scored(&mut cache, &mut fresh, false));
    }

    #[test]
    fn the_smallest_sum_becomes_the_highest_score() {
        assert_eq!(reversed(&[2, 4, 3], &[true; 3]), [100, 50, 75]);
        assert_eq!(reversed(&[0, 0, 9], &[true, true, false]), [100, 100, 0]);
        assert_eq!(reversed(&[], &[]), [0i64; 0]);
    }
}
