//! Groups of nodes: they come after their delays, go in order, and are replaced.

use super::World;
use crate::config::Config;
use crate::group::record::GroupRecord;
use crate::manager::Manager;
use crate::record::NodeRecord;
use kstore_informer::Delta;
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::sync::Arc;

/// A world without `--nodes`.
fn world() -> World {
    World::new(Config { nodes: 0, has_sim_api: true, ..Config::default() })
}

impl World {
    /// The informer shows a group.
    pub(super) fn group(&mut self, name: &str, spec: Value) {
        let group = self.api.put(json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1, "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": spec,
        }));
        let record = Arc::new(GroupRecord::decode(&serde_json::to_vec(&group).unwrap()).unwrap());
        self.manager.observe_groups(vec![Delta::Added(record)], self.now);
        self.settle();
    }

    fn nodes(&self) -> Vec<&str> {
        self.api.nodes.keys().map(String::as_str).collect()
    }

    /// The last status of a group: existing, ready, creating and terminating instances, and what they cost.
    fn last_status(&self, group: &str) -> &str {
        let prefix = format!("group {group} [");
        let last = self.api.log.iter().rev().find(|(_, word)| word.starts_with(&prefix));
        &last.unwrap().1[prefix.len() - 1..]
    }
}

#[test]
fn instances_register_and_become_ready_after_their_delays_and_cost_from_the_start() {
    let mut world = world();
    let startup = json!({"provision": "30s", "register": "5s", "ready": "10s"});
    world.group(
        "web",
        json!({"replicas": 2, "zones": ["a", "b"], "startup": startup, "cost": {"perHour": "3.6"}}),
    );
    assert!(world.nodes().is_empty());
    assert_eq!(world.last_status("web"), "[2, 0, 2, 0] 0.00");
    world.run(34);
    assert!(world.nodes().is_empty());
    world.run(36);
    assert_eq!(world.nodes(), ["web-0", "web-1"]);
    let node = &world.api.nodes["web-1"];
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "b");
    assert_eq!(node["metadata"]["labels"]["sim.kstore.io/group"], "web");
    assert_ne!(world.api.nodes["web-0"]["spec"]["podCIDR"], node["spec"]["podCIDR"]);
    let ready = |world: &World| {
        let conditions = world.api.nodes["web-0"]["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|one| one["type"] == "Ready").unwrap()
    };
    assert_eq!(
        (ready(&world)["status"].clone(), ready(&world)["reason"].clone()),
        (json!("False"), json!("KubeletNotReady"))
    );
    world.run(46);
    assert_eq!(ready(&world)["status"], "True");
    assert_eq!(world.last_status("web"), "[2, 2, 0, 0] 0.09");
    // An hour later the cost is written again: 2 nodes of 0.001 a second.
    world.run(3700);
    assert!(world.last_status("web").starts_with("[2, 2, 0, 0] 7.2"), "{}", world.last_status("web"));
    assert_eq!(world.reasons().iter().filter(|reason| **reason == "InstanceCreated").count(), 2);
}

#[test]
fn a_smaller_group_gives_up_nodes_and_a_lost_node_is_replaced() {
    let mut world = world();
    world.group("web", json!({"replicas": 4}));
    assert_eq!(world.nodes().len(), 4);
    world.create("a", "web-3", json!({}));
    world.group("web", json!({"replicas": 2}));
    world.run(1);
    // Node 3 has a pod: it stays.
    assert_eq!(world.nodes(), ["web-0", "web-3"]);
    assert_eq!(world.last_status("web"), "[2, 2, 0, 0] 0.00");
    // Someone deletes a Node: its instance is gone, and another one comes.
    world.api.nodes.remove("web-3");
    world.show_node_gone("web-3");
    world.settle();
    assert_eq!(world.nodes(), ["web-0", "web-1"]);
    world.group("web", json!({"replicas": 0}));
    world.run(2);
    assert!(world.nodes().is_empty());
    assert!(world.manager.by_node.is_empty());
}

/// Regression: each renewal of a Lease made its group look at all of its nodes, a sixth of the work of a thousand idle nodes.
#[test]
fn a_group_does_not_look_at_its_nodes_because_they_renew_their_leases() {
    let mut world = world();
    world.group("web", json!({"replicas": 20}));
    world.run(5);
    let renewals = |world: &World| world.api.log.iter().filter(|(_, word)| word.starts_with("lease")).count();
    let (turns, before) = (world.manager.groups.turns, renewals(&world));
    world.run(125);
    assert!(renewals(&world) - before >= 200, "{}", renewals(&world) - before);
    assert!(world.manager.groups.turns - turns <= 2, "{}", world.manager.groups.turns - turns);
}

#[test]
fn the_node_of_a_machine_that_ends_stays_for_the_delay_without_heartbeats() {
    let mut world = world();
    world.group("web", json!({"replicas": 1, "shutdown": {"delay": "60s"}}));
    world.group("web", json!({"replicas": 0, "shutdown": {"delay": "60s"}}));
    world.api.log.clear();
    world.run(59);
    assert_eq!(world.nodes(), ["web-0"]);
    assert!(world.api.log.iter().all(|(_, word)| !word.starts_with("lease")), "{:?}", world.api.log);
    world.run(61);
    assert!(world.nodes().is_empty());
}

#[test]
fn an_instance_that_drains_is_cordoned_and_ends_its_pods_before_its_machine_ends() {
    let shutdown = json!({"mode": "drain", "grace": "20s", "delay": "5s"});
    let mut world = world();
    let group = |replicas: u32| json!({"replicas": replicas, "shutdown": shutdown});
    world.group("web", group(2));
    world.create("fast", "web-0", json!({}));
    world.create("slow", "web-1", json!({"kubelet-sim.kstore.io/stop": "10s"}));
    world.run(5);
    world.group("web", group(0));
    let of = |world: &World, node: &str| {
        let node = &world.api.nodes[node];
        (
            node["spec"]["unschedulable"].clone(),
            node["status"]["conditions"].to_string().contains("node is shutting down"),
        )
    };
    assert_eq!(of(&world, "web-1"), (json!(true), true));
    assert_eq!(world.last_status("web"), "[0, 0, 0, 2] 0.00");
    // A pod that the scheduler bound meanwhile is rejected.
    world.create("late", "web-1", json!({}));
    world.run(8);
    assert_eq!(world.api.pods["late"]["status"]["reason"], "NodeShutdown");
    let status = &world.api.pods["fast"]["status"];
    assert_eq!((status["phase"].clone(), status["reason"].clone()), (json!("Failed"), json!("Terminated")));
    world.run(12);
    assert_eq!(world.nodes(), ["web-1"], "the pod of the first node has ended, and the delay is over");
    world.run(14);
    assert_eq!(world.api.pods["slow"]["status"]["phase"], "Running");
    world.run(25);
    assert_eq!(world.api.pods["slow"]["status"]["phase"], "Failed");
    assert!(world.nodes().is_empty(), "{:?}", world.nodes());
    // Without the mode nothing of this happens.
    let refused = json!({"replicas": 1, "shutdown": {"grace": "20s"}});
    world.group("other", refused);
    let invalid = world.notices.iter().find(|notice| notice.reason == "InvalidSimulation").unwrap();
    assert_eq!(invalid.message, "spec.shutdown.grace: is for mode drain");
}

#[test]
fn schedules_resize_and_a_wrong_spec_leaves_the_last_valid_one_in_force() {
    let mut world = world();
    let schedule = json!([{"after": "60s", "replicas": 3}]);
    world.group("web", json!({"replicas": 1, "schedule": schedule}));
    world.run(61);
    assert!(world.api.log.iter().any(|(at, word)| (*at, word.as_str()) == (60, "group web sized 3")));
    world.group("web", json!({"replicas": 60, "maxReplicas": 50}));
    assert_eq!(world.nodes(), ["web-0"]);
    let invalid = world.notices.iter().find(|notice| notice.reason == "InvalidSimulation").unwrap();
    assert_eq!(invalid.message, "spec.replicas: replicas 60 is above maxReplicas 50");
}

#[test]
fn a_marked_node_of_another_client_is_simulated_and_keeps_what_its_creator_set() {
    let mut world = world();
    let show = |world: &mut World, name: &str, annotations: Value| {
        let status = json!({"capacity": {"cpu": "4", "pods": "7"}});
        let metadata = json!({"name": name, "uid": format!("uid-{name}"), "annotations": annotations});
        let node = world.api.put(json!({"metadata": metadata, "spec": {}, "status": status}));
        let record = NodeRecord::decode(&serde_json::to_vec(&node).unwrap()).unwrap();
        world.api.nodes.insert(name.to_owned(), node);
        world.manager.observe_nodes(vec![Delta::Added(Arc::new(record))], world.now);
        world.settle();
    };
    show(&mut world, "plain", json!({}));
    show(&mut world, "marked", json!({"kubelet-sim.kstore.io/node": ""}));
    show(&mut world, "kwok", json!({"kwok.x-k8s.io/node": "fake"}));
    world.run(1);
    assert!(
        world.api.nodes["plain"]["status"]["conditions"].is_null() && !world.api.leases.contains_key("plain")
    );
    for name in ["marked", "kwok"] {
        let status = &world.api.nodes[name]["status"];
        assert_eq!(status["capacity"], json!({"cpu": "4", "pods": "7"}), "{name}");
        assert_eq!(status["allocatable"], status["capacity"], "{name}");
        assert_eq!(status["conditions"][3]["status"], "True", "{name}");
        assert!(world.api.leases.contains_key(name));
    }
    world.create("a", "marked", json!({}));
    assert_eq!(world.api.pods["a"]["status"]["phase"], "Running");
    show(&mut world, "marked", json!({}));
    world.api.log.clear();
    world.run(60);
    assert!(world.api.log.iter().all(|(_, word)| word != "lease marked"), "{:?}", world.api.log);
}

#[test]
fn failing_instances_are_tried_again_after_a_wait_and_names_do_not_meet() {
    let mut world = world();
    let fail = json!({"probability": 1.0, "times": 2, "code": "STOCKOUT", "message": "none left"});
    world.group("web", json!({"replicas": 1, "startup": {"fail": fail}}));
    assert!(world.nodes().is_empty());
    world.run(9);
    assert!(world.nodes().is_empty());
    assert_eq!(world.last_status("web"), "[0, 0, 0, 0] 0.00 STOCKOUT");
    world.run(25);
    assert_eq!(world.last_status("web"), "[1, 1, 0, 0] 0.00");
    assert_eq!(world.nodes(), ["web-0"]);
    let failed: Vec<_> = world.notices.iter().filter(|notice| notice.reason == "InstanceFailed").collect();
    assert_eq!(
        (failed.len(), failed[0].message.as_str()),
        (2, "node web-0 does not come: STOCKOUT none left")
    );
    world.group("other", json!({"replicas": 1, "namePattern": "web-{index}"}));
    world.run(26);
    let invalid = world.notices.iter().find(|notice| notice.reason == "InvalidSimulation").unwrap();
    assert_eq!(invalid.message, "node \"web-0\" belongs to group \"web\"; change namePattern");
}

#[test]
fn startup_taints_go_away_some_time_after_the_node_is_ready_and_images_are_there_from_the_start() {
    let mut world = world();
    let template = json!({
        "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
        "images": [{"names": ["nginx:1"], "sizeBytes": 7}],
    });
    let startup = json!({"ready": "10s", "taints": "20s"});
    world.group("web", json!({"replicas": 1, "template": template, "startup": startup}));
    let keys = |world: &World| -> Vec<String> {
        let taints = world.api.nodes["web-0"]["spec"]["taints"].as_array().unwrap().clone();
        taints.iter().map(|taint| taint["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&world), ["team", "cni"]);
    let images = &world.api.nodes["web-0"]["status"]["images"];
    assert_eq!(
        (images[0]["names"][1].clone(), images[0]["sizeBytes"].clone()),
        (json!("docker.io/library/nginx:1"), json!(7))
    );
    world.run(29);
    assert_eq!(keys(&world), ["team", "cni"]);
    world.run(31);
    assert_eq!(keys(&world), ["team"]);
    world.create("a", "web-0", json!({"kubelet-sim.kstore.io/image-pull": "50s"}));
    assert_eq!(world.container("a")["ready"], true, "nothing is pulled");
    world.api.log.clear();
    world.run(200);
    assert!(world.api.log.iter().all(|(_, word)| !word.contains("untainted")), "{:?}", world.api.log);
}

#[test]
fn kubelets_of_a_group_renew_their_leases_as_often_as_it_says() {
    let mut world = world();
    let group = |kubelet: Value| json!({"replicas": 1, "template": {"kubelet": kubelet}});
    world.group("fast", group(json!({"leaseInterval": "2s"})));
    world.group("slow", group(json!({"leaseDuration": "200s"})));
    world.group("usual", group(json!({})));
    world.run(5);
    world.api.log.clear();
    world.run(205);
    let renewals = |name: &str| {
        let word = format!("lease {name}-0");
        world.api.log.iter().filter(|(_, what)| *what == word).count()
    };
    assert_eq!(["fast", "slow", "usual"].map(renewals), [100, 4, 20]);
    let seconds = ["fast-0", "slow-0", "usual-0"]
        .map(|name| world.api.leases[name]["spec"]["leaseDurationSeconds"].clone());
    assert_eq!(seconds, [8, 200, 40]);
}

fn network(world: &World, node: &str) -> String {
    world.api.nodes[node]["spec"]["podCIDR"].as_str().unwrap().to_owned()
}

#[test]
fn a_later_process_gives_a_new_node_no_subnet_that_another_node_has() {
    let mut world = world();
    let template = |pods: u32| json!({"capacity": {"pods": pods}});
    world.group("web", json!({"replicas": 4, "template": template(110)}));
    assert_eq!(network(&world, "web-3"), "10.128.1.128/25");
    world.api.nodes.remove("web-1");
    let records = world.api.nodes.values().map(|node| serde_json::to_vec(node).unwrap());
    let records: Vec<_> = records.map(|json| Arc::new(NodeRecord::decode(&json).unwrap())).collect();
    let config = Config { nodes: 1, has_sim_api: true, ..Config::default() };
    world.manager = Manager::new(config, &Rng::seeded(9), &records, world.now);
    world.group("web", json!({"replicas": 5, "template": template(110)}));
    // The node of --nodes has space for 1000 pods, and the group's new nodes have the gap and what follows.
    assert_eq!(network(&world, "node-0"), "10.128.4.0/22");
    assert_eq!(world.nodes(), ["node-0", "web-0", "web-1", "web-2", "web-3", "web-4"]);
    assert_eq!(
        ["web-0", "web-1", "web-2", "web-3", "web-4"].map(|name| network(&world, name)),
        ["10.128.0.0/25", "10.128.0.128/25", "10.128.1.0/25", "10.128.1.128/25", "10.128.2.0/25"]
    );
}

#[test]
fn more_nodes_than_the_network_has_large_subnets_for_take_fewer_pods_and_all_register() {
    let networks = |count: usize| {
        let pod_network = crate::config::Network::parse("10.128.0.0/13").unwrap();
        let world = World::new(Config { nodes: count, pod_network, ..Config::default() });
        let nodes = world.api.nodes.values();
        let pods: std::collections::BTreeSet<String> =
            nodes.map(|node| node["status"]["allocatable"]["pods"].as_str().unwrap().to_owned()).collect();
        let subnets: std::collections::BTreeSet<String> =
            world.api.nodes.keys().map(|name| network(&world, name)).collect();
        (world.api.nodes.len(), subnets.len(), pods.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(networks(8), (8, 8, "1000".to_owned()));
    assert_eq!(networks(512), (512, 512, "1000".to_owned()));
    assert_eq!(networks(513), (513, 513, "510".to_owned()));
}

#[test]
fn a_group_whose_nodes_take_too_many_pods_for_the_network_says_which_node_has_none() {
    let mut world = world();
    world.group("big", json!({"replicas": 3, "template": {"capacity": {"pods": 4_000_000}}}));
    assert_eq!(world.nodes(), ["big-0", "big-1"]);
    let problem = world.notices.iter().find(|notice| notice.reason == "InvalidSimulation").unwrap();
    assert_eq!(
        problem.message,
        "node \"big-2\" gets no pod network: 10.128.0.0/9 has no further subnet for 4000000 pods"
    );
}
