//! The manager against a dumb API in memory: every write is carried out, its echo observed, time passes by deadlines.

mod admission;
mod devices;
mod faults;
mod groups;
mod loads;
mod start_faults;

use super::sources::SourceOrder;
use super::write::{Failure, Write, Written};
use super::{Manager, Notice};
use crate::config::{Config, Delays};
use crate::fault::{Fault, FaultError};
use crate::pod_object::source::{SourceKey, SourceKind, SourceState};
use crate::record::{NodeRecord, PodRecord};
use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kstore_container_sim::time::{between, later};
use kstore_informer::{Delta, Revision};
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const START: Timestamp = Timestamp::UNIX_EPOCH;

/// Objects by kind and name, as JSON.
struct Api {
    revision: u64,
    pods: BTreeMap<String, Value>,
    nodes: BTreeMap<String, Value>,
    leases: BTreeMap<String, Value>,
    /// ResourceSlices by node, and the names of DeviceClasses as often as they were created.
    slices: BTreeMap<String, Vec<ResourceSlice>>,
    classes: Vec<String>,
    /// Every write: the second, and a word about it.
    log: Vec<(u64, String)>,
    /// Outcomes to answer the next writes with.
    failures: Vec<Failure>,
}

struct World {
    api: Api,
    manager: Manager,
    now: Timestamp,
    notices: Vec<Notice>,
}

impl Api {
    fn put(&mut self, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        object
    }

    fn apply(&mut self, write: &Write) -> Result<Written, Failure> {
        if let Some(failure) = self.failures.pop() {
            return Err(failure);
        }
        match write {
            Write::PodStatus { key, uid, base, status, .. } => {
                let mut pod = self.pods.get(key.name()).cloned().ok_or(Failure::NotFound)?;
                let current = pod["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
                if pod["metadata"]["uid"] != **uid || current != base.to_string() {
                    return Err(Failure::Conflict);
                }
                pod["status"] = serde_json::to_value(status).unwrap();
                let pod = self.put(pod);
                self.pods.insert(key.name().to_owned(), pod);
            }
            Write::RemovePod { key, uid, .. } => {
                let pod = self.pods.get(key.name()).ok_or(Failure::NotFound)?;
                if pod["metadata"]["uid"] != **uid {
                    return Err(Failure::Conflict);
                }
                self.pods.remove(key.name());
                self.revision += 1;
            }
            Write::CreateNode(node) => {
                let name = node.metadata.name.clone().unwrap();
                if self.nodes.contains_key(&name) {
                    return Err(Failure::AlreadyExists);
                }
                let mut node = self.put(serde_json::to_value(node).unwrap());
                node["metadata"]["uid"] = json!(format!("uid-{name}"));
                self.nodes.insert(name, node);
            }
            Write::NodeStatus { node, status } => {
                let mut object = self.nodes.get(node).cloned().ok_or(Failure::NotFound)?;
                object["status"] = serde_json::to_value(status).unwrap();
                let object = self.put(object);
                self.nodes.insert(node.clone(), object);
            }
            Write::DeleteNode { node, .. } => {
                self.nodes.remove(node).ok_or(Failure::NotFound)?;
            }
            Write::GroupStatus { .. } | Write::GroupSize { .. } => {}
            Write::FaultStatus { .. } | Write::LoadStatus { .. } => {}
            Write::ReclaimNotice { node, patch }
            | Write::FaultTimes { node, patch }
            | Write::NodeSpec { node, patch } => self.notify(node, patch)?,
            Write::Devices { node, pools, .. } => self.publish(node, pools),
            Write::Lease { node, lease, base, .. } => {
                let current = self.leases.get(node).map(|lease| lease["metadata"]["resourceVersion"].clone());
                if base.is_some_and(|base| current != Some(json!(base.to_string()))) {
                    return Err(Failure::Conflict);
                }
                let lease = self.put(serde_json::to_value(lease).unwrap());
                self.leases.insert(node.clone(), lease);
            }
        }
        Ok(Written { revision: Revision(self.revision), with_status: true })
    }
}

impl World {
    fn new(config: Config) -> Self {
        let api = Api {
            revision: 0,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            leases: BTreeMap::new(),
            slices: BTreeMap::new(),
            classes: Vec::new(),
            log: Vec::new(),
            failures: Vec::new(),
        };
        let manager = Manager::new(config, &Rng::seeded(1), &[], START);
        let mut world = Self { api, manager, now: START, notices: Vec::new() };
        world.settle();
        world.api.log.clear();
        world
    }

    /// Begins and ends writes until there are none.
    fn settle(&mut self) {
        loop {
            self.manager.expire(self.now);
            self.notices.extend(self.manager.take_notices());
            let writes = self.manager.next_writes(self.now);
            if writes.is_empty() {
                return;
            }
            for write in writes {
                let (word, name) = word(&write);
                let outcome = self.api.apply(&write);
                let failed = outcome.is_err();
                let second = between(START, self.now).as_secs();
                self.api.log.push((second, if failed { format!("{word} failed") } else { word }));
                self.manager.written(&write, outcome, self.now);
                if !failed {
                    self.echo(&write, &name);
                }
            }
        }
    }

    fn echo(&mut self, write: &Write, name: &str) {
        match write {
            Write::PodStatus { .. } => self.show(name),
            Write::RemovePod { key, .. } => {
                let gone = json!({"metadata": {"name": name, "namespace": key.namespace(), "uid": name}});
                let record = PodRecord::decode(&serde_json::to_vec(&gone).unwrap()).unwrap();
                self.manager.observe_pods(vec![Delta::Deleted(Arc::new(record))], self.now);
            }
            Write::CreateNode(_)
            | Write::NodeStatus { .. }
            | Write::ReclaimNotice { .. }
            | Write::FaultTimes { .. }
            | Write::NodeSpec { .. } => {
                let json = serde_json::to_vec(&self.api.nodes[name]).unwrap();
                let record = Arc::new(NodeRecord::decode(&json).unwrap());
                self.manager.observe_nodes(vec![Delta::Added(record)], self.now);
            }
            Write::DeleteNode { .. } => self.show_node_gone(name),
            Write::Lease { .. } | Write::Devices { .. } => {}
            Write::GroupStatus { .. } | Write::GroupSize { .. } => {}
            Write::FaultStatus { .. } | Write::LoadStatus { .. } => {}
        }
    }

    /// The node informer shows that a Node is gone.
    fn show_node_gone(&mut self, name: &str) {
        let gone = json!({"metadata": {"name": name, "uid": format!("uid-{name}")}});
        let record = NodeRecord::decode(&serde_json::to_vec(&gone).unwrap()).unwrap();
        self.manager.observe_nodes(vec![Delta::Deleted(Arc::new(record))], self.now);
    }

    /// The pod informer shows the pod as it is now.
    fn show(&mut self, name: &str) {
        let json = serde_json::to_vec(&self.api.pods[name]).unwrap();
        let record = Arc::new(PodRecord::decode(&json).unwrap());
        self.manager.observe_pods(vec![Delta::Added(record)], self.now);
    }

    fn create(&mut self, name: &str, node: &str, annotations: Value) {
        let pod = self.api.put(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations, "generation": 1},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "nginx:1"}]},
            "status": {"phase": "Pending", "qosClass": "BestEffort",
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
        }));
        self.api.pods.insert(name.to_owned(), pod);
        self.show(name);
        self.settle();
    }

    /// Another client changes the pod.
    fn edit(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = self.api.pods[name].clone();
        change(&mut pod);
        let pod = self.api.put(pod);
        self.api.pods.insert(name.to_owned(), pod);
    }

    fn run(&mut self, seconds: u64) {
        let until = later(START, Duration::from_secs(seconds));
        while let Some(due) = self.manager.deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            self.settle();
        }
        self.now = until;
        self.settle();
    }

    fn pod_log(&self) -> Vec<(u64, &str)> {
        let pods = self.api.log.iter().filter(|(_, word)| word.starts_with("pod"));
        pods.map(|(second, word)| (*second, word.as_str())).collect()
    }

    fn condition(&self, pod: &str, type_: &str) -> &str {
        let all = self.api.pods[pod]["status"]["conditions"].as_array().unwrap();
        all.iter().find(|c| c["type"] == type_).unwrap()["status"].as_str().unwrap()
    }
}

fn word(write: &Write) -> (String, String) {
    match write {
        Write::PodStatus { key, status, .. } => {
            let phase = status.phase.clone().unwrap();
            let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
            let ready = if ready { " ready" } else { "" };
            (format!("pod {} {phase}{ready}", key.name()), key.name().to_owned())
        }
        Write::RemovePod { key, .. } => (format!("pod {} removed", key.name()), key.name().to_owned()),
        Write::CreateNode(node) => {
            let name = node.metadata.name.clone().unwrap();
            (format!("node {name} created"), name)
        }
        Write::NodeStatus { node, .. } => (format!("node {node} status"), node.clone()),
        Write::Lease { node, .. } => (format!("lease {node}"), node.clone()),
        Write::DeleteNode { node, .. } => (format!("node {node} deleted"), node.clone()),
        Write::ReclaimNotice { node, .. } => (format!("node {node} reclaimed"), node.clone()),
        Write::FaultTimes { node, .. } => ("times of faults".to_owned(), node.clone()),
        Write::NodeSpec { node, patch } => {
            let what = if patch["spec"].get("taints").is_some() { "untainted" } else { "cordoned" };
            (format!("node {node} {what}"), node.clone())
        }
        Write::Devices { node, .. } => (format!("devices {node}"), node.clone()),
        Write::GroupStatus { group, status } => {
            let count = |name: &str| status[name].as_i64().unwrap();
            let failure =
                status["failure"]["code"].as_str().map(|code| format!(" {code}")).unwrap_or_default();
            let counts = ["replicas", "readyReplicas", "creating", "terminating"].map(count);
            let spent = status["spent"].as_str().unwrap();
            (format!("group {group} {counts:?} {spent}{failure}"), group.clone())
        }
        Write::GroupSize { group, replicas, .. } => {
            (format!("group {group} sized {replicas}"), group.clone())
        }
        Write::FaultStatus { fault, status } => (
            format!("fault {fault} {} {}", status["phase"].as_str().unwrap(), status["nodes"]),
            fault.clone(),
        ),
        Write::LoadStatus { load, status } => (
            format!("load {load} Invalid={}", status["conditions"][0]["status"].as_str().unwrap()),
            load.to_string(),
        ),
    }
}

fn deleted(pod: &mut Value) {
    pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:30Z");
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
}

#[test]
fn nodes_register_once_with_their_lease_and_then_only_heartbeat() {
    let mut world = World::new(Config::default());
    assert_eq!(world.api.nodes.keys().collect::<Vec<_>>(), ["node-0", "node-1", "node-2"]);
    assert_eq!(world.api.leases["node-1"]["metadata"]["ownerReferences"][0]["uid"], "uid-node-1");
    assert_eq!(world.api.nodes["node-1"]["spec"]["podCIDR"], "10.128.4.0/22");
    world.run(299);
    let (leases, others) = world.api.log.iter().partition::<Vec<_>, _>(|(_, word)| word.starts_with("lease"));
    assert!((85..=90).contains(&leases.len()), "{}", leases.len());
    assert!(others.is_empty(), "{others:?}");
    // Each five minutes after its registration, and as far apart as the leases.
    world.run(307);
    assert_eq!(world.api.log.iter().filter(|(_, word)| word.ends_with("status")).count(), 3);
}

#[test]
fn five_hundred_pods_become_ready_in_one_write_each_with_distinct_addresses() {
    let mut world = World::new(Config::default());
    for index in 0..500 {
        world.create(&format!("p{index:03}"), &format!("node-{}", index % 3), json!({}));
    }
    assert_eq!(world.api.log.len(), 500);
    let ips: std::collections::BTreeSet<_> =
        world.api.pods.values().map(|pod| pod["status"]["podIP"].to_string()).collect();
    assert_eq!(ips.len(), 500);
    assert!(world.api.pods.values().all(|pod| pod["status"]["phase"] == "Running"));
    let at = world.api.log.len();
    world.run(5);
    assert_eq!(world.api.log.len(), at, "nothing is written without a change");
}

#[test]
fn a_status_written_in_one_go_is_complete() {
    let mut world = World::new(Config::default());
    world.create("p", "node-0", json!({}));
    let status = &world.api.pods["p"]["status"];
    let types: Vec<_> =
        status["conditions"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    );
    assert_eq!(status["hostIP"], "172.30.0.2");
    assert_eq!(status["podIPs"], json!([{"ip": "10.128.0.1"}]));
    assert_eq!(status["startTime"], "1970-01-01T00:00:00Z");
    let container = &status["containerStatuses"][0];
    assert_eq!(container["state"], json!({"running": {"startedAt": "1970-01-01T00:00:00Z"}}));
    assert_eq!(
        (&container["started"], &container["ready"], &container["restartCount"]),
        (&json!(true), &json!(true), &json!(0))
    );
    assert!(container["containerID"].as_str().unwrap().starts_with("sim://"));
    let reasons: Vec<_> = world.notices.iter().skip(6).map(|notice| notice.reason.clone()).collect();
    assert_eq!(reasons, ["Pulling", "Pulled", "Created", "Started"]);
}

#[test]
fn a_deleted_pod_writes_its_last_status_and_is_removed() {
    let mut world = World::new(Config::default());
    world.create("p", "node-0", json!({"kubelet-sim.kstore.io/stop": "3"}));
    world.run(10);
    world.edit("p", deleted);
    world.show("p");
    world.run(60);
    assert_eq!(world.pod_log(), [(0, "pod p Running ready"), (13, "pod p Succeeded"), (13, "pod p removed")]);
}

#[test]
fn a_gracefully_deleted_pod_is_terminating_for_the_default_stop_delay_and_costs_two_writes() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    world.create("p", "node-0", json!({}));
    world.edit("p", |pod| {
        deleted(pod);
        pod["metadata"]["generation"] = json!(2);
    });
    world.show("p");
    world.settle();
    let status = &world.api.pods["p"]["status"];
    assert_eq!(status["phase"], "Running", "it is still there, with its deletionTimestamp");
    assert_eq!(
        world.manager.deadline(),
        Some(later(START, Duration::from_millis(300))),
        "one timer, no poll"
    );
    world.now = later(START, Duration::from_millis(300));
    world.settle();
    assert_eq!(world.pod_log(), [(0, "pod p Running ready"), (0, "pod p Succeeded"), (0, "pod p removed")]);
}

#[test]
fn referenced_objects_are_watched_once_and_only_while_a_pod_references_them() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    world.create("plain", "node-0", json!({}));
    assert_eq!(world.manager.take_source_orders(), [], "a pod that refers to nothing costs nothing");
    let key = SourceKey { kind: SourceKind::ConfigMap, namespace: "default".into(), name: "settings".into() };
    for name in ["a", "b"] {
        let env = json!([{"configMapRef": {"name": "settings"}}]);
        let pod = world.api.put(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "nginx:1", "envFrom": env}]},
        }));
        world.api.pods.insert(name.to_owned(), pod);
        world.show(name);
        world.settle();
    }
    assert_eq!(world.manager.take_source_orders(), [SourceOrder::Follow(key.clone())]);
    let log = [(0, "pod plain Running ready"), (0, "pod a Pending"), (0, "pod b Pending")];
    assert_eq!(world.pod_log(), log);
    world.manager.observe_source(key.clone(), SourceState::Present([].into()), world.now);
    world.manager.observe_source(key.clone(), SourceState::Present([].into()), world.now);
    world.settle();
    assert_eq!(world.pod_log()[3..], [(0, "pod a Running ready"), (0, "pod b Running ready")]);
    for (until, name, left) in [(10, "a", vec![]), (20, "b", vec![SourceOrder::Leave(key)])] {
        world.edit(name, deleted);
        world.show(name);
        world.run(until);
        assert_eq!(world.manager.take_source_orders(), left);
    }
}

#[test]
fn a_secret_is_read_for_each_pod_and_often_while_a_pod_waits() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    let key = SourceKey { kind: SourceKind::Secret, namespace: "default".into(), name: "keys".into() };
    let create = |world: &mut World, name: &str| {
        let env = json!([{"secretRef": {"name": "keys"}}]);
        let pod = world.api.put(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "nginx:1", "envFrom": env}]},
        }));
        world.api.pods.insert(name.to_owned(), pod);
        world.show(name);
        world.settle();
    };
    create(&mut world, "a");
    assert_eq!(world.manager.take_source_orders(), [SourceOrder::Follow(key.clone())]);
    let is_awaited = world.manager.observe_source(key.clone(), SourceState::Missing, world.now);
    assert!(is_awaited, "the pod waits for it");
    let is_awaited = world.manager.observe_source(key.clone(), SourceState::Present([].into()), world.now);
    assert!(!is_awaited, "the pod starts");
    world.settle();
    create(&mut world, "b");
    assert_eq!(world.manager.take_source_orders(), [SourceOrder::Refresh(key.clone())]);
    let last = (0, "pod b Pending");
    assert_eq!(world.pod_log().last(), Some(&last), "what was read for another pod starts none");
    assert!(world.manager.observe_source(key, SourceState::Missing, world.now), "it is gone by now");
}

#[test]
fn conflicting_writes_are_retried_on_the_newer_object_and_keep_foreign_changes() {
    let mut world = World::new(Config::default());
    world.create("p", "node-0", json!({"kubelet-sim.kstore.io/ready-after": "5"}));
    world.run(4);
    world.edit("p", |pod| {
        pod["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "example.com/x", "status": "True"}));
    });
    world.run(5);
    world.show("p");
    world.settle();
    assert_eq!(
        world.pod_log(),
        [(0, "pod p Running"), (5, "pod p Running ready failed"), (5, "pod p Running ready")]
    );
    assert_eq!(world.condition("p", "example.com/x"), "True");
}

#[test]
fn a_passing_failure_is_tried_again_with_growing_waits() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    world.api.failures = vec![Failure::Passing("busy".into()); 5];
    world.create("p", "node-0", json!({}));
    world.run(5);
    let log = world.pod_log();
    assert_eq!(log.len(), 6);
    assert_eq!(log[5], (3, "pod p Running ready"));
}

#[test]
fn a_stopped_node_falls_silent_and_catches_up_when_it_resumes() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    let annotations = json!({"kubelet-sim.kstore.io/ready-after": "5"});
    world.create("stays", "node-0", annotations.clone());
    world.create("goes", "node-0", annotations);
    world.manager.fault("node-0", Fault::Stop, world.now).unwrap();
    world.api.log.clear();
    world.run(60);
    world.edit("goes", deleted);
    world.show("goes");
    world.edit("stays", |pod| pod["status"]["conditions"][2]["status"] = json!("False"));
    world.show("stays");
    world.run(100);
    assert_eq!(world.api.log, []);
    world.manager.fault("node-0", Fault::Resume, world.now).unwrap();
    world.settle();
    world.run(101);
    let words: Vec<_> = world.api.log.iter().map(|(_, word)| word.as_str()).collect();
    let expected = [
        "lease node-0",
        "pod goes Running ready",
        "pod stays Running ready",
        "node node-0 status",
        "pod goes Succeeded",
        "pod goes removed",
    ];
    assert_eq!(words, expected);
    assert_eq!(world.manager.fault("x", Fault::Stop, world.now), Err(FaultError::NoSuchNode("x".into())));
}

#[test]
fn an_overwritten_status_is_restored_after_a_wait() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    world.create("p", "node-0", json!({}));
    for second in 1..=30 {
        world.run(second);
        world.edit("p", |pod| pod["status"]["phase"] = json!("Pending"));
        world.show("p");
        world.settle();
    }
    assert!((2..=3).contains(&(world.pod_log().len() - 1)), "{:?}", world.pod_log());
}

#[test]
fn a_new_pod_of_the_same_name_is_another_pod() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    world.create("p", "node-0", json!({}));
    world.edit("p", |pod| {
        pod["metadata"]["uid"] = json!("other");
        pod["status"] = json!({"phase": "Pending"});
    });
    world.show("p");
    world.settle();
    assert_eq!(world.pod_log(), [(0, "pod p Running ready"); 2]);
    assert_eq!(world.api.pods["p"]["status"]["podIP"], "10.128.0.2");
}

#[test]
fn a_new_process_adopts_running_pods_without_writes() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    world.create("p", "node-0", json!({}));
    let record = |json: &Value| serde_json::to_vec(json).unwrap();
    let node = Arc::new(NodeRecord::decode(&record(&world.api.nodes["node-0"])).unwrap());
    let config = Config { nodes: 1, ..Config::default() };
    world.manager = Manager::new(config, &Rng::seeded(9), &[node], world.now);
    world.api.log.clear();
    world.show("p");
    world.settle();
    let before = world.api.pods["p"].clone();
    world.create("q", "node-0", json!({}));
    assert_eq!(world.api.pods["p"]["status"], before["status"]);
    assert_eq!(world.api.pods["q"]["status"]["podIP"], "10.128.0.2", "the address of p is taken");
    let words: Vec<_> = world.api.log.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!(words, ["lease node-0", "node node-0 status", "pod q Running ready"]);
}

#[test]
fn delays_show_the_way_in_as_many_writes_as_there_is_to_tell() {
    let fixed = |seconds| crate::behavior::Delay::Fixed(Duration::from_secs(seconds));
    let delays = Delays { pull: fixed(2), ready: fixed(3), ..Delays::default() };
    let mut world = World::new(Config { nodes: 1, delays, ..Config::default() });
    world.create("p", "node-0", json!({}));
    world.run(30);
    assert_eq!(world.pod_log(), [(0, "pod p Pending"), (2, "pod p Running"), (5, "pod p Running ready")]);
}

#[test]
fn a_write_that_ends_after_its_node_was_stopped_wakes_nothing() {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "p",
            "annotations": {"kubelet-sim.kstore.io/ready-after": "5"}},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "nginx:1"}]},
    });
    let pod = world.api.put(pod);
    world.api.pods.insert("p".into(), pod);
    world.show("p");
    world.manager.expire(world.now);
    let writes = world.manager.next_writes(world.now);
    world.manager.fault("node-0", Fault::Stop, world.now).unwrap();
    let outcome = world.api.apply(&writes[0]);
    world.manager.written(&writes[0], outcome, world.now);
    world.show("p");
    world.run(60);
    assert_eq!(world.api.log, []);
    world.manager.fault("node-0", Fault::Resume, world.now).unwrap();
    world.settle();
    assert_eq!(world.pod_log(), [(60, "pod p Running ready")]);
}
