//! The PodTopologySpread score (ScheduleAnyway): favors nodes in whose domains few matching pods run. Pods without any
//! constraint are spread among the pods of their Services and of their controller, over nodes and zones.

use super::taint_toleration;
use crate::limits::MAX_NODE_SCORE;
use crate::node::ZONE;
use crate::node_state::NodeState;
use crate::pod::PodInfo;
use crate::score::Candidates;
use crate::spread_constraints::{Constraint, Constraints, SpreadDefaults};
use crate::tally::{Tally, label};
use crate::zones::HOSTNAME;
use std::collections::BTreeMap;

/// The scores, 0 to 100; `None` for a pod without constraints, its own or `defaults`.
pub(super) fn scores(
    pod: &PodInfo,
    candidates: &Candidates<'_>,
    defaults: &SpreadDefaults,
) -> Option<Vec<i64>> {
    let constraints = Constraints::of(pod, &candidates.inventory.workloads, defaults)?;
    let Candidates { snapshot, inventory, nodes } = candidates;
    let counted: Vec<bool> = nodes.iter().map(|node| constraints.are_labelled(node)).collect();
    let mut sums = vec![0.0; nodes.len()];
    for constraint in constraints.iter() {
        let key = constraint.key;
        let tally = constraint.selector.map(|s| {
            inventory.tallies.tally(snapshot.generation(), snapshot.nodes(), pod.key.namespace(), s)
        });
        let domains = ScoredDomains {
            pod,
            constraint,
            constraints: &constraints,
            candidates,
            counted: &counted,
            tally: tally.as_deref(),
        };
        let (size, counts) = match key {
            HOSTNAME => domains.hosts(),
            ZONE => domains.zones(),
            _ => domains.by_label(),
        };
        let weight = ((size + 2) as f64).ln();
        for (at, node) in nodes.iter().enumerate() {
            if counted[at] && node.location().has_label(node.info(), key) {
                sums[at] += counts[at] as f64 * weight + (constraint.max_skew - 1) as f64;
            }
        }
    }
    let raw: Vec<i64> = sums.into_iter().map(|sum| f64::round(sum) as i64).collect();
    Some(reversed(&raw, &counted))
}

/// The number of domains with a node to choose, and the number of matching pods in the domain of each candidate. A node
/// without the label is in a domain of its kind.
type DomainCounts = (usize, Vec<i64>);

/// One constraint with what its domains are counted from.
struct ScoredDomains<'a> {
    pod: &'a PodInfo,
    constraint: Constraint<'a>,
    constraints: &'a Constraints<'a>,
    candidates: &'a Candidates<'a>,
    /// Whether each candidate counts.
    counted: &'a [bool],
    /// The matching pods; `None` if the constraint selects no pod.
    tally: Option<&'a Tally>,
}

impl ScoredDomains<'_> {
    /// The candidates that count.
    fn counted(&self) -> impl Iterator<Item = &NodeState> {
        let nodes = self.candidates.nodes.iter().zip(self.counted);
        nodes.filter(|(_, is_counted)| **is_counted).map(|(node, _)| *node)
    }

    /// The nodes with matching pods that the constraint counts, and the number of these pods.
    fn occupied(&self) -> impl Iterator<Item = (&NodeState, i64)> {
        let occupied = self.tally.into_iter().flat_map(Tally::occupied);
        let nodes = occupied.filter_map(|(index, n)| Some((self.candidates.snapshot.at_index(index)?, n)));
        nodes.filter(|(node, _)| {
            let info = node.info();
            self.constraints.are_labelled(node)
                && (!self.constraint.honor_affinity || self.pod.affinity.admits(&info.name, &info.labels))
                && (!self.constraint.honor_taints || taint_toleration::admits(self.pod, info))
        })
    }

    /// Whether the constraint counts the pods of every node.
    fn is_open(&self) -> bool {
        matches!(self.constraints, Constraints::Default(_))
            && !self.constraint.honor_taints
            && self.pod.affinity.is_open()
    }

    fn hosts(&self) -> DomainCounts {
        let count = |node: &&NodeState| self.tally.map_or(0, |tally| tally.on(node.location().index));
        (self.counted().count(), self.candidates.nodes.iter().map(count).collect())
    }

    fn zones(&self) -> DomainCounts {
        let zone = |node: &NodeState| node.location().zone.expect("a node in a snapshot exists");
        let mut seen: Vec<bool> = Vec::new();
        for zone in self.counted().map(zone) {
            seen.resize(seen.len().max(zone + 1), false);
            seen[zone] = true;
        }
        let mut sums = vec![0; seen.len()];
        if self.is_open() {
            let tally = |zone: usize| self.tally.map_or(0, |tally| tally.in_zone(zone));
            sums.iter_mut().enumerate().for_each(|(zone, sum)| *sum = tally(zone));
        } else {
            for (node, count) in self.occupied() {
                if let Some(sum) = sums.get_mut(zone(node)) {
                    *sum += count;
                }
            }
        }
        let counts = self.candidates.nodes.iter().map(|node| sums.get(zone(node)).copied().unwrap_or(0));
        (seen.into_iter().filter(|seen| *seen).count(), counts.collect())
    }

    fn by_label(&self) -> DomainCounts {
        let key = self.constraint.key;
        let mut domains: BTreeMap<&str, i64> =
            self.counted().map(|node| (label(node.info(), key), 0)).collect();
        for (node, count) in self.occupied() {
            if let Some(sum) = domains.get_mut(label(node.info(), key)) {
                *sum += count;
            }
        }
        let count = |node: &&NodeState| domains.get(label(node.info(), key)).copied().unwrap_or(0);
        (domains.len(), self.candidates.nodes.iter().map(count).collect())
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
    use super::*;
    use crate::cache::Cache;
    use crate::pod::WorkloadKind;
    use crate::snapshot::Snapshot;
    use crate::testing::{decode_node, on, pod, set, with};
    use crate::workloads::{WorkloadChange, decode_labels};
    use serde_json::json;
    use std::sync::Arc;

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

    fn scored(cache: &mut Cache, snapshot: &mut Snapshot, is_kept: bool) -> Vec<(String, i64)> {
        snapshot.update(cache);
        if is_kept {
            cache.keep_tallies(&web("p"));
        }
        let slots: Vec<usize> = (0..snapshot.nodes().len()).collect();
        let candidates = Candidates::new(snapshot, cache.inventory(), &slots);
        let names = candidates.nodes.iter().map(|node| node.info().name.to_string());
        let mut all: Vec<_> =
            names.zip(scores(&web("p"), &candidates, &SpreadDefaults::System).unwrap()).collect();
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
