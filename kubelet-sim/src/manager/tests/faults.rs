//! Faults of nodes: what the API shows while they hold and afterwards.

use super::World;
use crate::config::Config;
use crate::fault::object::FaultRecord;
use crate::record::NodeRecord;
use kstore_informer::Delta;
use serde_json::{Value, json};
use std::sync::Arc;

fn world() -> World {
    World::new(Config { nodes: 2, has_sim_api: true, ..Config::default() })
}

impl World {
    /// A user annotates a Node with faults.
    pub(super) fn annotate(&mut self, node: &str, faults: &str) {
        let mut object = self.api.nodes[node].clone();
        object["metadata"]["annotations"]["kubelet-sim.kstore.io/fault"] = json!(faults);
        let object = self.api.put(object);
        let record = NodeRecord::decode(&serde_json::to_vec(&object).unwrap()).unwrap();
        self.api.nodes.insert(node.to_owned(), object);
        self.manager.observe_nodes(vec![Delta::Added(Arc::new(record))], self.now);
        self.settle();
    }

    fn node_condition(&self, node: &str, type_: &str) -> Value {
        let conditions = self.api.nodes[node]["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|one| one["type"] == type_).cloned().unwrap_or_default()
    }

    fn messages(&self, reason: &str) -> Vec<&str> {
        let of = self.notices.iter().filter(|notice| notice.reason == reason);
        of.map(|notice| notice.message.as_str()).collect()
    }

    /// Seconds of the writes about a node or pod since the last call.
    fn writes(&mut self, what: &str) -> Vec<u64> {
        let log = std::mem::take(&mut self.api.log);
        log.into_iter().filter(|(_, word)| word.contains(what)).map(|(at, _)| at).collect()
    }
}

#[test]
fn a_crash_ends_containers_when_it_begins_and_they_restart_after_it() {
    let mut world = world();
    world.create("a", "node-0", json!({}));
    world.run(10);
    let boot = world.api.nodes["node-0"]["status"]["nodeInfo"]["bootID"].clone();
    world.writes("");
    world.annotate("node-0", "crash@20+60s");
    world.run(89);
    assert_eq!(world.writes("node-0"), [20], "heartbeats end at 30");
    world.run(91);
    let container = world.container("a");
    assert_eq!((container["restartCount"].clone(), container["ready"].clone()), (json!(1), json!(true)));
    let last = &container["lastState"]["terminated"];
    assert_eq!((last["exitCode"].clone(), last["reason"].clone()), (json!(255), json!("Unknown")));
    assert_eq!(last["finishedAt"], "1970-01-01T00:00:30Z");
    let now = world.api.nodes["node-0"]["status"]["nodeInfo"]["bootID"].clone();
    assert_ne!(boot, now);
    assert_eq!(
        world.messages("Rebooted"),
        [format!("Node node-0 has been rebooted, boot id: {}", now.as_str().unwrap())]
    );
    assert_eq!(world.messages("SimulatedFault"), ["crash for 1m0s", "healed: crash"]);
}

#[test]
fn freeze_hang_and_partition_differ_in_what_containers_did_meanwhile() {
    // A container whose runs take 40 seconds, while its node is away from 10 to 100.
    for (fault, finished) in [("freeze+90", 100), ("hang+90", 40), ("partition+90", 80)] {
        let mut world = world();
        world.create(
            "a",
            "node-0",
            json!({"kubelet-sim.kstore.io/run-seconds": "40", "kubelet-sim.kstore.io/exit-code": "3"}),
        );
        world.run(10);
        world.writes("");
        world.annotate("node-0", fault);
        world.run(99);
        assert_eq!(world.writes("node-0"), Vec::<u64>::new(), "{fault}");
        assert_eq!(world.container("a")["restartCount"], 0, "{fault}");
        world.run(101);
        let container = world.container("a");
        let ended = [&container["lastState"]["terminated"], &container["state"]["terminated"]];
        let ended =
            ended.into_iter().find(|one| one.is_object()).unwrap_or_else(|| panic!("{fault}: {container}"));
        let second = finished % 60;
        assert_eq!(ended["finishedAt"], format!("1970-01-01T00:0{}:{second:02}Z", finished / 60), "{fault}");
        // On a node that is cut off the container has restarted meanwhile, as often as it ended.
        let restarts = container["restartCount"].as_u64().unwrap();
        assert_eq!(restarts > 1, fault.starts_with("partition"), "{fault}: {container}");
        world.annotate("node-0", "");
        assert!(!world.writes("node-0").is_empty(), "{fault}");
    }
}

#[test]
fn a_partitioned_node_learns_of_a_deletion_when_it_is_back() {
    let mut world = world();
    world.create("a", "node-0", json!({}));
    world.run(5);
    world.annotate("node-0", "partition");
    world.edit("a", super::deleted);
    world.show("a");
    world.run(60);
    assert!(world.api.pods.contains_key("a"));
    world.annotate("node-0", "");
    world.run(62);
    assert!(!world.api.pods.contains_key("a"), "{:?}", world.api.log);
}

#[test]
fn conditions_follow_and_a_pressure_is_shown_for_five_minutes_more() {
    let mut world = world();
    world.annotate("node-1", "not-ready=PLEG is not healthy+60; disk-pressure=1+60; network-unavailable+60");
    assert_eq!(world.node_condition("node-1", "Ready")["message"], "PLEG is not healthy");
    assert_eq!(world.node_condition("node-1", "DiskPressure")["reason"], "KubeletHasDiskPressure");
    assert_eq!(world.node_condition("node-1", "NetworkUnavailable")["status"], "True");
    world.create("a", "node-1", json!({}));
    world.run(1);
    let status = &world.api.pods["a"]["status"];
    assert_eq!((status["phase"].clone(), status["reason"].clone()), (json!("Failed"), json!("Evicted")));
    world.run(61);
    assert_eq!(world.node_condition("node-1", "Ready")["status"], "True");
    assert_eq!(world.node_condition("node-1", "NetworkUnavailable")["status"], "False");
    assert_eq!(world.node_condition("node-1", "DiskPressure")["status"], "True");
    world.run(361);
    assert_eq!(world.node_condition("node-1", "DiskPressure")["status"], "False");
    world.annotate("node-1", "disk-presure");
    let expected = "annotation kubelet-sim.kstore.io/fault: unknown fault \"disk-presure\"; did you mean \"disk-pressure\"?";
    assert_eq!(world.messages("InvalidSimulation"), [expected]);
}

#[test]
fn a_node_under_memory_pressure_evicts_the_largest_pods_one_each_ten_seconds() {
    let mut world = world();
    for (name, memory) in [("small", "100Mi"), ("large", "300Mi"), ("middle", "200Mi")] {
        world.create(name, "node-0", json!({"kubelet-sim.kstore.io/memory": memory}));
    }
    world.run(5);
    world.annotate("node-0", "memory-pressure=2");
    world.run(6);
    let phases = |world: &World| {
        ["large", "middle", "small"].map(|name| world.api.pods[name]["status"]["phase"].clone())
    };
    assert_eq!(phases(&world), ["Failed", "Running", "Running"]);
    let status = &world.api.pods["large"]["status"];
    assert_eq!(status["reason"], "Evicted");
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. \
                   Container c was using 300Mi, request is 0, has larger consumption of memory. ";
    assert_eq!(status["message"], message);
    let conditions = status["conditions"].as_array().unwrap();
    let disrupted = conditions.iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
    assert_eq!(disrupted["reason"], "TerminationByKubelet");
    world.run(16);
    assert_eq!(phases(&world), ["Failed", "Failed", "Running"]);
    world.run(60);
    assert_eq!(phases(&world), ["Failed", "Failed", "Running"], "two pods at most");
}

#[test]
fn a_reboot_ends_pods_first_and_a_node_fault_chooses_nodes_and_says_what_it_did() {
    let mut world = world();
    world.create("a", "node-1", json!({}));
    world.run(5);
    let fault = json!({
        "metadata": {"name": "noon", "uid": "u", "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"nodes": {"names": ["node-1"]}, "fault": "reboot", "value": "20", "at": {"after": "10s"}},
    });
    let record = || Arc::new(FaultRecord::decode(&serde_json::to_vec(&fault).unwrap()).unwrap());
    world.manager.observe_faults(vec![Delta::Added(record())], world.now);
    world.settle();
    world.run(14);
    let status = &world.api.pods["a"]["status"];
    assert_eq!((status["phase"].clone(), status["reason"].clone()), (json!("Failed"), json!("Terminated")));
    assert_eq!(world.node_condition("node-1", "Ready")["message"], "node is shutting down");
    world.run(40);
    let statuses: Vec<_> =
        world.api.log.iter().filter(|(_, word)| word.starts_with("fault noon")).cloned().collect();
    let expected = [
        (5, "fault noon Pending []".to_owned()),
        (10, "fault noon Active [\"node-1\"]".to_owned()),
        (35, "fault noon Done []".to_owned()),
    ];
    assert_eq!(statuses, expected);
    assert_eq!(world.node_condition("node-1", "Ready")["status"], "True");
    assert_eq!(world.messages("Rebooted").len(), 1);
    world.manager.observe_faults(vec![Delta::Deleted(record())], world.now);
}

#[test]
fn a_fault_with_jitter_begins_in_each_interval_at_a_time_of_its_own() {
    let mut world = world();
    let fault = json!({
        "metadata": {"name": "f", "uid": "uid-f", "resourceVersion": "1", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"nodes": {"names": ["node-0"]}, "fault": "not-ready", "duration": "20s", "every": "100s", "jitter": "60s"},
    });
    let record = FaultRecord::decode(&serde_json::to_vec(&fault).unwrap()).unwrap();
    world.manager.observe_faults(vec![Delta::Added(Arc::new(record))], world.now);
    let mut begins = Vec::new();
    for second in 0_u64..800 {
        let before = world.messages("SimulatedFault").len();
        world.run(second);
        let news = world.messages("SimulatedFault").split_off(before);
        begins.extend(news.iter().filter(|text| text.starts_with("not-ready")).map(|_| second));
    }
    let messages = world.messages("SimulatedFault");
    assert!(
        messages.chunks(2).all(|pair| pair == ["not-ready for 20s", "healed: not-ready"]),
        "{messages:?}"
    );
    let offsets: Vec<u64> = begins.iter().zip(0..).map(|(second, round)| second - round * 100).collect();
    assert_eq!(offsets.len(), 8, "{begins:?}");
    assert!(offsets.iter().all(|offset| *offset <= 60), "{begins:?}");
    assert!(offsets.iter().any(|offset| offset.abs_diff(offsets[0]) > 5), "not all equal: {begins:?}");
}
