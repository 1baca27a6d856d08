//! Tests of `decide` against examples and a plain reference.

use super::*;
use crate::cache::Cache;
use crate::explain;
use crate::inventory::Inventory;
use crate::reference::{ReferenceCluster, ReferenceDecision};
use crate::snapshot::Snapshot;
use crate::testing::{any_node, any_pod, cpu_pod, node, on, pod};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use serde_json::json;

fn snapshot(cluster: &ReferenceCluster) -> Snapshot {
    caches(cluster).1
}

/// The decision of the in-tree plugins.
pub(crate) fn decided(snapshot: &Snapshot, inventory: &Inventory, pod: &PodInfo, terms: Terms) -> Decision {
    decide(&Registry::in_tree(), ClusterView { snapshot, inventory }, pod, terms, &mut ())
}

pub(crate) fn caches(cluster: &ReferenceCluster) -> (Cache, Snapshot) {
    let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
    cluster.nodes.iter().for_each(|node| assert!(cache.set_node(Arc::clone(node)).is_none()));
    cluster.placed.iter().for_each(|(pod, node)| assert!(cache.set_pod(Arc::clone(pod), node).is_none()));
    snapshot.update(&cache);
    (cache, snapshot)
}

/// The outcome of the fast decision as a decision of the reference.
pub(crate) fn reference_decision(outcome: &Outcome) -> ReferenceDecision {
    match outcome {
        Outcome::Fits(choice) => ReferenceDecision::Node {
            name: Arc::clone(&choice.node),
            total: choice.total,
            best: choice.best,
            feasible: choice.feasible,
        },
        Outcome::Unfit(refusal) => {
            ReferenceDecision::Nowhere { message: explain::message(refusal, None, None) }
        }
        Outcome::Failed(why) => panic!("{why}"),
    }
}

pub(crate) fn any_tie() -> impl Strategy<Value = Tie> {
    any::<Option<u64>>().prop_map(|number| number.map_or(Tie::HeapRoot, Tie::Number))
}

pub(crate) fn world_of(count: impl Strategy<Value = usize>) -> impl Strategy<Value = ReferenceCluster> {
    count.prop_flat_map(|count| {
        let nodes: Vec<_> = (0..count).map(|n| any_node(format!("n{n}"))).collect();
        let placed = proptest::collection::vec((any_pod(String::new()), 0..count.max(1) + 1), 0..count + 1);
        (nodes, placed).prop_map(|(nodes, placed)| {
            let mut cluster = ReferenceCluster::default();
            nodes.into_iter().for_each(|node| cluster.set_node(node));
            cluster.placed.extend(placed.into_iter().enumerate().map(|(i, (pod, n))| {
                let pod = crate::testing::with(&pod, |pod| pod.uid = format!("placed-{i}").into());
                (pod, format!("n{n}").into())
            }));
            cluster
        })
    })
}

fn agree(cluster: &ReferenceCluster, pod: &PodInfo, terms: Terms) {
    let (cache, snapshot) = caches(cluster);
    let decision = decided(&snapshot, cache.inventory(), pod, terms);
    let (expected, next_start) = cluster.decide(pod, terms);
    assert_eq!(reference_decision(&decision.outcome), expected);
    assert_eq!(decision.next_start, next_start);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_decision_equals_the_reference(
        cluster in world_of(0usize..7), pod in any_pod("p".to_owned()), start in 0usize..10, tie in any_tie(),
    ) {
        agree(&cluster, &pod, Terms { start, tie, percentage: 0 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn the_decision_equals_the_reference_with_sampled_nodes(
        cluster in world_of(280usize..300), pod in any_pod("p".to_owned()), start in 0usize..400, tie in any_tie(),
        percentage in proptest::sample::select(&[0usize, 40, 100][..]),
    ) {
        agree(&cluster, &pod, Terms { start, tie, percentage });
    }
}

fn terms(start: usize, tie: u64) -> Terms {
    Terms { start, tie: Tie::Number(tie), percentage: 0 }
}

#[test]
fn the_tie_selects_among_all_best_nodes() {
    let mut cluster = ReferenceCluster::default();
    (0..3).for_each(|n| cluster.set_node(node(&format!("n{n}"), json!({}))));
    let winners: Vec<String> = (0..4)
        .map(|tie| {
            match decided(&snapshot(&cluster), &Inventory::default(), &cpu_pod("p", "1"), terms(1, tie))
                .outcome
            {
                Outcome::Fits(choice) => choice.node.to_string(),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(winners, ["n1", "n2", "n0", "n1"], "in the order of search, which starts at n1");
}

#[test]
fn a_choice_reports_its_scores_and_counts() {
    let mut cluster = ReferenceCluster::default();
    cluster.set_node(node("full", json!({})));
    cluster.set_node(node("free", json!({})));
    cluster.set_node(node("cordoned", json!({ "unschedulable": true })));
    cluster.placed.push((on(&cpu_pod("old", "2"), "full"), "full".into()));
    let decision = decided(&snapshot(&cluster), &Inventory::default(), &cpu_pod("p", "1"), terms(0, 0));
    let Outcome::Fits(choice) = decision.outcome else { panic!("it fits") };
    assert_eq!((&*choice.node, choice.evaluated, choice.feasible, choice.best), ("free", 3, 2, 1));
    // Free: cpu (4000-1000)/4000 = 75 %, memory nearly all of it: (75 + 99) / 2 = 87. Balance: 100 → 87.
    let expected = [
        ("TaintToleration", 100),
        ("NodeResourcesFit", 87),
        ("NodeResourcesBalancedAllocation", 50 + (50 + 87 - 100) / 2),
    ];
    assert_eq!(choice.scores, expected);
    assert_eq!(choice.total, 300 + 87 + 68);
}

#[test]
fn the_message_lists_counted_reasons_sorted_by_text() {
    let mut cluster = ReferenceCluster::default();
    let taint = json!({ "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] });
    cluster.set_node(node("tainted", taint));
    cluster.set_node(node("small-1", json!({})));
    cluster.set_node(node("small-2", json!({})));
    cluster.set_node(node("cordoned", json!({ "unschedulable": true })));
    let message =
        |pod: &PodInfo| match decided(&snapshot(&cluster), &Inventory::default(), pod, terms(0, 0)).outcome {
            Outcome::Unfit(refusal) => (explain::message(&refusal, None, None), refusal.plugins),
            other => panic!("{other:?}"),
        };
    let (text, plugins) = message(&cpu_pod("big", "100"));
    assert_eq!(
        text,
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu."
    );
    let registry = Registry::in_tree();
    let refused: Vec<&str> = plugins.iter().map(|id| registry.row(id).name).collect();
    assert_eq!(refused, ["NodeUnschedulable", "TaintToleration", "NodeResourcesFit"]);

    let pinned = |names: serde_json::Value| {
        let field = json!({ "key": "metadata.name", "operator": "In", "values": names });
        let terms = json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
        let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
        pod("pinned", json!({ "affinity": affinity }))
    };
    assert_eq!(
        message(&pinned(json!(["cordoned", "absent"]))).0,
        "0/4 nodes are available: 1 node(s) were unschedulable, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    );
    assert_eq!(message(&pinned(json!([]))).0, "0/4 nodes are available: pod affinity terms conflict.");
}

#[test]
fn a_pod_that_names_its_node_runs_there_or_not_at_all() {
    let mut cluster = ReferenceCluster::default();
    ["n1", "n2"].iter().for_each(|name| cluster.set_node(node(name, json!({}))));
    for name in ["n1", "absent"] {
        agree(&cluster, &on(&cpu_pod("p", "1"), name), terms(0, 0));
    }
}

#[test]
fn the_start_of_the_search_moves_by_the_counted_nodes_and_a_refused_nominated_node_counts_once() {
    let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
    for n in 0..200 {
        let unschedulable = n == 150;
        cache.set_node(node(&format!("n{n:03}"), json!({ "unschedulable": unschedulable })));
    }
    snapshot.update(&cache);
    let mut next_start = |nominated: &str, start| {
        let pod = crate::testing::with(&cpu_pod("p", "1"), |pod| pod.nominated_node = Some(nominated.into()));
        cache.nominations_mut().observe(&pod);
        decided(&snapshot, cache.inventory(), &pod, terms(start, 0)).next_start
    };
    assert_eq!(next_start("n007", 5), 5, "nothing was searched");
    assert_eq!(
        next_start("n150", 5),
        5 + 100 + 1,
        "a hundred are enough, and none of them is the nominated one"
    );
    assert_eq!(next_start("n150", 100), 1, "it is one of those that the search visits");
    assert_eq!(next_start("absent", 5), 105);
}

#[test]
fn an_empty_cluster_has_its_own_message() {
    let decision = decided(
        &snapshot(&ReferenceCluster::default()),
        &Inventory::default(),
        &cpu_pod("p", "1"),
        terms(5, 0),
    );
    let expected = ReferenceDecision::Nowhere { message: "no nodes available to schedule pods".to_owned() };
    assert_eq!((reference_decision(&decision.outcome), decision.next_start), (expected, 0));
}

#[test]
fn a_node_is_schedulable_again_after_pods_with_the_largest_requests_are_removed() {
    let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
    cache.set_node(node("n", json!({})));
    let huge: Vec<_> =
        ["a", "b", "c"].iter().map(|name| on(&cpu_pod(name, "9223372036854775807"), "n")).collect();
    huge.iter().for_each(|pod| assert!(cache.set_pod(Arc::clone(pod), &Arc::from("n")).is_none()));
    let mut outcome = |cache: &Cache| {
        snapshot.update(cache);
        decided(
            &snapshot,
            &Inventory::default(),
            &cpu_pod("p", "4"),
            Terms { start: 0, tie: Tie::Number(0), percentage: 0 },
        )
        .outcome
    };
    assert!(matches!(outcome(&cache), Outcome::Unfit(_)));
    huge.iter().for_each(|pod| assert!(cache.remove_pod(&pod.uid).is_some()));
    assert!(matches!(outcome(&cache), Outcome::Fits(_)));
    let another = decided(
        &snapshot,
        &Inventory::default(),
        &cpu_pod("p", "4001m"),
        Terms { start: 0, tie: Tie::Number(0), percentage: 0 },
    )
    .outcome;
    assert!(matches!(another, Outcome::Unfit(_)), "and offers no more than it has");
}
