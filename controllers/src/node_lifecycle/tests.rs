//! Tests of node failures and recoveries in simulated time, and of zones and their rates.

use super::plan::{Health, Observed, plan};
use super::zone::{Limiter, Zones};
use crate::action::{Action, Plan};
use crate::config::NodeMonitorConfig;
use crate::view::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, from_value, json};
use std::sync::Arc;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn at(seconds: i64) -> Timestamp {
    START.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn node(name: &str, ready: &str) -> Node {
    from_value(json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "status": {"conditions": [
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": START},
            {"type": "Ready", "status": ready, "lastHeartbeatTime": START},
        ]},
    }))
    .unwrap()
}

fn pod() -> Arc<Pod> {
    Arc::new(from_value(json!({"metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})).unwrap())
}

fn zones<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Zones {
    let mut zones = Zones::default();
    for node in nodes {
        zones.observe(node.metadata.name.as_deref().unwrap(), Some(node));
    }
    zones
}

/// One node among others, and the controller's memory.
struct SimulatedCluster {
    node: Node,
    others: Vec<Node>,
    pods: Vec<Arc<Pod>>,
    health: Option<Health>,
    renewed: Option<Timestamp>,
    limiter: Limiter,
}

impl SimulatedCluster {
    fn new() -> Self {
        let others = vec![node("b", "True"), node("c", "True")];
        Self {
            node: node("a", "True"),
            others,
            pods: vec![pod()],
            health: None,
            renewed: Some(START),
            limiter: Limiter::default(),
        }
    }

    fn run(&mut self, seconds: i64) -> Plan {
        let now = at(seconds);
        let mut health = Health::observe(self.health.take(), &self.node, self.renewed, now);
        let zones = zones(self.others.iter().chain([&self.node]));
        let seen = Observed { node: &self.node, health: &health, pods: &self.pods, zones: &zones };
        let plan = plan(seen, NodeMonitorConfig::default(), &mut self.limiter, now);
        health.acted_on(&self.node);
        self.health = Some(health);
        for action in plan.all_actions() {
            self.take(&action);
        }
        plan
    }

    fn take(&mut self, action: &Action) {
        let Action::Patch { target, patch, .. } = action else { return };
        if target.name != "a" {
            self.pods.clear();
            return;
        }
        let mut value = serde_json::to_value(&self.node).unwrap();
        for part in ["spec", "status"] {
            for (key, new) in patch[part].as_object().into_iter().flatten() {
                value[part][key] = new.clone();
            }
        }
        self.node = from_value(value).unwrap();
    }

    fn ready(&self) -> &str {
        let conditions = self.node.status.as_ref().unwrap().conditions.as_ref().unwrap();
        &conditions.iter().find(|c| c.type_ == "Ready").unwrap().status
    }

    fn taints(&self) -> Vec<String> {
        let taints = self.node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
        taints.iter().map(|t| format!("{}:{}", t.key.rsplit('/').next().unwrap(), t.effect)).collect()
    }

    fn set_ready(&mut self, status: &str, heartbeat: i64) {
        for c in self.node.status.as_mut().unwrap().conditions.as_mut().unwrap() {
            c.status = if c.type_ == "Ready" { status.into() } else { "False".into() };
            c.last_heartbeat_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(heartbeat)));
        }
    }
}

#[test]
fn a_crashed_node_becomes_unknown_then_tainted_until_it_returns() {
    let mut w = SimulatedCluster::new();
    let plan = w.run(0);
    assert_eq!((plan.actions.len(), plan.wake.unwrap().as_secs()), (0, 50));
    w.renewed = Some(at(10));
    assert_eq!(w.run(12).wake.unwrap().as_secs(), 50, "a renewed lease is a sign of life");
    assert_eq!(w.run(61).actions, []);
    let lost = w.run(62);
    assert_eq!(w.ready(), "Unknown");
    assert!(lost.actions.iter().any(|a| matches!(a, Action::Event(n) if n.reason == "NodeNotReady")));
    assert_eq!(w.taints(), [""; 0], "first the conditions are seen");
    w.run(62);
    assert_eq!(w.taints(), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    assert!(w.pods.is_empty(), "its pods are marked not ready");
    assert_eq!(w.run(63).actions, []);
    w.set_ready("True", 70);
    w.run(70);
    assert_eq!(w.taints(), [""; 0]);
}

#[test]
fn a_flap_shorter_than_the_grace_changes_nothing() {
    let mut w = SimulatedCluster::new();
    for round in 0..10 {
        w.renewed = Some(at(round * 49));
        assert_eq!(w.run(round * 49).actions, []);
    }
}

#[test]
fn a_not_ready_node_that_falls_silent_swaps_taints_and_keeps_their_time() {
    let mut w = SimulatedCluster::new();
    w.run(0);
    w.set_ready("False", 5);
    w.run(5);
    assert_eq!(w.taints(), ["not-ready:NoSchedule", "not-ready:NoExecute"]);
    w.run(55);
    w.run(55);
    assert_eq!(w.taints(), ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    let taints = w.node.spec.as_ref().unwrap().taints.as_ref().unwrap();
    let added = taints.iter().find(|t| t.effect == "NoExecute").unwrap().time_added.as_ref().unwrap();
    assert_eq!(added.0, at(5), "the time pods were given keeps running");
}

#[test]
fn no_pods_are_evicted_when_all_nodes_are_down() {
    let mut w = SimulatedCluster::new();
    w.others.clear();
    w.run(0);
    w.run(51);
    w.run(51);
    assert_eq!((w.ready(), w.taints()), ("Unknown", vec!["unreachable:NoSchedule".to_owned()]));
    w.others = vec![node("b", "True")];
    w.run(56);
    assert_eq!(w.taints().len(), 2);
    w.others.clear();
    w.run(57);
    assert_eq!(w.taints(), ["unreachable:NoSchedule"]);
}

#[test]
fn conditions_and_cordons_become_taints_and_foreign_taints_stay() {
    let mut w = SimulatedCluster::new();
    let taints = json!([{"key": "mine", "effect": "NoExecute"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    w.node.spec = Some(from_value(json!({"unschedulable": true, "taints": taints})).unwrap());
    w.node.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].status = "True".into();
    w.run(0);
    assert_eq!(w.taints(), ["mine:NoExecute", "memory-pressure:NoSchedule", "unschedulable:NoSchedule"]);
}

#[test]
fn a_node_that_never_reported_has_a_longer_grace() {
    let mut w = SimulatedCluster::new();
    w.node.status = None;
    assert_eq!(w.run(0).actions, []);
    assert_eq!(w.run(59).actions, []);
    let lost = w.run(60);
    let Some(Action::Patch { patch, .. }) = lost.actions.first() else { panic!("{lost:?}") };
    let reasons: Vec<&Value> =
        patch["status"]["conditions"].as_array().unwrap().iter().map(|c| &c["reason"]).collect();
    assert_eq!(reasons, ["NodeStatusNeverUpdated"; 4]);
}

#[test]
fn nodes_of_a_zone_are_evicted_at_its_rate() {
    let zone = |ready: usize, down: usize| {
        let status = |i| if i < ready { "True" } else { "Unknown" };
        let nodes: Vec<Node> = (0..ready + down).map(|i| node(&format!("n{i}"), status(i))).collect();
        zones(&nodes)
    };
    let any = node("n", "Unknown");
    let table = [(3, 1, 0.1), (1, 2, 0.1), (2, 3, 0.0), (3, 3, 0.1), (30, 40, 0.01), (0, 5, 0.1)];
    for (ready, down, rate) in table {
        assert_eq!(zone(ready, down).rate_of(&any), rate, "{ready} ready, {down} down");
    }
    let mut limiter = Limiter::default();
    assert_eq!(limiter.take(0.1, at(0)), Ok(()));
    assert_eq!(limiter.take(0.1, at(4)).unwrap_err().unwrap().as_secs(), 6);
    assert_eq!(limiter.take(0.1, at(10)), Ok(()));
    assert_eq!(limiter.take(0.0, at(100)), Err(None));
}

#[test]
fn mass_node_failures_requeue_nodes_only_on_rate_changes() {
    let mut zones = Zones::default();
    let name = |i: usize| format!("n{i:04}");
    for i in 0..1_000 {
        assert_eq!(zones.observe(&name(i), Some(&node(&name(i), "True"))), [""; 0]);
    }
    let mut woken = 0;
    for i in 0..1_000 {
        let lost = node(&name(i), "Unknown");
        woken += zones.observe(&name(i), Some(&lost)).len();
        assert_eq!(zones.observe(&name(i), Some(&lost)), [""; 0], "the same again is no change");
    }
    assert_eq!(woken, 550 + 1_000, "once when much of the zone is down, once when all of it is");
    assert!(zones.all_down());
    assert_eq!(zones.observe("n0000", Some(&node("n0000", "True"))).len(), 999, "the first is back");
    for i in 0..1_000 {
        drop(zones.observe(&name(i), None));
    }
    assert_eq!(zones, Zones::default(), "nodes that are gone leave nothing behind");
}

#[test]
fn a_pod_conflict_delays_neither_other_pods_nor_taints() {
    let mut w = SimulatedCluster::new();
    w.run(0);
    w.pods = vec![pod(), pod()];
    w.set_ready("False", 5);
    let plan = w.run(5);
    assert_eq!(plan.independent.len(), 2, "a list for each pod");
    assert!(plan.actions.iter().any(|a| matches!(a, Action::Patch { target, .. } if target.name == "a")));
}
