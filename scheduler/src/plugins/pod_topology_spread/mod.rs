//! The plugin PodTopologySpread: the pod must not make a domain's skew exceed the maximum of a constraint (DoNotSchedule). The score favors
//! nodes in whose domains few matching pods run (ScheduleAnyway).

mod defaults;
mod score;

use super::taint_toleration;
use crate::event::EventKind::{
    NodeAdded, NodeChanged, NodeRemoved, OwnChange, PodFreed, PodPlaced, PodRelabeled, PodTerminating,
};
use crate::event::{ClusterEvent, EventSet};
use crate::fields::Fields;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{Adjustment, ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::pod_constraints::Spread;
use crate::score::Candidates;
use crate::snapshot::Snapshot;
use crate::spread_constraints::SpreadDefaults;
use crate::tally::Tallies;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The plugin, with the constraints of pods that have none.
#[derive(Default)]
pub(crate) struct PodTopologySpread(SpreadDefaults);

/// Indices of the reasons: the node's domain would exceed the maximum skew; the node is in no domain.
const MAX_SKEW: u32 = 0;
const NO_DOMAIN: u32 = 1;

impl Plugin for PodTopologySpread {
    type State<'a> = Counts<'a>;

    const ROW: &'static Row = &Row {
        name: "PodTopologySpread",
        points: &[
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ],
        weight: 2,
        reasons: &[
            "node(s) didn't match pod topology spread constraints",
            "node(s) didn't match pod topology spread constraints (missing required label)",
        ],
        events: EventSet::of(&[
            NodeAdded,
            NodeChanged,
            NodeRemoved,
            PodPlaced,
            PodFreed,
            PodTerminating,
            PodRelabeled,
            OwnChange,
        ]),
    };

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        Some(Self(defaults::read(args)))
    }

    fn arguments(&self) -> Option<Value> {
        Some(defaults::print(&self.0))
    }

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, Counts<'a>> {
        let spreads = self.0.hard_of(pod, &cluster.inventory.workloads);
        if spreads.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Check(count(pod, spreads, cluster.snapshot, &cluster.inventory.tallies))
    }

    fn check(&self, _pod: &PodInfo, counts: &Counts<'_>, node: &NodeState) -> Result<(), Refused> {
        counts.check(node.info())
    }

    fn adjust(&self, pod: &PodInfo, counts: &mut Counts<'_>, adjustment: &Adjustment<'_>) {
        counts.adjust(pod, adjustment);
    }

    /// Helpful events: a node with the topology labels is added, changed or removed (it may have been the domain
    /// with the fewest pods); a matching pod is added (the smallest domain may have grown), removed or being deleted; other labels of the
    /// pod. Which pods a default constraint counts depends on objects that are not at hand here: every pod of the namespace may match it.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        let default = self.0.hard_for(pod);
        let spreads = default.unwrap_or(&pod.spread);
        match event {
            ClusterEvent::NodeAdded(node, _) | ClusterEvent::NodeRemoved(node) => has_domains(spreads, node),
            ClusterEvent::NodeChanged { old, new, .. } => {
                has_domains(spreads, old) || has_domains(spreads, new)
            }
            ClusterEvent::PodPlaced(other)
            | ClusterEvent::PodFreed(other)
            | ClusterEvent::PodTerminating(other) => {
                other.key.namespace() == pod.key.namespace()
                    && (default.is_some() || spreads.iter().any(|s| s.counts(&other.labels)))
            }
            ClusterEvent::PodRelabeled { old, new } => {
                new.key.namespace() == pod.key.namespace()
                    && (default.is_some()
                        || spreads.iter().any(|s| s.counts(&old.labels) != s.counts(&new.labels)))
            }
            ClusterEvent::OwnChange(old) => old.labels != pod.labels,
            ClusterEvent::Storage(..) | ClusterEvent::Devices(..) | ClusterEvent::PodGroup(..) => false,
        }
    }

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        score::scores(pod, candidates, &self.0)
    }
}

/// The matching pods per domain for each constraint of a pod.
#[derive(Debug)]
pub(crate) struct Counts<'a> {
    /// The pod's constraints, or the default ones.
    spreads: Cow<'a, [Spread]>,
    /// What each of them counts.
    constraints: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    key: String,
    max_skew: i64,
    min_domains: i64,
    /// 1 if the constraint counts the pod itself, else 0.
    own: i64,
    /// The number of matching pods per domain.
    domains: BTreeMap<String, i64>,
    /// The number of domains per number of matching pods.
    sizes: BTreeMap<i64, usize>,
}

impl Counted {
    fn set(&mut self, domain: &str, count: impl FnOnce(i64) -> i64) {
        let before = self.domains.get(domain).copied();
        let after = count(before.unwrap_or(0));
        if let Some(before) = before
            && let Entry::Occupied(mut size) = self.sizes.entry(before)
        {
            *size.get_mut() -= 1;
            if *size.get() == 0 {
                size.remove();
            }
        }
        *self.sizes.entry(after).or_default() += 1;
        self.domains.insert(domain.to_owned(), after);
    }

    /// The smallest number of matching pods in a domain; zero with too few domains.
    fn minimum(&self) -> i64 {
        let enough = i64::try_from(self.domains.len()).is_ok_and(|domains| domains >= self.min_domains);
        self.sizes.keys().next().copied().filter(|_| enough).unwrap_or(0)
    }
}

/// Sums up the matching pods of all nodes.
fn count<'a>(
    pod: &PodInfo,
    spreads: Cow<'a, [Spread]>,
    snapshot: &Snapshot,
    tallies: &Tallies,
) -> Counts<'a> {
    let counted = spreads.iter().map(|spread| {
        let selector = spread.selector.as_ref();
        let tally = selector.map(|selector| {
            tallies.tally(snapshot.generation(), snapshot.nodes(), pod.key.namespace(), selector)
        });
        let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
        for node in snapshot.nodes().iter().filter(|node| is_eligible(pod, (spread, &spreads), node.info())) {
            let like = tally.as_ref().map_or(0, |tally| tally.on(node.location().index));
            *domains.entry(&node.info().labels[&spread.topology_key]).or_default() += like;
        }
        let mut sizes = BTreeMap::new();
        domains.values().for_each(|count| *sizes.entry(*count).or_default() += 1);
        Counted {
            key: spread.topology_key.clone(),
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            own: i64::from(spread.counts(&pod.labels)),
            domains: domains.into_iter().map(|(domain, count)| (domain.to_owned(), count)).collect(),
            sizes,
        }
    });
    let constraints = counted.collect();
    Counts { constraints, spreads }
}

impl Counts<'_> {
    /// Counts an assumed change of the pods on a node. Follows `updateWithPod`: a pod that leaves is subtracted even if it
    /// was never counted, because it is being deleted or the selector is empty.
    fn adjust(&mut self, pod: &PodInfo, adjustment: &Adjustment<'_>) {
        let Adjustment { node, other, change, .. } = adjustment;
        if other.key.namespace() != pod.key.namespace() {
            return;
        }
        for (counted, spread) in self.constraints.iter_mut().zip(self.spreads.iter()) {
            if spread.counts(&other.labels) && is_eligible(pod, (spread, &self.spreads), node) {
                counted.set(&node.labels[&spread.topology_key], |count| change.of(count));
            }
        }
    }

    /// Whether the node admits the pod.
    fn check(&self, node: &NodeInfo) -> Result<(), Refused> {
        for c in &self.constraints {
            let domain = node.labels.get(&c.key).ok_or_else(|| Refused::unresolvable(NO_DOMAIN))?;
            let there = c.domains.get(domain).copied().unwrap_or(0);
            if there + c.own - c.minimum() > c.max_skew {
                return Err(Refused::resolvable(MAX_SKEW));
            }
        }
        Ok(())
    }
}

/// Whether `node` counts for one of `all` constraints: it has the label of every constraint, and the pod's affinity and tolerations admit
/// it as far as the constraint honors them.
fn is_eligible(pod: &PodInfo, (spread, all): (&Spread, &[Spread]), node: &NodeInfo) -> bool {
    has_domains(all, node)
        && (!spread.honor_affinity || pod.affinity.admits(&node.name, &node.labels))
        && (!spread.honor_taints || taint_toleration::admits(pod, node))
}

fn has_domains(spreads: &[Spread], node: &NodeInfo) -> bool {
    spreads.iter().all(|spread| node.labels.contains_key(&spread.topology_key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::inventory::Inventory;
    use crate::plugin::PodMove;
    use crate::pod_constraints::Namespaces;
    use crate::testing::{cpu_pod, decode_node, on, pod, with};
    use serde_json::{Value, json};

    /// A cluster of two zones: `a` has two pods with a label, `b` has none.
    fn cluster() -> (Cache, Snapshot) {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        for name in ["a", "b"] {
            let metadata = json!({ "name": name, "labels": { "zone": name } });
            cache.set_node(decode_node(&json!({ "metadata": metadata })));
        }
        for name in ["p1", "p2"] {
            cache.set_pod(on(&labelled(&cpu_pod(name, "1")), "a"), &"a".into());
        }
        snapshot.update(&cache);
        (cache, snapshot)
    }

    fn labelled(pod: &std::sync::Arc<PodInfo>) -> std::sync::Arc<PodInfo> {
        with(pod, |pod| drop(pod.labels.insert("app".into(), "x".into())))
    }

    fn spread(when: &str, selector: &Value) -> std::sync::Arc<PodInfo> {
        let mut constraint = json!({ "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": when });
        if !selector.is_null() {
            constraint["labelSelector"] = selector.clone();
        }
        labelled(&pod("p", json!({ "topologySpreadConstraints": [constraint] })))
    }

    #[test]
    fn an_empty_selector_counts_the_pod_itself_and_no_selector_counts_none() {
        let (cache, snapshot) = cluster();
        let Inventory { tallies, .. } = cache.inventory();
        // Whether zone `a` admits the pod, and whether it still does beside a nominated pod.
        let cases = [
            (json!({ "matchLabels": { "app": "x" } }), false, false),
            (json!({ "matchLabels": { "app": "y" } }), true, true),
            (json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }), false, false),
            (json!({}), true, false),
            (Value::Null, true, true),
        ];
        for (selector, admitted, admitted_beside) in cases {
            let pod = spread("DoNotSchedule", &selector);
            let mut counts = count(&pod, Cow::Borrowed(&pod.spread), &snapshot, tallies);
            let node = snapshot.nodes()[snapshot.slot("a").unwrap()].info();
            let (other, namespaces) = (labelled(&cpu_pod("nominated", "1")), Namespaces::new());
            let moved = |change| Adjustment { node, other: &other, change, namespaces: &namespaces };
            assert_eq!(counts.check(node).is_ok(), admitted, "{selector}");
            counts.adjust(&pod, &moved(PodMove::Added));
            assert_eq!(counts.check(node).is_ok(), admitted_beside, "{selector} beside a nominated pod");
            counts.adjust(&pod, &moved(PodMove::Removed));
            assert_eq!(counts.check(node).is_ok(), admitted, "{selector} without it again");
        }
    }

    #[test]
    fn soft_constraints_with_an_empty_or_no_selector_score_all_domains_equally() {
        let (cache, snapshot) = cluster();
        let slots = ["a", "b"].map(|name| snapshot.slot(name).unwrap());
        let candidates = Candidates::new(&snapshot, cache.inventory(), &slots);
        let cases = [
            (json!({ "matchLabels": { "app": "x" } }), [0, 100]),
            (json!({ "matchLabels": { "app": "y" } }), [100, 100]),
            (json!({}), [100, 100]),
            (Value::Null, [100, 100]),
        ];
        for (selector, expected) in cases {
            let pod = spread("ScheduleAnyway", &selector);
            let scores = PodTopologySpread::default().scores(&pod, &candidates);
            assert_eq!(scores, Some(expected.to_vec()), "{selector}");
        }
    }
}
