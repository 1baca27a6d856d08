//! Faults of a node's runtime, registry, volumes, speed and clock: what the API shows while they hold and afterwards.

use super::World;
use crate::config::Config;
use crate::fault::{FaultError, FaultPhase, FaultReport, Order, OrderRequest, WrittenFaults};
use crate::manager::Manager;
use crate::pod_object::source::{SourceKey, SourceKind, SourceState};
use crate::record::NodeRecord;
use kstore_informer::{Delta, Revision};
use kstore_nondet::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;

fn config() -> Config {
    Config { nodes: 1, ..Config::default() }
}

impl World {
    fn ready_message(&self) -> String {
        let conditions = self.api.nodes["node-0"]["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|one| one["type"] == "Ready").unwrap();
        format!("{} {}", ready["status"].as_str().unwrap(), ready["message"].as_str().unwrap())
    }

    fn waiting(&self, pod: &str) -> String {
        self.container(pod)["state"]["waiting"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Second, reason and message of each warning about pods. The second is that of the last call.
    fn warnings(&mut self) -> Vec<(String, String)> {
        let warnings = std::mem::take(&mut self.notices).into_iter().filter(|notice| notice.warning);
        warnings.map(|notice| (notice.reason.into_owned(), notice.message)).collect()
    }

    /// Creates a pod with a volume of a bound claim.
    fn create_with_claim(&mut self, name: &str) {
        self.create(name, "elsewhere", json!({}));
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]);
        self.edit(name, |pod| {
            pod["spec"]["nodeName"] = json!("node-0");
            pod["spec"]["volumes"] = volumes;
        });
        self.show(name);
        let key = SourceKey { kind: SourceKind::Claim, namespace: "default".into(), name: "disk".into() };
        self.manager.observe_source(key, SourceState::Present(BTreeSet::new()), self.now);
        self.settle();
    }

    /// The faults of node-0 now.
    fn reports(&mut self) -> Vec<FaultReport> {
        let (done, mut answer) = oneshot::channel();
        let order = Order { node: "node-0".to_owned(), request: OrderRequest::Report(done) };
        self.manager.obey(order, self.now);
        answer.try_recv().expect("an order is answered at once").expect("the node exists")
    }

    /// The simulation ends, and another process goes on with what the API has.
    fn restart(&mut self, config: Config) {
        let records = self
            .api
            .nodes
            .values()
            .map(|node| Arc::new(NodeRecord::decode(&serde_json::to_vec(node).unwrap()).unwrap()));
        let records: Vec<_> = records.collect();
        self.manager = Manager::new(config, &Rng::seeded(2), &records, self.now);
        for name in self.api.pods.keys().cloned().collect::<Vec<_>>() {
            self.show(&name);
        }
        self.settle();
    }
}

#[test]
fn a_node_without_its_runtime_starts_nothing_and_goes_on_running_what_it_has() {
    let mut world = World::new(config());
    world.create("old", "node-0", json!({}));
    world.create("short", "node-0", json!({"kubelet-sim.kstore.io/run-seconds": "30"}));
    world.run(10);
    world.warnings();
    world.annotate("node-0", "runtime-down+300");
    assert_eq!(world.ready_message(), "False container runtime is down");
    world.create("new", "node-0", json!({}));
    world.run(15);
    assert_eq!(world.container("new")["state"]["waiting"]["reason"], "ContainerCreating");
    let (reason, message) =
        world.warnings().into_iter().find(|(reason, _)| reason.starts_with("FailedCreate")).unwrap();
    assert_eq!(reason, "FailedCreatePodSandBox");
    assert!(message.contains("connect: connection refused"), "{message}");
    world.run(40);
    assert_eq!(world.container("old")["ready"], true);
    assert_eq!(world.waiting("short"), "ImageInspectError");
    assert!(world.warnings().iter().any(|(reason, _)| reason == "InspectFailed"));
    world.run(195);
    let message = world.ready_message();
    assert!(message.starts_with("False [container runtime is down, PLEG is not healthy: "), "{message}");
    world.run(325);
    assert_eq!(world.ready_message(), "True kubelet is posting ready status");
    assert_eq!(world.container("new")["ready"], true);
    assert!(world.container("short")["restartCount"].as_u64().unwrap() >= 1);
}

#[test]
fn pulls_of_a_node_fail_as_the_fault_says_and_images_on_the_node_need_none() {
    for (fault, text) in [
        ("pull-fail+60", "dial tcp: i/o timeout"),
        ("pull-fail=not-found+60", "not found"),
        ("pull-fail=unauthorized+60", "pull access denied"),
        ("pull-fail=rate-limit+60", "429 Too Many Requests"),
    ] {
        let mut world = World::new(config());
        world.annotate("node-0", fault);
        world.create("a", "node-0", json!({}));
        assert_eq!(world.waiting("a"), "ErrImagePull", "{fault}");
        let message = world.container("a")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(text), "{fault}: {message}");
        world.run(30);
        assert_eq!(world.waiting("a"), "ImagePullBackOff", "{fault}");
        world.run(120);
        assert_eq!(world.container("a")["ready"], true, "{fault}");
        world.annotate("node-0", "pull-fail=not-found");
        world.create("b", "node-0", json!({}));
        assert_eq!(world.container("b")["ready"], true, "{fault}: the image is there");
    }
}

#[test]
fn slow_nodes_and_registries_take_a_multiple_of_the_usual_times() {
    for (fault, image_pull, ready_at) in [
        ("pull-slow=4", "5s", 23),
        ("pull-slow=4", "0s", 3),
        ("slow=3", "5s", 17),
        ("slow=3", "0s", 2),
        ("slow=2; pull-slow=2", "5s", 22),
    ] {
        let mut world = World::new(config());
        world.annotate("node-0", fault);
        world.run(5);
        world.api.log.clear();
        let started = 5;
        world.create("a", "node-0", json!({"kubelet-sim.kstore.io/image-pull": image_pull}));
        world.run(60);
        let ready = world.pod_log().into_iter().find(|(_, word)| word.ends_with("ready")).unwrap();
        assert_eq!(ready.0 - started, ready_at, "{fault} {image_pull}");
    }
}

#[test]
fn a_slow_node_renews_its_lease_late_and_not_at_once_when_it_is_healed() {
    let leases = |fault: &str| {
        let mut world = World::new(config());
        world.annotate("node-0", fault);
        world.run(200);
        world
            .api
            .log
            .iter()
            .filter(|(_, word)| word.starts_with("lease"))
            .map(|(at, _)| *at)
            .collect::<Vec<_>>()
    };
    let usual = leases("");
    let slow = leases("slow=41");
    assert!(usual.len() >= 19 && slow.len() <= 5, "{usual:?} {slow:?}");
    assert!(slow.windows(2).all(|pair| pair[1] - pair[0] >= 40), "{slow:?}");
    let healed = leases("slow=41+100");
    assert!(healed.iter().filter(|at| **at > 100).count() >= 9, "{healed:?}");
}

#[test]
fn times_that_a_node_notes_are_those_of_its_clock() {
    let mut world = World::new(config());
    world.create("before", "node-0", json!({}));
    world.run(10);
    world.annotate("node-0", "clock-skew=1h@10+60");
    world.run(25);
    world.create("during", "node-0", json!({}));
    let started = |world: &World, pod: &str| world.container(pod)["state"]["running"]["startedAt"].clone();
    assert_eq!(started(&world, "during"), "1970-01-01T01:00:25Z");
    assert_eq!(world.api.pods["during"]["status"]["startTime"], "1970-01-01T01:00:25Z");
    let renewed = world.api.leases["node-0"]["spec"]["renewTime"].as_str().unwrap().to_owned();
    assert!(renewed.starts_with("1970-01-01T01:00:2"), "{renewed}");
    assert_eq!(world.manager.wrong_time("node-0", world.now).unwrap().as_second(), 3625);
    world.run(90);
    world.create("after", "node-0", json!({}));
    assert_eq!(started(&world, "after"), "1970-01-01T00:01:30Z");
    world.edit("before", |pod| pod["status"]["phase"] = json!("Pending"));
    world.edit("during", |pod| pod["status"]["phase"] = json!("Pending"));
    world.show("before");
    world.show("during");
    world.run(120);
    assert_eq!(started(&world, "before"), "1970-01-01T00:00:00Z");
    assert_eq!(started(&world, "during"), "1970-01-01T01:00:25Z", "a time that was noted stays");
    world.annotate("node-0", "clock-drift=100000");
    world.run(220);
    assert_eq!(world.manager.wrong_time("node-0", world.now).unwrap().as_second(), 230);
}

#[test]
fn pods_wait_for_volumes_that_cannot_be_attached_or_are_slow_to_mount() {
    let mut world = World::new(config());
    world.annotate("node-0", "volume-attach-fail@1+30");
    world.run(2);
    world.warnings();
    world.create_with_claim("a");
    world.create("plain", "node-0", json!({}));
    world.run(30);
    assert_eq!(world.container("plain")["ready"], true);
    assert_eq!(world.api.pods["a"]["status"]["phase"], "Pending");
    let attach = "AttachVolume.Attach failed for volume \"data\" : rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    assert_eq!(world.warnings(), [("FailedAttachVolume".to_owned(), attach.to_owned())]);
    world.run(32);
    assert_eq!(world.container("a")["ready"], true);
    world.annotate("node-0", "mount-slow=150s");
    world.create_with_claim("b");
    world.run(181);
    assert_eq!(world.api.pods["b"]["status"]["phase"], "Pending");
    let mount = "MountVolume.SetUp failed for volume \"data\" : rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    assert_eq!(world.warnings(), [("FailedMount".to_owned(), mount.to_owned())]);
    world.run(183);
    assert_eq!(world.container("b")["ready"], true);
    world.create_with_claim("c");
    world.run(190);
    world.annotate("node-0", "");
    assert_eq!(world.container("c")["ready"], true, "a healed node does not wait");
}

#[test]
fn a_pod_has_another_address_after_a_crash_and_its_init_containers_run_again() {
    let mut world = World::new(config());
    world.create("a", "elsewhere", json!({"kubelet-sim.kstore.io/init.run-seconds": "5"}));
    world.edit("a", |pod| {
        pod["spec"]["nodeName"] = json!("node-0");
        pod["spec"]["initContainers"] = json!([{"name": "init", "image": "busybox:1"}]);
    });
    world.show("a");
    world.create("done", "node-0", json!({"kubelet-sim.kstore.io/run-seconds": "3"}));
    world.run(10);
    assert_eq!(world.container("a")["ready"], true);
    let before = world.api.pods["a"]["status"]["podIP"].clone();
    world.annotate("node-0", "crash+30");
    world.run(43);
    let status = |world: &World| world.api.pods["a"]["status"].clone();
    assert_ne!(status(&world)["podIP"], before);
    assert_eq!(status(&world)["containerStatuses"][0]["ready"], false, "the init container runs first");
    assert!(world.notices.iter().any(|notice| notice.reason == "SandboxChanged"));
    world.run(60);
    assert_eq!(status(&world)["containerStatuses"][0]["ready"], true);
    assert_eq!(status(&world)["initContainerStatuses"][0]["restartCount"], 1);
    let addresses: BTreeSet<_> =
        world.api.pods.values().map(|pod| pod["status"]["podIP"].to_string()).collect();
    assert_eq!(addresses.len(), 2);
}

#[test]
fn times_of_the_annotation_survive_a_restart_of_the_simulation() {
    let since = |world: &World| -> Value {
        world.api.nodes["node-0"]["metadata"]["annotations"]["kubelet-sim.kstore.io/fault-since"].clone()
    };
    let mut world = World::new(config());
    world.run(5);
    world.annotate("node-0", "not-ready=why");
    assert_eq!(since(&world), Value::Null, "it has no times");
    world.annotate("node-0", "not-ready=why@20+60");
    assert!(since(&world).as_str().unwrap().starts_with("1970-01-01T00:00:05Z/"), "{}", since(&world));
    world.run(50);
    assert_eq!(world.ready_message(), "False why");
    world.restart(config());
    world.run(84);
    assert_eq!(world.ready_message(), "False why");
    world.run(86);
    assert_eq!(world.ready_message(), "True kubelet is posting ready status");
    world.restart(config());
    world.run(200);
    assert!(world.ready_message().starts_with("True"), "the fault is over for good");
    world.annotate("node-0", "not-ready=why@20+61");
    world.run(219);
    assert!(world.ready_message().starts_with("True"), "another text counts from now");
    world.run(221);
    assert_eq!(world.ready_message(), "False why");
    world.annotate("node-0", "");
    assert_eq!(since(&world), Value::Null);
}

#[test]
fn a_fault_that_is_added_or_withdrawn_leaves_the_times_of_the_others_alone() {
    let mut world = World::new(config());
    world.run(10);
    world.annotate("node-0", "not-ready=why+100");
    world.run(60);
    world.annotate("node-0", "not-ready=why+100; memory-pressure@5+50");
    world.restart(config());
    world.run(109);
    assert_eq!(world.ready_message(), "False why");
    world.run(111);
    assert!(world.ready_message().starts_with("True"), "it began at 10, whatever came after it");
    let reports = world.reports();
    assert_eq!(
        reports.iter().map(|one| one.state).collect::<Vec<_>>(),
        [FaultPhase::Over, FaultPhase::Active]
    );
    assert_eq!(reports[1].next.unwrap().as_second(), 115, "{reports:?}");

    // Equal faults merge to the later end, also if one of them is withdrawn.
    world.annotate("node-0", "not-ready=b+50");
    world.run(130);
    world.annotate("node-0", "not-ready=b+50;not-ready=b+50");
    world.run(170);
    assert_eq!(world.ready_message(), "False b");
    world.annotate("node-0", "not-ready=b+50");
    world.run(179);
    assert_eq!(world.ready_message(), "False b");
    world.run(181);
    assert!(world.ready_message().starts_with("True"));
}

#[test]
fn a_written_annotation_is_in_force_before_the_informer_brings_it() {
    let mut world = World::new(config());
    world.run(10);
    let old = serde_json::to_vec(&world.api.nodes["node-0"]).unwrap();
    let mut node = world.api.nodes["node-0"].clone();
    node["metadata"]["annotations"]["kubelet-sim.kstore.io/fault"] = json!("not-ready=why; hang@5");
    let node = world.api.put(node);
    world.api.nodes.insert("node-0".to_owned(), node);
    let revision = Revision(world.api.revision);
    let written = WrittenFaults { list: "not-ready=why; hang@5".to_owned(), revision };
    let (done, mut answer) = oneshot::channel();
    let order = |node: &str, request| Order { node: node.to_owned(), request };
    world.manager.obey(order("node-0", OrderRequest::Annotation(written, done)), world.now);
    assert_eq!(answer.try_recv().unwrap(), Ok(()));
    let reports = world.reports();
    assert_eq!(reports[0].item, "not-ready=why");
    let [first, second] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((first.state, first.by.as_str(), first.next), (FaultPhase::Active, "annotation", None));
    assert_eq!((second.state, second.fault.as_str()), (FaultPhase::Waiting, "hang"));
    // A change of the Node from before the write comes late.
    let record = Arc::new(NodeRecord::decode(&old).unwrap());
    world.manager.observe_nodes(vec![Delta::Added(record)], world.now);
    assert_eq!(world.reports().len(), 2);
    world.settle();
    assert_eq!(world.ready_message(), "False why");
    world.annotate("node-0", "");
    assert!(world.reports().is_empty());

    world.manager.fault("node-0", crate::fault::Fault::Stop, world.now).unwrap();
    let stop = world.reports();
    assert_eq!((stop[0].fault.as_str(), stop[0].by.as_str()), ("freeze", "stop"));
    let (done, mut answer) = oneshot::channel();
    world.manager.obey(order("none", OrderRequest::Report(done)), world.now);
    assert_eq!(answer.try_recv().unwrap(), Err(FaultError::NoSuchNode("none".to_owned())));
}
