//! Builds NodeMetrics and PodMetrics from objects and kubelets' summaries. Pure.

use crate::resource::{GROUP, Resource, VERSION};
use crate::summary::{PodStats, Sample, Summary};
use kstore_api::meta::{self, format_time};
use kstore_api::quantity::{Format, Quantity};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The measurement window. Simulated usage has none; Kubernetes' metrics server reads kubelets at this
/// interval.
const WINDOW: &str = "15s";

/// Summaries by node name; nodes that did not answer are missing.
pub(crate) type Summaries = BTreeMap<String, Summary>;

/// The NodeMetrics of nodes, in their order. Nodes without a sample are left out.
pub(crate) fn of_nodes(nodes: &[Value], summaries: &Summaries) -> Vec<Value> {
    let of_node = |node: &Value| {
        let sample = summaries.get(meta::name(node))?.node.sample()?;
        let mut metrics = object(Resource::Nodes, node, sample);
        metrics["usage"] = usage(sample);
        Some(metrics)
    };
    nodes.iter().filter_map(of_node).collect()
}

/// The PodMetrics of pods, in their order. Pods without a running container, or with a container without a
/// sample, are left out.
pub(crate) fn of_pods(pods: &[Value], summaries: &Summaries) -> Vec<Value> {
    let stats = summaries.values().flat_map(|summary| &summary.pods);
    let by_uid: BTreeMap<&str, &PodStats> = stats.map(|stats| (&*stats.pod_ref.uid, stats)).collect();
    pods.iter().filter_map(|pod| of_pod(pod, by_uid.get(meta::uid(pod))?)).collect()
}

fn of_pod(pod: &Value, stats: &PodStats) -> Option<Value> {
    let samples = stats.containers.iter().map(|container| Some((&container.name, container.stats.sample()?)));
    let samples: Vec<(&String, Sample)> = samples.collect::<Option<_>>()?;
    let first = samples.iter().map(|(_, sample)| *sample).min_by_key(|sample| sample.at)?;
    let mut metrics = object(Resource::Pods, pod, first);
    metrics["metadata"]["namespace"] = json!(meta::namespace(pod));
    metrics["containers"] =
        samples.iter().map(|(name, sample)| json!({"name": name, "usage": usage(*sample)})).collect();
    Some(metrics)
}

/// The parts that both kinds share.
fn object(resource: Resource, of: &Value, sample: Sample) -> Value {
    let at = format_time(sample.at);
    let mut metadata = json!({"name": meta::name(of), "creationTimestamp": at});
    if of["metadata"]["labels"].is_object() {
        metadata["labels"] = of["metadata"]["labels"].clone();
    }
    json!({"kind": resource.kind(), "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata,
        "timestamp": at, "window": WINDOW})
}

fn usage(sample: Sample) -> Value {
    let cpu = Quantity::parse(&format!("{}n", sample.nano_cores)).expect("digits and `n` are a quantity");
    let memory = Quantity::from_units(i64::try_from(sample.memory).unwrap_or(i64::MAX), Format::BinarySi);
    json!({"cpu": cpu.to_string(), "memory": memory.to_string()})
}

/// A list of these objects in a version, without `kind` and `apiVersion` in the items.
pub(crate) fn list(version: &str, resource: Resource, items: Vec<Value>) -> Value {
    let items = items.into_iter().map(|mut item| {
        if let Some(members) = item.as_object_mut() {
            members.retain(|name, _| name != "kind" && name != "apiVersion");
        }
        item
    });
    json!({"kind": format!("{}List", resource.kind()), "apiVersion": format!("{GROUP}/{version}"), "metadata": {},
        "items": items.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(nano: u64, memory: u64) -> Value {
        json!({"cpu": {"time": "2026-01-01T00:00:10Z", "usageNanoCores": nano, "usageCoreNanoSeconds": 1},
            "memory": {"time": "2026-01-01T00:00:10Z", "workingSetBytes": memory, "rssBytes": 1}})
    }

    fn with(mut value: Value, members: Value) -> Value {
        value.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        value
    }

    fn summaries(document: Value) -> Summaries {
        BTreeMap::from([("node-0".to_owned(), serde_json::from_value(document).unwrap())])
    }

    #[test]
    fn only_nodes_that_answer_have_metrics() {
        let nodes = [
            json!({"metadata": {"name": "node-0", "labels": {"disk": "ssd"}}}),
            json!({"metadata": {"name": "node-1"}}),
        ];
        let summaries =
            summaries(json!({"node": with(stats(1_250_000_000, 3 << 30), json!({"nodeName": "node-0"}))}));
        let expected = json!({"kind": "NodeMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "node-0", "creationTimestamp": "2026-01-01T00:00:10Z", "labels": {"disk": "ssd"}},
            "timestamp": "2026-01-01T00:00:10Z", "window": "15s", "usage": {"cpu": "1250m", "memory": "3Gi"}});
        assert_eq!(of_nodes(&nodes, &summaries), [expected]);
        assert_eq!(of_nodes(&nodes, &super::Summaries::new()), [] as [Value; 0]);
    }

    #[test]
    fn a_pod_has_metrics_if_all_of_its_running_containers_have_samples() {
        let pod =
            |name: &str| json!({"metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}")}});
        let pods = ["web", "half", "idle", "again"].map(pod);
        let container = |name: &str, of: Value| with(of, json!({"name": name}));
        let of_pod = |uid: &str, containers: Value| json!({"podRef": {"name": "x", "namespace": "a", "uid": uid}, "containers": containers});
        let summaries = summaries(json!({"node": {}, "pods": [
            of_pod("uid-web", json!([container("web", stats(1, 1000)), container("log", stats(0, 0))])),
            of_pod("uid-half", json!([container("web", stats(1, 1)), {"name": "log"}])),
            of_pod("uid-idle", json!([])),
            of_pod("uid-of-the-pod-before", json!([container("web", stats(1, 1))])),
        ]}));
        let expected = json!({"kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "web", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:10Z"},
            "timestamp": "2026-01-01T00:00:10Z", "window": "15s", "containers": [
                {"name": "web", "usage": {"cpu": "1n", "memory": "1k"}},
                {"name": "log", "usage": {"cpu": "0", "memory": "0"}}]});
        assert_eq!(of_pods(&pods, &summaries), [expected]);
    }

    #[test]
    fn items_of_a_list_do_not_repeat_their_kind() {
        let listed = list(
            VERSION,
            Resource::Pods,
            vec![json!({"kind": "PodMetrics", "apiVersion": "v", "window": "15s"})],
        );
        let expected = json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": [{"window": "15s"}]});
        assert_eq!(listed, expected);
    }
}
