//! Tests of the tallies: kept counts equal counting again, whatever happened before.

use super::*;
use crate::cache::Cache;
use crate::node::ZONE;
use crate::pod::Uid;
use crate::snapshot::Snapshot;
use crate::testing::{at, decode_node, pod, with};
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

const APPS: [&str; 3] = ["a", "b", "c"];
const SPACES: [&str; 2] = ["ns", "other"];

/// A step in the life of a cluster. Numbers select nodes, pods, labels and namespaces.
#[derive(Clone, Debug)]
enum Op {
    Node { node: usize, zone: usize },
    NodeGone { node: usize },
    Pod { pod: usize, node: usize, app: usize, deleting: bool, started: bool, assumed: bool },
    PodGone { pod: usize, forget: bool },
    Keep { app: usize, space: usize },
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0usize..4, 0usize..4).prop_map(|(node, zone)| Op::Node { node, zone }),
        1 => (0usize..4).prop_map(|node| Op::NodeGone { node }),
        4 => (0usize..8, 0usize..5, 0usize..3, any::<[bool; 3]>()).prop_map(
            |(pod, node, app, [deleting, started, assumed])| {
                Op::Pod { pod, node, app, deleting, started, assumed }
            }
        ),
        2 => (0usize..8, any::<bool>()).prop_map(|(pod, forget)| Op::PodGone { pod, forget }),
        1 => (0usize..4, 0usize..2).prop_map(|(app, space)| Op::Keep { app, space }),
    ]
}

/// The selector of the pods with a label; that of number 3 is empty.
fn selector(app: usize) -> LabelSelector {
    let labels = APPS.get(app).map(|app| ("app".to_owned(), (*app).to_owned()));
    LabelSelector { match_labels: labels.into_iter().collect(), ..LabelSelector::default() }
}

/// A pod; its number decides its namespace.
fn app_pod(number: usize, app: usize, deleting: bool) -> Arc<PodInfo> {
    with(&pod(&format!("p{number}"), json!({})), |pod| {
        pod.key = kstore_informer::Key::new(SPACES[number % 2], &format!("p{number}"));
        pod.labels.insert("app".into(), APPS[app].into());
        pod.deleting = deleting;
    })
}

fn apply(cache: &mut Cache, op: &Op) {
    match *op {
        Op::Node { node, zone } => {
            let mut labels = json!({});
            if zone > 0 {
                labels[ZONE] = format!("z{zone}").into();
            }
            cache.set_node(decode_node(
                &json!({ "metadata": { "name": format!("n{node}"), "labels": labels } }),
            ));
        }
        Op::NodeGone { node } => drop(cache.remove_node(&format!("n{node}"))),
        Op::Pod { pod, node, app, deleting, started, assumed } => {
            let (pod, node) = (app_pod(pod, app, deleting), format!("n{node}").into());
            let pod = with(&pod, |pod| pod.started = started.then(|| at(0)));
            if !assumed {
                cache.set_pod(pod, &node);
            } else if !cache.holds(&pod.uid) {
                cache.assume(pod, &node);
            }
        }
        Op::PodGone { pod, forget } => {
            let uid = Uid::from(format!("p{pod}"));
            if forget {
                cache.forget(&uid)
            } else {
                cache.remove_pod(&uid)
            };
        }
        Op::Keep { app, space } => cache.keep_tally(SPACES[space], &selector(app)),
    }
}

/// The counts by node and zone as the pods on the nodes of the snapshot say.
fn recount(snapshot: &Snapshot, namespace: &str, app: usize) -> Vec<(usize, Option<usize>, i64, i64)> {
    let on = |node: &NodeState| {
        let pods = node.pods().iter().filter(|pod| !pod.deleting && pod.key.namespace() == namespace);
        pods.filter(|pod| APPS.get(app).is_some_and(|app| pod.labels["app"] == *app)).count() as i64
    };
    let counts = snapshot.nodes().iter().map(|node| {
        let zone = node.location().zone;
        let neighbours = snapshot.nodes().iter().filter(|other| other.location().zone == zone);
        (node.location().index, zone, on(node), neighbours.map(on).sum())
    });
    counts.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn kept_counts_equal_a_recount_after_any_sequence_of_changes(
        ops in proptest::collection::vec(any_op(), 1..60)
    ) {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        for op in ops {
            apply(&mut cache, &op);
            snapshot.update(&cache);
            let mut fresh = Snapshot::default();
            fresh.update(&cache);
            // A node that moves to another zone keeps its place in the snapshot.
            let by_index = |snapshot: &Snapshot| {
                let mut nodes = snapshot.nodes().to_vec();
                nodes.sort_by_key(|node| node.location().index);
                nodes
            };
            prop_assert_eq!(by_index(&fresh), by_index(&snapshot));
            let tallies = &cache.inventory().tallies;
            for (namespace, selector, tally) in tallies.iter() {
                let app = (0..4).find(|app| self::selector(*app) == *selector).unwrap();
                prop_assert!(matches!(tallies.tally(snapshot.generation(), snapshot.nodes(), namespace, selector), Cow::Borrowed(_)));
                let expected = recount(&snapshot, namespace, app);
                for (index, zone, on, in_zone) in &expected {
                    prop_assert_eq!(tally.on(*index), *on);
                    prop_assert_eq!(tally.in_zone(zone.unwrap()), *in_zone);
                }
                let found = tally.occupied().filter(|(index, _)| snapshot.at_index(*index).is_some());
                prop_assert_eq!(found.map(|(_, n)| n).sum::<i64>(), expected.iter().map(|e| e.2).sum::<i64>());
            }
        }
    }
}

#[test]
fn of_too_many_selectors_the_least_recently_used_is_dropped() {
    let mut tallies = Tallies::default();
    let selector = |n: usize| LabelSelector {
        match_labels: [("n".to_owned(), n.to_string())].into(),
        ..LabelSelector::default()
    };
    for n in 0..TALLIES {
        tallies.keep("ns", &selector(n), std::iter::empty);
    }
    tallies.keep("ns", &selector(0), || -> std::iter::Empty<&NodeState> { panic!("it is known") });
    tallies.keep("other", &selector(0), std::iter::empty);
    let kept: Vec<_> = tallies.iter().map(|(namespace, selector, _)| (namespace, selector.clone())).collect();
    assert_eq!(kept.len(), TALLIES);
    assert!(kept.contains(&("ns", selector(0))) && kept.contains(&("other", selector(0))));
    assert!(!kept.contains(&("ns", selector(1))), "it was used least recently");
}

#[test]
fn counts_of_a_time_after_the_snapshot_are_not_used_for_it() {
    let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
    apply(&mut cache, &Op::Node { node: 0, zone: 1 });
    apply(&mut cache, &Op::Keep { app: 0, space: 0 });
    snapshot.update(&cache);
    apply(&mut cache, &Op::Pod { pod: 0, node: 0, app: 0, deleting: false, started: false, assumed: false });
    let on_node = |cache: &Cache, snapshot: &Snapshot| {
        cache.inventory().tallies.tally(snapshot.generation(), snapshot.nodes(), "ns", &selector(0)).on(0)
    };
    assert_eq!(on_node(&cache, &snapshot), 0);
    snapshot.update(&cache);
    assert_eq!(on_node(&cache, &snapshot), 1);
}
