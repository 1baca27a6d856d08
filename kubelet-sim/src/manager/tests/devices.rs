//! Devices of groups' nodes: their slices and classes in the API, and what faults do to them.

use super::{Api, Failure, World};
use crate::config::Config;
use crate::device::publication::{self, SliceWrite};
use crate::manager::write::DevicePools;
use serde_json::{Value, json};

impl Api {
    /// Shows on a Node that its machine is taken back.
    pub(super) fn notify(&mut self, node: &str, patch: &Value) -> Result<(), Failure> {
        let mut object = self.nodes.get(node).cloned().ok_or(Failure::NotFound)?;
        let base = &patch["metadata"]["resourceVersion"];
        if !base.is_null() && object["metadata"]["resourceVersion"] != *base {
            return Err(Failure::Conflict);
        }
        for (member, value) in patch["spec"].as_object().into_iter().flatten() {
            object["spec"][member] = value.clone();
        }
        let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
        for (key, value) in patch["metadata"]["annotations"].as_object().into_iter().flatten() {
            match value.is_null() {
                true => drop(annotations.remove(key)),
                false => drop(annotations.insert(key.clone(), value.clone())),
            }
        }
        let object = self.put(object);
        self.nodes.insert(node.to_owned(), object);
        Ok(())
    }

    /// Publishes the pools of a node.
    pub(super) fn publish(&mut self, node: &str, pools: &DevicePools) {
        let existing = self.slices.remove(node).unwrap_or_default();
        let mut slices = existing.clone();
        for write in publication::plan(node, &pools.uid, &pools.pools, &existing) {
            let name = match &write {
                SliceWrite::Create(slice) | SliceWrite::Replace(slice) => slice.metadata.name.clone(),
                SliceWrite::Delete(name) => Some(name.clone()),
            };
            slices.retain(|slice| slice.metadata.name != name);
            if let SliceWrite::Create(slice) | SliceWrite::Replace(slice) = write {
                slices.push(*slice);
            }
        }
        self.classes.extend(pools.classes.iter().map(|class| class.metadata.name.clone().unwrap()));
        self.slices.insert(node.to_owned(), slices);
    }
}

impl World {
    /// The slices of a node as name, generation and the names of devices; those with a taint have its key behind them.
    fn published(&self, node: &str) -> Vec<(String, i64, Vec<String>)> {
        let of = |device: &k8s_openapi::api::resource::v1::Device| {
            let taints = device.taints.iter().flatten().map(|taint| format!(" {}", taint.key));
            format!("{}{}", device.name, taints.collect::<String>())
        };
        let slices = self.api.slices.get(node).into_iter().flatten();
        slices
            .map(|slice| {
                let devices = slice.spec.devices.iter().flatten().map(of).collect();
                (slice.metadata.name.clone().unwrap(), slice.spec.pool.generation, devices)
            })
            .collect()
    }
}

fn group(devices: Value) -> World {
    let mut world = World::new(Config { nodes: 0, has_sim_api: true, ..Config::default() });
    world.group("gpu", json!({"replicas": 2, "template": {"devices": devices}}));
    world
}

#[test]
fn nodes_publish_their_devices_once_and_a_fault_changes_those_of_its_node_alone() {
    let mut world = group(json!([{"profile": "nvidia", "model": "T4", "count": 2}]));
    let slice = |node: &str, generation, devices: &[&str]| {
        let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
        (format!("{node}-gpu.nvidia.com-0"), generation, devices)
    };
    assert_eq!(world.published("gpu-0"), [slice("gpu-0", 1, &["gpu-0", "gpu-1"])]);
    let owner = &world.api.slices["gpu-1"][0].metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Node", "uid-gpu-1"));
    world.api.log.clear();
    world.run(30);
    assert!(world.api.log.iter().all(|(_, word)| !word.starts_with("devices")), "{:?}", world.api.log);
    world.annotate("gpu-0", "xid=79,gpu-1+60; driver-away@100+60");
    assert_eq!(world.published("gpu-0"), [slice("gpu-0", 2, &["gpu-0", "gpu-1 gpu.nvidia.com/xid"])]);
    assert_eq!(world.published("gpu-1")[0].1, 1);
    world.run(95);
    assert_eq!(world.published("gpu-0"), [slice("gpu-0", 3, &["gpu-0", "gpu-1"])]);
    world.run(159);
    assert_eq!(world.published("gpu-0").len(), 1, "the driver is away for less than 30 seconds");
    world.run(161);
    assert_eq!(world.published("gpu-0"), []);
    world.run(200);
    assert_eq!(world.published("gpu-0"), [slice("gpu-0", 1, &["gpu-0", "gpu-1"])]);
    world.api.classes.sort();
    world.api.classes.dedup();
    assert_eq!(world.api.classes, ["gpu.nvidia.com"]);
}

#[test]
fn devices_of_a_plugin_are_capacity_and_those_of_an_old_cluster_are_not_published() {
    let mut world = group(json!([{"profile": "tpu", "count": 4, "publish": "plugin"}]));
    assert_eq!(world.api.nodes["gpu-0"]["status"]["allocatable"]["google.com/tpu"], "4");
    world.run(1);
    assert!(world.api.slices.is_empty() && world.api.classes.is_empty());
    let minor = kstore_api::version::Minor::V33;
    let mut old = World::new(Config { nodes: 0, has_sim_api: true, minor, ..Config::default() });
    old.group("gpu", json!({"replicas": 1, "template": {"devices": [{"profile": "tpu"}]}}));
    old.run(1);
    assert!(old.api.nodes.contains_key("gpu-0") && old.api.slices.is_empty());
}

#[test]
fn a_reclaimed_node_has_notice_and_is_replaced_when_it_is_over() {
    let mut world = group(json!([]));
    world.run(10);
    world.annotate("gpu-1", "reclaim=60s");
    let node = &world.api.nodes["gpu-1"];
    assert_eq!(node["spec"]["taints"], json!([{"key": "sim.kstore.io/reclaim", "effect": "NoSchedule"}]));
    assert_eq!(node["metadata"]["annotations"]["sim.kstore.io/reclaim-at"], "1970-01-01T00:01:10Z");
    let notices = world.notices.iter().filter(|notice| notice.reason == "SpotInterruption");
    assert_eq!(
        notices.map(|notice| notice.message.as_str()).collect::<Vec<_>>(),
        ["the machine is taken back at 1970-01-01T00:01:10Z"]
    );
    world.run(69);
    assert!(world.api.nodes["gpu-1"]["spec"]["taints"].is_array());
    world.run(72);
    assert_eq!(
        world.api.nodes.keys().collect::<Vec<_>>(),
        ["gpu-0", "gpu-2"],
        "another instance replaces it"
    );
}

#[test]
fn a_withdrawn_reclaim_takes_its_taint_and_its_annotation_with_it() {
    let mut world = group(json!([]));
    world.run(10);
    world.annotate("gpu-1", "reclaim=60s");
    assert!(world.api.nodes["gpu-1"]["spec"]["taints"].is_array());
    world.run(20);
    world.annotate("gpu-1", "");
    let node = &world.api.nodes["gpu-1"];
    assert_eq!(node["spec"]["taints"], json!([]));
    assert!(node["metadata"]["annotations"].get("sim.kstore.io/reclaim-at").is_none());
    world.run(100);
    assert!(world.api.nodes.contains_key("gpu-1"), "the machine stays");
}

#[test]
fn a_node_has_none_of_a_plugins_resources_until_it_registers_after_a_restart_of_the_kubelet() {
    let mut world = group(json!([{"profile": "tpu", "count": 4, "publish": "plugin"}]));
    let amounts = |world: &World| {
        let status = &world.api.nodes["gpu-0"]["status"];
        [&status["capacity"]["google.com/tpu"], &status["allocatable"]["google.com/tpu"]].map(Clone::clone)
    };
    world.run(10);
    world.annotate("gpu-0", "kubelet-restart=5s");
    world.run(14);
    assert_eq!(amounts(&world), ["4", "4"], "the kubelet writes nothing");
    world.run(16);
    assert_eq!(amounts(&world), ["0", "0"]);
    world.create("a", "elsewhere", json!({}));
    world.edit("a", |pod| {
        pod["spec"]["nodeName"] = json!("gpu-0");
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"google.com/tpu": "1"}});
    });
    world.show("a");
    world.run(18);
    let status = &world.api.pods["a"]["status"];
    assert_eq!(status["reason"], "UnexpectedAdmissionError");
    let message = "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices \
                   google.com/tpu, which is unexpected";
    assert_eq!(status["message"], message);
    world.run(21);
    assert_eq!(amounts(&world), ["4", "4"]);
    assert_eq!(world.api.nodes["gpu-1"]["status"]["capacity"]["google.com/tpu"], "4");
}
