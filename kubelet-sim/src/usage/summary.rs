//! The kubelet document `/stats/summary`, in JSON: processor and memory usage. Values that a simulated node
//! does not have (file systems, networks, swap) are left out, as the format allows.

use super::{ContainerUsage, NodeUsage, PodUsage};
use jiff::Timestamp;
use kstore_api::meta::format_time;
use serde_json::{Value, json};

/// The document for a sample.
pub(crate) fn summary(usage: &NodeUsage) -> Value {
    let at = format_time(usage.at);
    let mut node = figures(&at, usage.nano_cores(), usage.cpu_nanos, usage.memory());
    node["nodeName"] = json!(usage.name);
    let pods: Vec<Value> = usage.pods.iter().map(|pod| of_pod(pod, &at)).collect();
    json!({ "node": node, "pods": pods })
}

fn of_pod(pod: &PodUsage, at: &str) -> Value {
    let mut document = figures(at, pod.nano_cores(), pod.cpu_nanos, pod.memory());
    document["podRef"] = json!({ "name": pod.name, "namespace": pod.namespace, "uid": pod.uid });
    set_start(&mut document, pod.started);
    document["containers"] = pod.containers.iter().map(|container| of_container(container, at)).collect();
    document
}

fn of_container(container: &ContainerUsage, at: &str) -> Value {
    let mut document = figures(at, container.nano_cores, container.cpu_nanos, container.memory);
    document["name"] = json!(container.name);
    set_start(&mut document, Some(container.started));
    document
}

fn set_start(document: &mut Value, start: Option<Timestamp>) {
    if let Some(start) = start {
        document["startTime"] = json!(format_time(start));
    }
}

fn figures(at: &str, nano_cores: u64, cpu_nanos: u64, memory: u64) -> Value {
    json!({
        "cpu": { "time": at, "usageNanoCores": nano_cores, "usageCoreNanoSeconds": cpu_nanos },
        "memory": { "time": at, "workingSetBytes": memory },
    })
}
