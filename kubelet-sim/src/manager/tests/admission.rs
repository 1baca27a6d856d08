//! Nodes that reject pods, and resizes that wait for room.

use super::*;

/// A pod that requests this, created at a second.
fn requesting(name: &str, created: u32, requests: Value) -> Value {
    let created = format!("1970-01-01T00:00:{created:02}Z");
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1, "creationTimestamp": created},
        "spec": {"nodeName": "node-0", "containers": [
            {"name": "c", "image": "nginx:1", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
    })
}

fn cpu(amount: &str) -> Value {
    json!({"cpu": amount})
}

impl World {
    /// The pod informer shows these pods at once.
    fn create_all(&mut self, pods: Vec<Value>) {
        let records = pods.into_iter().map(|pod| {
            let pod = self.api.put(pod);
            let record = PodRecord::decode(&serde_json::to_vec(&pod).unwrap()).unwrap();
            self.api.pods.insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), pod);
            Delta::Added(Arc::new(record))
        });
        let records = records.collect();
        self.manager.observe_pods(records, self.now);
        self.settle();
    }

    fn resize(&mut self, pod: &str, amount: &str, generation: u32) {
        self.edit(pod, |pod| {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(amount);
            pod["metadata"]["generation"] = json!(generation);
        });
        self.show(pod);
        self.settle();
    }

    fn find_condition(&self, pod: &str, type_: &str) -> Option<&Value> {
        let all = self.api.pods[pod]["status"]["conditions"].as_array().unwrap();
        all.iter().find(|condition| condition["type"] == type_)
    }

    pub(super) fn container(&self, pod: &str) -> &Value {
        &self.api.pods[pod]["status"]["containerStatuses"][0]
    }

    fn phases(&self) -> Vec<(&str, &str)> {
        let phase = |pod: &'_ Value| -> &'static str {
            match pod["status"]["phase"].as_str().unwrap() {
                "Running" => "Running",
                "Failed" => "Failed",
                _ => "another",
            }
        };
        self.api.pods.iter().map(|(name, pod)| (name.as_str(), phase(pod))).collect()
    }

    pub(super) fn reasons(&self) -> Vec<&str> {
        self.notices.iter().map(|notice| &*notice.reason).collect()
    }
}

fn one_node() -> World {
    let mut world = World::new(Config { nodes: 1, ..Config::default() });
    world.notices.clear();
    world
}

#[test]
fn a_second_process_with_the_same_nodes_is_reported_and_a_restart_is_not() {
    let mut world = one_node();
    world.run(100);
    let node = serde_json::to_vec(&world.api.nodes["node-0"]).unwrap();
    let node = Arc::new(NodeRecord::decode(&node).unwrap());
    world.manager =
        Manager::new(Config { nodes: 1, ..Config::default() }, &Rng::seeded(2), &[node], world.now);
    world.run(200);
    assert_eq!(world.reasons().into_iter().filter(|reason| *reason == "SimulatedTwice").count(), 0);
    // Another process renews the lease, too.
    for second in 200..300 {
        let lease = world.api.leases["node-0"].clone();
        let lease = world.api.put(lease);
        world.api.leases.insert("node-0".to_owned(), lease);
        world.run(second);
    }
    assert_eq!(world.reasons().into_iter().filter(|reason| *reason == "SimulatedTwice").count(), 1);
    let renewals = world.api.log.iter().filter(|(second, word)| *second >= 200 && word == "lease node-0");
    assert!(renewals.count() >= 9, "the lease is renewed all the same: {:?}", world.api.log);
}

#[test]
fn an_annotation_that_is_changed_on_a_living_pod_is_checked_again() {
    let mut world = one_node();
    world.create("p", "node-0", json!({"kubelet-sim.kstore.io/imagepull": "1s"}));
    let told = |world: &World| {
        let invalid = world.notices.iter().filter(|notice| notice.reason == "InvalidSimulation");
        invalid.map(|notice| notice.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(told(&world).len(), 1);
    world.edit("p", |pod| pod["metadata"]["annotations"]["kubelet-sim.kstore.io/cpu"] = json!("abc"));
    world.show("p");
    world.settle();
    assert_eq!(told(&world).len(), 2, "the known one is not repeated");
    assert!(told(&world)[1].contains("kubelet-sim.kstore.io/cpu: \"abc\" is not"), "{:?}", told(&world));
    world.edit("p", |pod| pod["metadata"]["annotations"]["other"] = json!("x"));
    world.show("p");
    world.settle();
    assert_eq!(told(&world).len(), 2);
}

#[test]
fn a_node_rejects_the_youngest_pods_that_do_not_fit() {
    let mut world = one_node();
    let pods = [("a", 3, "5"), ("b", 2, "4"), ("c", 1, "4")];
    world.create_all(pods.map(|(name, created, amount)| requesting(name, created, cpu(amount))).to_vec());
    world.run(1);
    assert_eq!(world.phases(), [("a", "Failed"), ("b", "Running"), ("c", "Running")]);
    let why = "Node didn't have enough resource: cpu, requested: 5000, used: 8000, capacity: 8000";
    let status = &world.api.pods["a"]["status"];
    assert_eq!(status["reason"], "OutOfcpu");
    assert_eq!(status["message"], format!("Pod was rejected: {why}"));
    assert_eq!((&status["conditions"], &status["containerStatuses"]), (&json!([]), &Value::Null));
    let notice = world.notices.iter().find(|notice| notice.warning).unwrap();
    assert_eq!((&*notice.reason, notice.message.as_str()), ("OutOfcpu", why));
    world.run(30);
    let failed = world.pod_log().iter().filter(|(_, word)| word.starts_with("pod a")).count();
    assert_eq!(failed, 1, "it is written once");
    world.edit("a", deleted);
    world.show("a");
    world.run(31);
    assert!(!world.api.pods.contains_key("a"), "a rejected pod goes at once");
}

#[test]
fn finished_pods_leave_their_room_and_deleted_ones_do_when_they_have_ended() {
    let mut world = one_node();
    let mut job = requesting("job", 1, cpu("8"));
    job["spec"]["restartPolicy"] = json!("Never");
    job["metadata"]["annotations"] = json!({"kubelet-sim.kstore.io/run-seconds": "2"});
    world.create_all(vec![job]);
    world.run(3);
    let mut slow = requesting("slow", 2, cpu("8"));
    slow["metadata"]["annotations"] = json!({"kubelet-sim.kstore.io/stop": "20s"});
    world.create_all(vec![slow]);
    world.run(5);
    world.edit("slow", deleted);
    world.show("slow");
    world.create_all(vec![requesting("early", 3, cpu("1"))]);
    world.run(26);
    world.create_all(vec![requesting("late", 4, cpu("1"))]);
    world.run(28);
    assert!(!world.api.pods.contains_key("slow"));
    assert_eq!(world.phases()[0], ("early", "Failed"));
    assert_eq!(world.phases()[2], ("late", "Running"));
}

#[test]
fn a_node_that_changes_at_the_same_time_is_looked_at_twice() {
    let mut world = one_node();
    let mut pod = requesting("p", 1, json!({}));
    pod["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    world.create_all(vec![pod.clone()]);
    assert_eq!(world.pod_log(), []);
    let mut node = world.api.nodes["node-0"].clone();
    node["metadata"]["labels"]["disk"] = json!("ssd");
    let node = world.api.put(node);
    world.api.nodes.insert("node-0".to_owned(), node);
    let record = NodeRecord::decode(&serde_json::to_vec(&world.api.nodes["node-0"]).unwrap()).unwrap();
    world.manager.observe_nodes(vec![Delta::Added(Arc::new(record))], world.now);
    world.run(1);
    assert_eq!(world.phases(), [("p", "Running")]);
    pod["metadata"]["name"] = json!("q");
    pod["metadata"]["uid"] = json!("q");
    pod["spec"]["nodeSelector"] = json!({"disk": "tape"});
    world.create_all(vec![pod]);
    world.run(2);
    assert_eq!(world.phases()[1], ("q", "Failed"));
    assert_eq!(world.api.pods["q"]["status"]["reason"], "NodeAffinity");
}

#[test]
fn a_new_process_admits_pods_that_ran_before_and_then_the_others() {
    let mut world = one_node();
    world.create_all(vec![requesting("ran", 9, cpu("6")), requesting("also", 8, cpu("2"))]);
    world.run(1);
    let node = serde_json::to_vec(&world.api.nodes["node-0"]).unwrap();
    let node = Arc::new(NodeRecord::decode(&node).unwrap());
    // The node is smaller than before.
    let config = Config { nodes: 1, cpu: "7".to_owned(), ..Config::default() };
    world.manager = Manager::new(config, &Rng::seeded(2), &[node], world.now);
    let mut all: Vec<Value> = world.api.pods.values().cloned().collect();
    all.insert(0, requesting("older", 1, cpu("1")));
    world.create_all(all);
    world.run(3);
    assert_eq!(world.phases(), [("also", "Running"), ("older", "Failed"), ("ran", "Running")]);
    let before = world.api.pods["older"].clone();
    let node = serde_json::to_vec(&world.api.nodes["node-0"]).unwrap();
    let node = Arc::new(NodeRecord::decode(&node).unwrap());
    world.manager =
        Manager::new(Config { nodes: 1, ..Config::default() }, &Rng::seeded(3), &[node], world.now);
    let all = world.api.pods.values().cloned().collect();
    world.api.log.clear();
    world.create_all(all);
    assert_eq!(world.pod_log(), [], "a rejected pod stays as it is");
    assert_eq!(before["status"]["reason"], "OutOfcpu");
}

#[test]
fn pods_that_come_while_their_node_is_stopped_are_admitted_when_it_resumes() {
    let mut world = one_node();
    world.manager.fault("node-0", Fault::Stop, world.now).unwrap();
    world.create_all(vec![requesting("a", 2, cpu("8"))]);
    world.create_all(vec![requesting("b", 1, cpu("8"))]);
    world.run(5);
    assert_eq!(world.pod_log(), []);
    world.manager.fault("node-0", Fault::Resume, world.now).unwrap();
    world.run(6);
    assert_eq!(world.phases(), [("a", "Failed"), ("b", "Running")]);
}

#[test]
fn a_resize_without_room_is_deferred_until_another_pod_goes() {
    let mut world = one_node();
    world.create_all(vec![requesting("p", 1, cpu("150m")), requesting("other", 2, cpu("7500m"))]);
    world.notices.clear();
    world.resize("p", "2", 2);
    let pending = world.find_condition("p", "PodResizePending").unwrap();
    assert_eq!((&pending["reason"], &pending["status"]), (&json!("Deferred"), &json!("True")));
    let why = "Node didn't have enough resource: cpu, requested: 2000, used: 7500, capacity: 8000";
    assert_eq!((&pending["message"], &pending["observedGeneration"]), (&json!(why), &json!(2)));
    assert_eq!(world.container("p")["allocatedResources"], cpu("150m"));
    assert_eq!(world.container("p")["resources"]["requests"], cpu("150m"));
    let event = world.notices.remove(0);
    assert_eq!((&*event.reason, event.warning), ("ResizeDeferred", true));
    let summary =
        r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}],"generation":2,"error":"#;
    assert_eq!(event.message, format!("Pod resize Deferred: {summary}\"{why}\"}}"));
    world.run(5);
    world.edit("other", deleted);
    world.show("other");
    world.settle();
    world.run(6);
    assert!(world.find_condition("p", "PodResizePending").is_none());
    assert_eq!(world.find_condition("p", "PodResizeInProgress").unwrap()["status"], "True");
    assert_eq!(world.container("p")["allocatedResources"], cpu("2"));
    assert_eq!(world.container("p")["resources"]["requests"], cpu("150m"));
    world.run(8);
    assert!(world.find_condition("p", "PodResizeInProgress").is_none());
    assert_eq!(world.container("p")["resources"]["requests"], cpu("2"));
    assert_eq!((&world.container("p")["restartCount"], world.phases()), (&json!(0), vec![("p", "Running")]));
    let resizes = world.reasons().into_iter().filter(|reason| reason.starts_with("Resize"));
    assert_eq!(resizes.collect::<Vec<_>>(), ["ResizeStarted", "ResizeCompleted"]);
}

#[test]
fn a_deferred_resize_that_is_withdrawn_leaves_no_condition() {
    let mut world = one_node();
    world.create_all(vec![requesting("p", 1, cpu("1")), requesting("other", 2, cpu("7"))]);
    world.resize("p", "2", 2);
    assert!(world.find_condition("p", "PodResizePending").is_some());
    world.resize("p", "1", 3);
    assert!(world.find_condition("p", "PodResizePending").is_none());
    world.resize("other", "3", 2);
    world.run(3);
    assert_eq!(world.container("other")["resources"]["requests"], cpu("3"), "a smaller pod always fits");
    world.resize("p", "5", 4);
    world.run(6);
    assert_eq!(world.container("p")["resources"]["requests"], cpu("5"));
}

#[test]
fn a_resize_beyond_the_node_is_infeasible_and_a_new_process_remembers_the_allocation() {
    let mut world = one_node();
    world.create_all(vec![requesting("p", 1, cpu("1"))]);
    world.resize("p", "9", 2);
    let pending = world.find_condition("p", "PodResizePending").unwrap();
    let why = "Node didn't have enough capacity: cpu, requested: 9000, capacity: 8000";
    assert_eq!((&pending["reason"], &pending["message"]), (&json!("Infeasible"), &json!(why)));
    let node = serde_json::to_vec(&world.api.nodes["node-0"]).unwrap();
    let node = Arc::new(NodeRecord::decode(&node).unwrap());
    world.manager =
        Manager::new(Config { nodes: 1, ..Config::default() }, &Rng::seeded(3), &[node], world.now);
    let all = world.api.pods.values().cloned().collect();
    world.create_all(all);
    world.run(3);
    assert_eq!(world.container("p")["allocatedResources"], cpu("1"));
    assert_eq!(world.find_condition("p", "PodResizePending").unwrap()["reason"], "Infeasible");
    world.create_all(vec![requesting("fits", 2, cpu("7"))]);
    world.run(4);
    assert_eq!(world.phases()[0], ("fits", "Running"));
}

#[test]
fn a_container_restarts_for_a_resize_if_its_policy_says_so() {
    let mut world = one_node();
    let mut pod = requesting("p", 1, cpu("1"));
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    pod["spec"]["containers"][0]["resizePolicy"] = policy;
    world.create_all(vec![pod]);
    world.resize("p", "2", 2);
    world.run(5);
    assert_eq!(world.container("p")["restartCount"], 1);
    assert_eq!(world.container("p")["resources"]["requests"], cpu("2"));
    assert!(world.notices.iter().any(|one| one.message == "Container c resize requires restart"));
}
