//! Samples of a node's pods, and both documents.

use super::{CpuCounters, ExternalUsage, NodeUsage, PodLoad, resource_metrics, summary};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kstore_host_runtime::resources::ResourceUsage;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const START: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START.parse::<Timestamp>().unwrap().as_second() + seconds).unwrap()
}

fn running(name: &str, since: i64) -> Value {
    json!({"name": name, "image": "x", "imageID": "x", "ready": true, "restartCount": 0,
        "state": {"running": {"startedAt": at(since).to_string()}}})
}

/// A pod with these annotations and statuses of containers.
fn pod(name: &str, annotations: &Value, statuses: &[Value]) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "annotations": annotations},
        "status": {"startTime": START, "containerStatuses": statuses},
    }))
    .unwrap()
}

fn using(cpu: &str, memory: &str) -> Value {
    json!({"kubelet-sim.kstore.io/cpu": cpu, "kubelet-sim.kstore.io/memory": memory})
}

#[test]
fn running_containers_use_the_annotated_amounts_and_others_nothing() {
    let ended = json!({"name": "b", "image": "x", "imageID": "x", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0}}});
    let mut own = using("100m", "64Mi");
    own["kubelet-sim.kstore.io/sidecar.cpu"] = json!("1.5");
    let pods = [
        pod("web", &own, &[running("web", 0), running("sidecar", 5)]),
        pod("plain", &json!({}), &[running("a", 0), ended.clone()]),
        pod("done", &using("1", "1Gi"), &[ended]),
    ];
    let usage =
        NodeUsage::sample("node-0", &pods, &ExternalUsage::default(), at(10), &mut CpuCounters::default());
    let now = "2026-01-01T00:00:10Z";
    let figures = |nano: u64, core: u64, memory: u64| {
        json!({"cpu": {"time": now, "usageNanoCores": nano, "usageCoreNanoSeconds": core},
            "memory": {"time": now, "workingSetBytes": memory}})
    };
    let with = |mut value: Value, members: Value| {
        value.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        value
    };
    const SECOND: u64 = 1_000_000_000;
    const MIB: u64 = 1 << 20;
    let expected = json!({
        "node": with(figures(1_600_000_000, 8 * SECOND + SECOND / 2, 128 * MIB), json!({"nodeName": "node-0"})),
        "pods": [
            with(figures(1_600_000_000, 8 * SECOND + SECOND / 2, 128 * MIB), json!({
                "podRef": {"name": "web", "namespace": "default", "uid": "uid-web"}, "startTime": START, "containers": [
                    with(figures(100_000_000, SECOND, 64 * MIB), json!({"name": "web", "startTime": START})),
                    with(figures(1_500_000_000, 7 * SECOND + SECOND / 2, 64 * MIB),
                        json!({"name": "sidecar", "startTime": "2026-01-01T00:00:05Z"})),
                ]})),
            with(figures(0, 0, 0), json!({
                "podRef": {"name": "plain", "namespace": "default", "uid": "uid-plain"}, "startTime": START, "containers": [
                    with(figures(0, 0, 0), json!({"name": "a", "startTime": START}))]})),
        ],
    });
    assert_eq!(summary(&usage), expected);
}

#[test]
fn processor_time_never_decreases_when_usage_falls_or_containers_restart() {
    let mut counters = CpuCounters::default();
    // Second, annotation, start of the run, and the processor time of container, pod and node in seconds.
    let steps = [
        (10, "1", Some(0), [10, 10, 10]),
        (20, "500m", Some(0), [15, 15, 15]),
        (20, "4", Some(0), [15, 15, 15]),
        (15, "4", Some(0), [15, 15, 15]),
        (30, "2", Some(25), [10, 25, 25]),
        (40, "2", None, [0, 0, 25]),
        (50, "1", Some(45), [5, 5, 30]),
    ];
    for (second, cpu, start, expected) in steps {
        let statuses: Vec<Value> = start.iter().map(|start| running("c", *start)).collect();
        let pods = [pod("web", &using(cpu, "1Mi"), &statuses)];
        let usage = NodeUsage::sample("n", &pods, &ExternalUsage::default(), at(second), &mut counters);
        let document = summary(&usage);
        let core = |of: &Value| of["cpu"]["usageCoreNanoSeconds"].as_u64().unwrap_or(0) / 1_000_000_000;
        let pod = &document["pods"][0];
        assert_eq!(
            [core(&pod["containers"][0]), core(pod), core(&document["node"])],
            expected,
            "at {second}"
        );
    }
    assert!(counters.advance(at(60), &mut []) == 30_000_000_000, "the node's counter outlives its pods");
}

#[test]
fn amounts_beyond_all_bounds_saturate() {
    let huge = using("18000000000", "9223372036854775807");
    let pods = ["a", "b", "c"].map(|name| pod(name, &huge, &[running("c", -100_000_000)]));
    let usage =
        NodeUsage::sample("n", &pods, &ExternalUsage::default(), Timestamp::MAX, &mut CpuCounters::default());
    assert_eq!(summary(&usage)["node"]["cpu"]["usageCoreNanoSeconds"], u64::MAX);
    assert_eq!(summary(&usage)["node"]["memory"]["workingSetBytes"], u64::MAX);
}

#[test]
fn prometheus_reads_the_kubelets_names_and_labels() {
    let pods = [pod("web", &using("250m", "64Mi"), &[running("c", 0)])];
    let usage =
        NodeUsage::sample("node-0", &pods, &ExternalUsage::default(), at(10), &mut CpuCounters::default());
    let text = resource_metrics(&usage);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "container_cpu_usage_seconds_total{container=\"c\",namespace=\"default\",pod=\"web\"} 2.5 1767225610000",
            "container_memory_working_set_bytes{container=\"c\",namespace=\"default\",pod=\"web\"} 67108864 1767225610000",
            "container_start_time_seconds{container=\"c\",namespace=\"default\",pod=\"web\"} 1767225600 1767225610000",
            "node_cpu_usage_seconds_total 2.5 1767225610000",
            "node_memory_working_set_bytes 67108864 1767225610000",
            "pod_cpu_usage_seconds_total{namespace=\"default\",pod=\"web\"} 2.5 1767225610000",
            "pod_memory_working_set_bytes{namespace=\"default\",pod=\"web\"} 67108864 1767225610000",
            "resource_scrape_error 0",
        ]
    );
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(types[0], "container_cpu_usage_seconds_total counter");
    assert_eq!(types.len(), 8);
}

#[test]
fn requests_of_services_are_work_of_the_first_container_up_to_its_limit() {
    let mut pods = [pod("web", &using("100m", "64Mi"), &[running("web", 0), running("sidecar", 0)])];
    let limits = json!({"cpu": "800m"});
    let containers = json!([{"name": "web", "resources": {"limits": limits}}, {"name": "sidecar"}]);
    pods[0].spec = Some(serde_json::from_value(json!({ "containers": containers })).unwrap());
    let used = |load: PodLoad| {
        let external =
            ExternalUsage { loads: [("uid-web".to_owned(), load)].into(), ..ExternalUsage::default() };
        let usage = NodeUsage::sample("n", &pods, &external, at(10), &mut CpuCounters::default());
        let of =
            |container: &super::ContainerUsage| (container.nano_cores / 1_000_000, container.memory >> 20);
        usage.pods[0].containers.iter().map(of).collect::<Vec<_>>()
    };
    let load = PodLoad { nano_cores: 500_000_000, memory: 32 << 20, ..PodLoad::default() };
    assert_eq!(
        used(load.clone()),
        [(600, 96), (100, 64)],
        "its annotations are what it uses without requests"
    );
    let busy = PodLoad { nano_cores: 5_000_000_000, memory: 32 << 20, ..PodLoad::default() };
    assert_eq!(used(busy), [(800, 96), (100, 64)], "it is throttled");
    let idle = PodLoad { idle_cpu: Some(10_000_000), idle_memory: Some(16 << 20), ..load };
    assert_eq!(used(idle), [(510, 48), (100, 64)]);
    let behavior =
        [("uid-web".to_owned(), [("kubelet-sim.kstore.io/web.cpu".to_owned(), "2".to_owned())].into())];
    let external = ExternalUsage { annotations: behavior.into(), ..ExternalUsage::default() };
    let usage = NodeUsage::sample("n", &pods, &external, at(10), &mut CpuCounters::default());
    assert_eq!(usage.pods[0].containers[0].nano_cores, 2_000_000_000);
}

#[test]
fn measured_usage_counts_where_annotations_say_nothing() {
    let pods = [
        pod("op", &json!({}), &[running("a", 0)]),
        pod("own", &json!({"kubelet-sim.kstore.io/cpu": "2"}), &[running("a", 0)]),
    ];
    let mut counters = CpuCounters::default();
    // Milliseconds of processor time, and the second of the sample.
    let mut sample = |milliseconds: u64, second: i64| {
        let used = ResourceUsage { memory: 5000, cpu: Duration::from_millis(milliseconds) };
        let measured = ["op", "own"].map(|name| ((format!("uid-{name}"), "a".to_owned()), used));
        let external =
            ExternalUsage { measured: Arc::new(measured.into_iter().collect()), ..Default::default() };
        let shown = summary(&NodeUsage::sample("node-0", &pods, &external, at(second), &mut counters));
        let of = |index: usize| {
            let container = &shown["pods"][index]["containers"][0];
            let cpu = |name: &str| container["cpu"][name].as_u64().unwrap() / 1_000_000;
            (
                cpu("usageNanoCores"),
                cpu("usageCoreNanoSeconds"),
                container["memory"]["workingSetBytes"].as_u64().unwrap(),
            )
        };
        [of(0), of(1)]
    };
    assert_eq!(sample(500, 10), [(50, 500, 5000), (2000, 20_000, 5000)]);
    assert_eq!(sample(4500, 12), [(2000, 4500, 5000), (2000, 24_000, 5000)]);
    assert_eq!(sample(4600, 12)[0], (2000, 4500, 5000), "too soon after the last one");
    assert_eq!(sample(4500, 14)[0], (0, 4500, 5000));
}
