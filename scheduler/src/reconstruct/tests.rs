//! Tests of reconstructed decisions and of the table of all nodes against `decide`, which has its own reference.

use super::*;
use crate::decide::tests::{decided, world_of};
use crate::reference::ReferenceCluster;
use crate::testing::{any_pod, cpu_pod, node, on, with};
use crate::verdict::Lack;
use proptest::prelude::{ProptestConfig, proptest};
use serde_json::json;

fn reconstruction(cluster: &ReferenceCluster) -> Reconstruction {
    let mut found = Reconstruction::default();
    cluster.nodes.iter().for_each(|node| found.set_node(Arc::clone(node)));
    cluster.placed.iter().for_each(|(pod, node)| found.add_pod(on(pod, node)));
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_table_agrees_with_the_decision_about_every_node(
        cluster in world_of(0usize..7), pod in any_pod("p".to_owned()),
    ) {
        let mut state = reconstruction(&cluster);
        let registry = Registry::in_tree();
        let table = state.table(&registry, &pod);
        let terms = Terms { start: 0, tie: Tie::Number(0), percentage: 100 };
        match decided(&state.snapshot, state.cache.inventory(), &pod, terms).outcome {
            Outcome::Fits(choice) => {
                let fitting: Vec<_> = table.nodes.iter().filter(|node| node.refusals.is_empty()).collect();
                assert_eq!(fitting.len(), choice.feasible);
                let best = fitting.iter().filter(|node| node.total == fitting[0].total).count();
                if choice.feasible > 1 {
                    assert_eq!((fitting[0].total, best), (Some(choice.total), choice.best));
                    let own = fitting.iter().find(|node| node.node == choice.node).unwrap();
                    let names = table.scorers.iter().map(|(name, _)| *name);
                    assert_eq!(names.zip(own.scores.iter().copied()).collect::<Vec<_>>(), choice.scores);
                }
            }
            Outcome::Unfit(refusal) => {
                assert_eq!(table.contradiction.is_some(), refusal.contradiction.is_some());
                assert!(table.nodes.iter().all(|node| !node.refusals.is_empty()));
                for (slot, rejection) in &refusal.rejections {
                    let name = &state.snapshot.nodes()[*slot].info().name;
                    let own = table.nodes.iter().find(|node| node.node == *name).unwrap();
                    assert_eq!(own.refusals[0].plugin, rejection.name(), "{name}");
                }
            }
            Outcome::Failed(why) => panic!("{why}"),
        }
    }
}

#[test]
fn what_a_node_lacks_is_said_in_amounts() {
    let mut state = Reconstruction::default();
    let tainted = json!({ "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] });
    state.set_node(node("a", json!({})));
    state.set_node(node("b", tainted));
    state.add_pod(on(&cpu_pod("big", "3"), "a"));
    let table = state.table(&Registry::in_tree(), &cpu_pod("p", "2"));
    let lacks: Vec<_> = table.nodes.iter().map(|node| (&*node.node, &node.refusals[0].lacks[..])).collect();
    let cpu = Lack::Resource { name: "cpu".into(), requested: 2000, free: 1000, allocatable: 4000 };
    let effect = crate::taint::Effect::NoSchedule;
    let toleration = Lack::Toleration { key: "k".into(), value: "v".into(), effect };
    assert_eq!(lacks, [("a", &[cpu][..]), ("b", &[toleration][..])], "the resolvable refusal is nearer");
}

#[test]
fn a_refusal_has_the_message_of_the_condition_and_the_evictions() {
    let mut state = Reconstruction::default();
    state.set_node(node("a", json!({})));
    state.add_pod(on(&cpu_pod("low", "3"), "a"));
    let pod = cpu_pod("p", "2");
    let ComputedResult::Refused(refused) = state.decide(&Registry::in_tree(), &pod) else { panic!() };
    let expected = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!((refused.message.as_str(), refused.evictions), (expected, None));
    let important = with(&pod, |pod| pod.priority = 1);
    let ComputedResult::Refused(refused) = state.decide(&Registry::in_tree(), &important) else { panic!() };
    let evictions = refused.evictions.unwrap();
    assert_eq!((&*evictions.node, evictions.victims.len()), ("a", 1));
}

#[test]
fn objects_in_json_make_the_same_state() {
    let mut state = Reconstruction::default();
    let add = |state: &mut Reconstruction, kind, value: serde_json::Value| {
        state.add(kind, value.to_string().as_bytes()).unwrap();
    };
    let size = json!({ "cpu": "4", "memory": "32Gi", "pods": "2" });
    add(
        &mut state,
        DecisionKind::Node,
        json!({ "metadata": { "name": "a" }, "status": { "allocatable": size } }),
    );
    let pod = |name: &str, phase: &str| {
        json!({ "metadata": { "name": name, "namespace": "ns", "uid": name },
            "spec": { "nodeName": "a", "schedulerName": "x", "containers": [] }, "status": { "phase": phase } })
    };
    add(&mut state, DecisionKind::Pod, pod("one", "Running"));
    add(&mut state, DecisionKind::Pod, pod("done", "Succeeded"));
    let registry = Registry::in_tree();
    assert!(matches!(state.decide(&registry, &cpu_pod("p", "1")), ComputedResult::Fits(_)));
    add(&mut state, DecisionKind::Pod, pod("two", "Running"));
    assert!(matches!(state.decide(&registry, &cpu_pod("p", "1")), ComputedResult::Refused(_)));
    assert!(state.remove_pod(&"two".into()).is_some());
    assert!(matches!(state.decide(&registry, &cpu_pod("p", "1")), ComputedResult::Fits(_)));
    assert!(state.add(DecisionKind::Node, b"[]").is_err());
}
