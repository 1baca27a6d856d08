//! Tests of the queue's order and of the events that wake a pod.

use super::*;
use crate::devices::Devices;
use crate::plugins::Registry;
use crate::testing::{at, cpu_pod, node, on, pod, with};
use serde_json::json;

fn queue(pods: &[(&str, i32)]) -> Queue {
    let mut queue = Queue::default();
    for (name, priority) in pods {
        queue.add(with(&cpu_pod(name, "1"), |pod| pod.priority = *priority), at(0));
    }
    queue
}

fn pop(queue: &mut Queue, second: i64) -> String {
    queue.pop(at(second)).map_or("-".to_owned(), |queued| queued.pod.uid.to_string())
}

/// The set of the in-tree plugin of this name.
fn by(plugin: &str) -> PluginSet {
    PluginSet::from_iter(Registry::in_tree().id(plugin))
}

fn refuse(queue: &mut Queue, plugin: &str, second: i64) {
    let queued = queue.pop(at(second)).unwrap();
    queue.give_back_refused(queued, by(plugin), at(second));
}

fn freed(queue: &mut Queue, second: i64) -> usize {
    let gone = on(&cpu_pod("gone", "1"), "n1");
    queue.on_event(ClusterEvent::PodFreed(&gone), Revision(9), at(second))
}

#[test]
fn pods_are_ordered_by_priority_then_by_entry() {
    let mut queue = queue(&[("a", 0), ("b", 5), ("c", 0), ("d", 5)]);
    let order: Vec<String> = (0..5).map(|_| pop(&mut queue, 0)).collect();
    assert_eq!(order, ["b", "d", "a", "c", "-"]);
}

#[test]
fn a_status_update_keeps_the_position_in_the_queue() {
    let mut queue = queue(&[("a", 0), ("b", 0)]);
    queue.update(with(&cpu_pod("a", "1"), |pod| pod.revision = Revision(2)), at(1));
    assert_eq!(pop(&mut queue, 1), "a");
}

#[test]
fn a_refused_pod_waits_for_a_helpful_event() {
    let mut queue = queue(&[("a", 0)]);
    refuse(&mut queue, "TaintToleration", 0);
    assert_eq!(freed(&mut queue, 20), 0, "a freed node is still tainted");
    let tainted = node("n1", serde_json::json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] }));
    let clean = node("n1", serde_json::json!({}));
    let devices = Devices::default();
    let change = |old, new| ClusterEvent::NodeChanged { old, new, devices: &devices };
    assert_eq!(queue.on_event(change(&clean, &tainted), Revision(3), at(20)), 0);
    assert_eq!(queue.on_event(change(&tainted, &clean), Revision(4), at(20)), 1);
    let queued = queue.pop(at(20)).unwrap();
    assert_eq!((queued.attempts, queued.cause), (2, Revision(4)));
}

#[test]
fn every_filter_knows_the_events_that_may_help() {
    let bare = node("n1", serde_json::json!({}));
    let cordoned = node("n1", serde_json::json!({ "unschedulable": true }));
    let tainted = node("n1", serde_json::json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] }));
    let change = |node: &Arc<crate::node::NodeInfo>, f: fn(&mut crate::node::NodeInfo)| {
        let mut node = crate::node::NodeInfo::clone(node);
        f(&mut node);
        node
    };
    let labelled = change(&bare, |n| drop(n.labels.insert("disk".into(), "ssd".into())));
    let bigger = change(&bare, |n| n.allocatable.milli_cpu = 8000);
    let tiny = change(&bare, |n| n.allocatable.milli_cpu = 1);
    let wanting = pod(
        "p",
        serde_json::json!({
            "nodeSelector": { "disk": "ssd" },
            "containers": [{
                "resources": { "requests": { "cpu": "1" } }, "ports": [{ "hostPort": 80 }],
                "restartPolicyRules": [{ "action": "RestartAllContainers" }]
            }]
        }),
    );
    let declaring =
        change(&bare, |n| n.declared_features = vec!["RestartAllContainersOnContainerExits".into()]);
    let other = on(&cpu_pod("q", "1"), "n1");
    let relabeled = on(&pod("q", json!({ "metadata": { "labels": { "a": "b" } } })), "n1");
    use ClusterEvent::{NodeAdded, NodeChanged, PodFreed, PodRelabeled};
    let devices = Devices::default();
    let added = |node| NodeAdded(node, &devices);
    let changed = |old, new| NodeChanged { old, new, devices: &devices };
    let cases = [
        ("NodeUnschedulable", changed(&cordoned, &bare), true),
        ("NodeUnschedulable", changed(&bare, &cordoned), false),
        ("NodeUnschedulable", added(&cordoned), false),
        ("NodeUnschedulable", PodFreed(&other), false),
        ("NodeName", added(&bare), true),
        ("NodeName", PodFreed(&other), false),
        ("TaintToleration", added(&tainted), false),
        ("TaintToleration", changed(&tainted, &bare), true),
        ("NodeAffinity", added(&bare), false),
        ("NodeAffinity", changed(&bare, &labelled), true),
        ("NodeAffinity", changed(&labelled, &labelled), false),
        ("NodePorts", PodFreed(&other), false),
        ("NodePorts", PodFreed(&wanting), true),
        ("NodePorts", added(&bare), true),
        ("NodeResourcesFit", PodFreed(&other), true),
        ("NodeResourcesFit", PodRelabeled { old: &other, new: &relabeled }, false),
        ("PodTopologySpread", PodRelabeled { old: &other, new: &relabeled }, false),
        ("InterPodAffinity", PodRelabeled { old: &other, new: &relabeled }, false),
        ("NodeResourcesFit", added(&tiny), false),
        ("NodeResourcesFit", changed(&bare, &bigger), true),
        ("NodeResourcesFit", changed(&bare, &labelled), false),
        ("NodeDeclaredFeatures", added(&bare), false),
        ("NodeDeclaredFeatures", added(&declaring), true),
        ("NodeDeclaredFeatures", changed(&bare, &declaring), true),
        ("NodeDeclaredFeatures", changed(&declaring, &bare), false),
    ];
    let registry = Registry::in_tree();
    for (plugin, event, expected) in cases {
        assert_eq!(registry.may_help(by(plugin), &wanting, &event), expected, "{plugin} {:?}", event.kind());
    }
}

#[test]
fn back_off_of_a_woken_pod_is_skipped_without_other_ready_pods() {
    let mut queue = queue(&[("a", 9)]);
    refuse(&mut queue, "NodeResourcesFit", 0);
    queue.add(cpu_pod("b", "1"), at(0));
    assert_eq!(freed(&mut queue, 0), 1);
    assert_eq!(queue.depths(), QueueDepths { active: 1, backoff: 1, ..QueueDepths::default() });
    assert_eq!([pop(&mut queue, 0), pop(&mut queue, 0), pop(&mut queue, 0)], ["b", "a", "-"]);
}

#[test]
fn priority_decides_among_pods_after_back_off() {
    let mut queue = queue(&[("a", 9)]);
    refuse(&mut queue, "NodeResourcesFit", 0);
    queue.add(cpu_pod("b", "1"), at(0));
    freed(&mut queue, 0);
    assert_eq!([pop(&mut queue, 1), pop(&mut queue, 1)], ["a", "b"]);
}

#[test]
fn error_back_off_applies_even_without_other_ready_pods() {
    let mut queue = queue(&[("a", 0)]);
    for (second, wait) in [(0, 1), (1, 2), (3, 4), (7, 8), (15, 10), (25, 10)] {
        let queued = queue.pop(at(second)).unwrap();
        queue.give_back_failed(queued, at(second));
        assert_eq!(queue.deadline(), Some(at(second + wait)));
        assert!(!queue.is_ready(at(second + wait - 1)) && queue.is_ready(at(second + wait)));
        assert_eq!(freed(&mut queue, second), 0, "no event ends it");
    }
}

#[test]
fn a_pod_update_wakes_the_pod_if_it_may_help() {
    type Change = fn(&mut PodInfo);
    let changes: [(&str, Change, bool); 4] = [
        ("TaintToleration", |pod| pod.tolerations.push(crate::taint::Toleration::default()), true),
        ("NodeResourcesFit", |pod| pod.requests.milli_cpu = 500, true),
        ("NodeResourcesFit", |pod| pod.requests.milli_cpu = 1500, false),
        ("NodeResourcesFit", |pod| pod.scheduled = None, false),
    ];
    for (plugin, change, woken) in changes {
        let mut queue = queue(&[("a", 0)]);
        refuse(&mut queue, plugin, 0);
        queue.update(with(&cpu_pod("a", "1"), change), at(20));
        assert_eq!(queue.depths().active == 1, woken, "{plugin}");
    }
}

#[test]
fn a_removed_pod_is_in_no_queue() {
    let mut queue = queue(&[("a", 0), ("b", 0)]);
    queue.remove(&"a".into());
    refuse(&mut queue, "NodeResourcesFit", 0);
    queue.remove(&"b".into());
    assert_eq!(
        (queue.depths(), queue.deadline(), pop(&mut queue, 999)),
        (QueueDepths::default(), None, "-".to_owned())
    );
}

#[test]
fn pods_that_were_never_tried_count_as_gated() {
    let mut queue = Queue::default();
    let by = by("DynamicResources");
    for name in ["a", "b"] {
        queue.add_waiting(cpu_pod(name, "1"), by, at(0));
    }
    assert_eq!(queue.depths(), QueueDepths { gated: 2, ..QueueDepths::default() });
    queue.update(cpu_pod("a", "1"), at(1));
    assert_eq!(queue.depths().gated, 2, "a change that does not help");
    queue.remove(&cpu_pod("b", "1").uid);
    queue.add(cpu_pod("c", "1"), at(2));
    let tried = queue.pop(at(2)).unwrap();
    queue.give_back_refused(tried, by, at(2));
    assert_eq!(queue.depths(), QueueDepths { gated: 1, unschedulable: 1, ..QueueDepths::default() });
}

#[test]
fn a_back_off_ends_early_only_if_the_gate_is_on() {
    for ends_early in [true, false] {
        let mut queue = Queue::new(Profiles::default(), PodBackoff { ends_early, ..PodBackoff::default() });
        queue.add(cpu_pod("a", "1"), at(0));
        refuse(&mut queue, "NodeResourcesFit", 0);
        assert_eq!(freed(&mut queue, 0), 1);
        assert_eq!(queue.is_ready(at(0)), ends_early);
        assert_eq!(queue.deadline(), (!ends_early).then(|| at(1)));
        assert_eq!(pop(&mut queue, 0), if ends_early { "a" } else { "-" });
        if !ends_early {
            assert_eq!(pop(&mut queue, 1), "a");
        }
    }
}

#[test]
fn waiting_pods_count_for_the_plugins_that_refused_them() {
    let mut queue = queue(&[("a", 0), ("b", 0)]);
    let counts = |queue: &Queue| queue.refused().of_profile(0).map(|(_, count)| count).collect::<Vec<_>>();
    assert!(counts(&queue).is_empty());
    refuse(&mut queue, "NodeResourcesFit", 0);
    let queued = queue.pop(at(0)).unwrap();
    queue.give_back_refused(queued, by("NodeResourcesFit").union(PluginSet::EXTENDERS), at(0));
    assert_eq!(counts(&queue), [2, 1], "the plugin, and the extenders");
    freed(&mut queue, 0);
    assert_eq!(counts(&queue), [2, 1], "pods in back-off count, too");
    queue.remove(&"b".into());
    assert_eq!(counts(&queue), [1, 0]);
    let queued = queue.pop(at(5)).unwrap();
    assert_eq!(counts(&queue), [0, 0], "and pods on which is being decided do not");
    queue.give_back_failed(queued, at(5));
    assert_eq!(counts(&queue), [0, 0]);
}

/// Pods of a few shapes, so that some are alike and others differ in what one plugin reads.
fn shaped(name: &str, shape: u8) -> Arc<PodInfo> {
    let spec = match shape {
        0 => json!({}),
        1 => json!({ "tolerations": [{ "key": "k", "operator": "Exists" }] }),
        2 => json!({ "nodeSelector": { "disk": "ssd" } }),
        3 => {
            json!({ "containers": [{ "resources": { "requests": { "cpu": "1" } }, "ports": [{ "hostPort": 80 }] }] })
        }
        4 => json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }] } } } }),
        5 => json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": name } }] }),
        _ => json!({ "metadata": { "labels": { "app": name } } }),
    };
    pod(name, spec)
}

proptest::proptest! {
    /// Property S7: the index wakes exactly the pods that asking each one would.
    #[test]
    fn the_index_wakes_the_pods_that_asking_all_would(
        pods in proptest::collection::vec((0u8..7, 0usize..30, 0usize..30, proptest::prelude::any::<bool>()), 1..60),
        events in proptest::collection::vec(0usize..8, 1..6),
    ) {
        let registry = Registry::in_tree();
        let names: Vec<&str> = registry.rows().map(|row| row.name).chain(["Extender"]).collect();
        let of = |index: usize| match names[index % names.len()] {
            "Extender" => PluginSet::EXTENDERS,
            name => by(name),
        };
        let bare = node("n1", json!({}));
        let tainted = node("n1", json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] }));
        let freed = on(&shaped("freed", 3), "n1");
        let placed = on(&cpu_pod("placed", "1"), "n1");
        let (devices, storage) = (Devices::default(), crate::storage::Storage::default());
        let claim = crate::storage::StorageEvent::Claim(kstore_informer::Key::new("ns", "p3"));
        let all = [
            ClusterEvent::NodeAdded(&bare, &devices),
            ClusterEvent::NodeAdded(&tainted, &devices),
            ClusterEvent::NodeChanged { old: &tainted, new: &bare, devices: &devices },
            ClusterEvent::NodeRemoved(&bare),
            ClusterEvent::PodFreed(&freed),
            ClusterEvent::PodPlaced(&placed),
            ClusterEvent::PodTerminating(&placed),
            ClusterEvent::Storage(&claim, &storage),
        ];
        let mut queue = Queue::default();
        let mut model: Vec<(Uid, PluginSet, bool)> = Vec::new();
        for (index, (shape, one, two, is_held)) in pods.iter().enumerate() {
            let refused_by = of(*one).union(of(*two));
            queue.add(shaped(&format!("p{index}"), *shape), at(0));
            let queued = queue.pop(at(0)).unwrap();
            model.push((queued.pod.uid.clone(), refused_by, *is_held));
            match is_held {
                true => queue.give_back_held(queued, refused_by, at(0)),
                false => queue.give_back_refused(queued, refused_by, at(0)),
            }
        }
        for event in events {
            let event = all[event];
            let is_helped = |queue: &Queue, uid: &Uid, by: PluginSet| {
                queue.waiting(uid).is_some_and(|pod| registry.may_help(by, pod, &event))
            };
            let (woken, held): (Vec<_>, Vec<_>) =
                model.iter().filter(|(uid, by, _)| is_helped(&queue, uid, *by)).cloned().partition(|one| !one.2);
            proptest::prop_assert_eq!(queue.on_event(event, Revision(7), at(60)), woken.len());
            for (uid, ..) in &woken {
                proptest::prop_assert!(matches!(queue.pods[uid].0, QueuePosition::Active(_)));
            }
            for (uid, ..) in &held {
                proptest::prop_assert_eq!(queue.suspended[uid], Some(Revision(7)));
            }
            model.retain(|(uid, ..)| !woken.iter().any(|(other, ..)| other == uid));
        }
        // What wakes is gone from the index, and nothing else is.
        let indexed: usize = queue.hints.of(|_, _| true).map(|pods| pods.unschedulable.len() + pods.held.len()).sum();
        proptest::prop_assert_eq!(indexed, model.len());
    }
}

#[test]
fn an_event_asks_one_of_many_parked_pods_that_are_alike_and_none_that_it_cannot_help() {
    const PODS: usize = 100_000;
    let mut queue = Queue::default();
    for index in 0..PODS {
        queue.add_waiting(cpu_pod(&format!("p{index}"), "1"), by("NodeResourcesFit"), at(0));
    }
    let tiny = node("n1", json!({}));
    let tiny = {
        let mut node = crate::node::NodeInfo::clone(&tiny);
        node.allocatable.milli_cpu = 1;
        node
    };
    let devices = Devices::default();
    queue.asked.set(0);
    assert_eq!(queue.on_event(ClusterEvent::NodeAdded(&tiny, &devices), Revision(3), at(0)), 0);
    assert_eq!(queue.asked.get(), 1, "the node is too small for all of them");
    let placed = on(&cpu_pod("placed", "1"), "n1");
    assert_eq!(queue.on_event(ClusterEvent::PodPlaced(&placed), Revision(4), at(0)), 0);
    assert_eq!(queue.asked.get(), 1, "NodeResourcesFit hears nothing of placed pods");
}
