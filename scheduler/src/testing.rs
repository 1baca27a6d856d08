//! Pods, nodes and storage objects for this crate's tests, made by hand and at random.

use crate::change::Change;
use crate::devices::{self, DeviceChange};
use crate::node::{self, NodeInfo};
use crate::pod::{self, PodInfo};
use crate::storage::{Record, StorageChange, claim, class, volume};
use jiff::Timestamp;
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const NAME: &str = "default-scheduler";

/// The processor time of this thread: other work on the machine does not add to it.
pub(crate) fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

/// An unassigned pod with this spec; uid and name are equal.
pub(crate) fn pod(name: &str, mut spec: Value) -> Arc<PodInfo> {
    if spec.get("schedulerName").is_none() {
        spec["schedulerName"] = NAME.into();
    }
    let meta = json!({ "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" });
    decode_pod(&json!({ "metadata": meta, "spec": spec }))
}

pub(crate) fn decode_pod(json: &Value) -> Arc<PodInfo> {
    Arc::new(pod::decode(json.to_string().as_bytes()).unwrap())
}

/// An unassigned pod that requests this much CPU.
pub(crate) fn cpu_pod(name: &str, cpu: &str) -> Arc<PodInfo> {
    pod(name, json!({ "containers": [{ "resources": { "requests": { "cpu": cpu } } }] }))
}

pub(crate) fn with(pod: &Arc<PodInfo>, change: impl FnOnce(&mut PodInfo)) -> Arc<PodInfo> {
    let mut pod = PodInfo::clone(pod);
    change(&mut pod);
    Arc::new(pod)
}

pub(crate) fn on(pod: &Arc<PodInfo>, node: &str) -> Arc<PodInfo> {
    with(pod, |pod| pod.node_name = Some(node.into()))
}

/// A node of four cores, 32 GiB and 110 pods, with this spec.
pub(crate) fn node(name: &str, spec: Value) -> Arc<NodeInfo> {
    decode_node(&json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": spec,
        "status": { "allocatable": { "cpu": "4", "memory": "32Gi", "pods": "110" } }
    }))
}

pub(crate) fn decode_node(json: &Value) -> Arc<NodeInfo> {
    Arc::new(node::decode(json.to_string().as_bytes()).unwrap())
}

/// An unassigned pod with a volume for each of these claims.
pub(crate) fn claiming_pod(name: &str, claims: &[&str]) -> Arc<PodInfo> {
    let volume = |claim: &&str| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } });
    pod(name, json!({ "volumes": claims.iter().map(volume).collect::<Vec<_>>() }))
}

/// A claim of one gibibyte in the namespace of [`pod`], with the fields of `more`.
pub(crate) fn claim(name: &str, more: Value) -> StorageChange {
    let mut value = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "5" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        "status": { "phase": "Pending" },
    });
    merge(&mut value, more);
    StorageChange::Claim(set(&value, claim::decode))
}

/// A claim that is bound to a volume.
pub(crate) fn bound_claim(name: &str, volume: &str, mut more: Value) -> StorageChange {
    merge(
        &mut more,
        json!({
            "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
            "spec": { "volumeName": volume }, "status": { "phase": "Bound" },
        }),
    );
    claim(name, more)
}

/// An available volume of this size, with the fields of `more`.
pub(crate) fn volume(name: &str, size: &str, more: Value) -> StorageChange {
    let mut value = json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": "5" },
        "spec": { "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": { "storage": size } },
        "status": { "phase": "Available" },
    });
    merge(&mut value, more);
    StorageChange::Volume(set(&value, volume::decode))
}

/// The node affinity of a volume that only nodes with this label can use.
pub(crate) fn near(label: &str, value: &str) -> Value {
    let expression = json!({ "key": label, "operator": "In", "values": [value] });
    let terms = json!([{ "matchExpressions": [expression] }]);
    json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } } })
}

/// A class, with the fields of `more`.
pub(crate) fn class(name: &str, provisioner: &str, mode: &str, more: Value) -> StorageChange {
    let mut value = json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": "5" },
        "provisioner": provisioner, "volumeBindingMode": mode,
    });
    merge(&mut value, more);
    StorageChange::Class(set(&value, class::decode))
}

/// A change that sets an object.
pub(crate) fn set<T>(
    value: &Value,
    decode: fn(&[u8]) -> Result<Record<T>, serde_json::Error>,
) -> Change<Record<T>> {
    Change::Set(Arc::new(decode(value.to_string().as_bytes()).unwrap()))
}

/// Merges the fields of `more` into `value`, recursively.
pub(crate) fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, member) in more {
                merge(into.entry(name).or_insert(Value::Null), member);
            }
        }
        (value, more) => *value = more,
    }
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(values)
}

fn maybe(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop_oneof![3 => Just(Value::Null), 1 => value]
}

/// A random node of this name.
pub(crate) fn any_node(name: String) -> impl Strategy<Value = Arc<NodeInfo>> {
    let size = (one_of(&["1", "2", "2500m", "4"]), one_of(&["1Gi", "2Gi", "3500Mi"]), 0i64..6, 0i64..3);
    let effect = one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    let taint =
        (one_of(&["red", "blue"]), effect).prop_map(|(key, effect)| json!({ "key": key, "effect": effect }));
    let taints = proptest::collection::vec(taint, 0..3);
    let character = (one_of(&["", "a", "b"]), one_of(&["ssd", "hdd"]), taints, proptest::bool::weighted(0.1));
    (size, character).prop_map(move |((cpu, memory, pods, gpus), (zone, disk, taints, cordoned))| {
        let mut labels = json!({ "disk": disk });
        if !zone.is_empty() {
            labels["topology.kubernetes.io/zone"] = zone.into();
        }
        decode_node(&json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "taints": taints, "unschedulable": cordoned },
            "status": {
                "allocatable": { "cpu": cpu, "memory": memory, "pods": pods.to_string(), "x.io/gpu": gpus },
                "images": [{ "names": [format!("{disk}:latest"), format!("{disk}:1")], "sizeBytes": pods << 28 }],
            }
        }))
    })
}

/// A random unassigned pod of this name; it may pin itself to nodes `n0` and up.
pub(crate) fn any_pod(name: String) -> impl Strategy<Value = Arc<PodInfo>> {
    let cpu = maybe(one_of(&["100m", "400m", "1"]).prop_map(Value::from));
    let memory = maybe(one_of(&["100Mi", "700Mi", "1Gi"]).prop_map(Value::from));
    let gpu = maybe((0i64..3).prop_map(|n| n.to_string().into()));
    let port = maybe(one_of(&["", "10.0.0.1"]).prop_map(|ip| json!([{ "hostPort": 80, "hostIP": ip }])));
    let key = one_of(&["red", "blue", "node.kubernetes.io/unschedulable"]);
    let toleration = key.prop_map(|key| json!({ "key": key, "operator": "Exists" }));
    let tolerations = proptest::collection::vec(toleration, 0..3);
    let needs = (cpu, memory, gpu, port, tolerations, 0i32..3);
    let looks = (one_of(&["a", "b"]), one_of(&["ssd", "hdd:1", "none"]));
    (needs, any_node_affinity(), any_pod_constraints(), looks).prop_map(
        move |((cpu, memory, gpu, port, tolerations, priority), (selector, nodes), (spread, near, far), (app, image))| {
            let mut requests = json!({ "cpu": cpu, "memory": memory, "x.io/gpu": gpu });
            requests.as_object_mut().unwrap().retain(|_, amount| !amount.is_null());
            let mut affinity = json!({ "nodeAffinity": nodes });
            for (kind, (required, preferred)) in [("podAffinity", near), ("podAntiAffinity", far)] {
                affinity[kind] = json!({
                    "requiredDuringSchedulingIgnoredDuringExecution": required,
                    "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                });
            }
            let spec = json!({
                "priority": priority, "tolerations": tolerations, "nodeSelector": selector, "affinity": affinity,
                "containers": [{ "image": image, "resources": { "requests": requests }, "ports": port }],
                "topologySpreadConstraints": spread, "schedulerName": NAME
            });
            let meta = json!({ "name": name, "namespace": "ns", "uid": name, "labels": { "app": app } });
            decode_pod(&json!({ "metadata": meta, "spec": spec }))
        },
    )
}

/// A random node selector and node affinity.
fn any_node_affinity() -> impl Strategy<Value = (Value, Value)> {
    let selector = maybe(one_of(&["ssd", "hdd"]).prop_map(|disk| json!({ "disk": disk })));
    let names = proptest::collection::vec(0usize..6, 0..3);
    let pinned = maybe(names.prop_map(|names| {
        let names: Vec<String> = names.into_iter().map(|n| format!("n{n}")).collect();
        let field = json!({ "key": "metadata.name", "operator": "In", "values": names });
        json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] })
    }));
    let wish = (1i64..101, one_of(&["ssd", "hdd"])).prop_map(|(weight, disk)| {
        let term = json!({ "matchExpressions": [{ "key": "disk", "operator": "In", "values": [disk] }] });
        json!({ "weight": weight, "preference": term })
    });
    (selector, pinned, proptest::collection::vec(wish, 0..3)).prop_map(|(selector, pinned, wishes)| {
        let nodes = json!({
            "requiredDuringSchedulingIgnoredDuringExecution": pinned,
            "preferredDuringSchedulingIgnoredDuringExecution": wishes
        });
        (selector, nodes)
    })
}

/// Random topology spread constraints, and required and preferred terms of affinity and anti-affinity.
fn any_pod_constraints() -> impl Strategy<Value = (Value, (Value, Value), (Value, Value))> {
    let key = || one_of(&["topology.kubernetes.io/zone", "disk"]);
    let selector = || one_of(&["a", "b"]).prop_map(|app| json!({ "matchLabels": { "app": app } }));
    let policy = || maybe(one_of(&["Honor", "Ignore"]).prop_map(Value::from));
    let spread = |when: &'static str| {
        let selector = prop_oneof![5 => selector(), 1 => Just(json!({})), 1 => Just(Value::Null)];
        let spread = (key(), selector, 1i64..3, 1i64..4, policy(), policy());
        spread.prop_map(move |(key, selector, skew, domains, nodes, taints)| {
            json!({
                "topologyKey": key, "labelSelector": selector, "maxSkew": skew, "minDomains": domains,
                "whenUnsatisfiable": when, "nodeAffinityPolicy": nodes, "nodeTaintsPolicy": taints
            })
        })
    };
    let hard = maybe(spread("DoNotSchedule").prop_map(|one| json!([one])));
    let soft = maybe(proptest::collection::vec(spread("ScheduleAnyway"), 1..3).prop_map(Value::from));
    let spread = (hard, soft).prop_map(|(hard, soft)| {
        let both = [hard, soft].into_iter().filter_map(|list| list.as_array().cloned());
        Value::from(both.flatten().collect::<Vec<_>>())
    });
    let term = || (key(), selector()).prop_map(|(key, s)| json!({ "topologyKey": key, "labelSelector": s }));
    let terms = move || maybe(proptest::collection::vec(term(), 1..3).prop_map(Value::from));
    let weighted = move || {
        let weighted =
            (1i64..101, term()).prop_map(|(weight, t)| json!({ "weight": weight, "podAffinityTerm": t }));
        maybe(proptest::collection::vec(weighted, 1..3).prop_map(Value::from))
    };
    let both = move || (terms(), weighted());
    (spread, both(), both())
}

/// A class of devices with these selectors, and the fields of `more` in its spec.
pub(crate) fn device_class(name: &str, selectors: &[&str], more: Value) -> DeviceChange {
    let selectors: Vec<Value> =
        selectors.iter().map(|text| json!({ "cel": { "expression": text } })).collect();
    let mut value = json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "5" }, "spec": { "selectors": selectors } });
    merge(&mut value["spec"], more);
    DeviceChange::Class(set(&value, devices::class::decode))
}

/// The only slice of a pool of the driver `gpu.x`, which has the name of the slice. `spec` says which nodes can use
/// the devices.
pub(crate) fn device_slice(name: &str, spec: Value) -> DeviceChange {
    let mut value = json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": "5" },
        "spec": { "driver": "gpu.x", "pool": { "name": name, "generation": 1, "resourceSliceCount": 1 } },
    });
    merge(&mut value["spec"], spec);
    DeviceChange::Slice(set(&value, devices::slice::decode))
}

/// A claim with these requests in the namespace of [`pod`], with the fields of `more`.
pub(crate) fn device_claim(name: &str, requests: Value, more: Value) -> DeviceChange {
    let mut value = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "5" },
        "spec": { "devices": { "requests": requests } },
    });
    merge(&mut value, more);
    DeviceChange::Claim(set(&value, devices::claim::decode))
}

/// A request for this number of devices of the class `gpu`.
pub(crate) fn gpus(count: usize) -> Value {
    json!([{ "name": "gpu", "exactly": { "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count } }])
}

/// An unassigned pod with an entry for each of these resource claims.
pub(crate) fn device_pod(name: &str, claims: &[&str]) -> Arc<PodInfo> {
    let entry = |claim: &&str| json!({ "name": claim, "resourceClaimName": claim });
    pod(name, json!({ "resourceClaims": claims.iter().map(entry).collect::<Vec<_>>() }))
}
