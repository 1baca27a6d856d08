//! Tests of all kinds of metrics, and of pods without samples.

use super::super::calculate::{Target, Tolerance};
use super::super::metric::{Evaluated, MetricError, evaluate};
use super::super::sample::{of_custom_pods, of_external, of_object, of_pods};
use super::{
    Metrics, Pod, Reading, at, autoscaler, changed_pod, condition, cpu, is, plan, pod, read_caches, samples,
    scale,
};
use crate::horizontal_pod_autoscaler::history::History;
use k8s_openapi::api::autoscaling::v2::MetricSpec;
use kstore_api::version::Minor;
use serde_json::{Value, from_value, json, to_value};

const TOLERANCE: Tolerance = Tolerance { up: 0.1, down: 0.1 };

fn evaluated(spec: &Value, reading: &Reading, pods: &[Pod], replicas: i32) -> Result<Evaluated, MetricError> {
    let spec: MetricSpec = from_value(spec.clone()).unwrap();
    let target = Target { spec_replicas: replicas, status_replicas: replicas, pods, tolerance: TOLERANCE };
    evaluate(&spec, reading, target, "default", at(600))
}

fn pods(count: usize) -> Vec<Pod> {
    (0..count).map(pod).collect()
}

#[test]
fn every_kind_of_metric_proposes_a_size_with_status() {
    let of_pods = |values: &[i64]| Reading::Pods(Ok(samples(values, at(600))));
    let object = json!({"kind": "Service", "name": "front", "apiVersion": "v1"});
    let target = |kind: &str, value: &str| match kind {
        "Value" => json!({"type": "Value", "value": value}),
        _ => json!({"type": "AverageValue", "averageValue": value}),
    };
    let table = [
        (
            cpu(50),
            of_pods(&[100, 100]),
            4,
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 100, "averageValue": "100m"}}}),
        ),
        (
            json!({"type": "Resource", "resource": {"name": "memory", "target": target("AverageValue", "1k")}}),
            of_pods(&[2_000_000, 2_000_000]),
            4,
            json!({"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "2k"}}}),
        ),
        (
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 25}}}),
            of_pods(&[50, 50]),
            4,
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                "current": {"averageUtilization": 50, "averageValue": "50m"}}}),
        ),
        (
            json!({"type": "Pods", "pods": {"metric": {"name": "packets"}, "target": target("AverageValue", "10")}}),
            of_pods(&[30_000, 10_000]),
            4,
            json!({"type": "Pods", "pods": {"metric": {"name": "packets"}, "current": {"averageValue": "20"}}}),
        ),
        (
            json!({"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": object, "target": target("Value", "10")}}),
            Reading::Total(Ok(20_000)),
            4,
            json!({"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": object, "current": {"value": "20"}}}),
        ),
        (
            json!({"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": object, "target": target("AverageValue", "4")}}),
            Reading::Total(Ok(14_000)),
            4,
            json!({"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": object, "current": {"averageValue": "7"}}}),
        ),
        (
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": target("Value", "10")}}),
            Reading::Total(Ok(20_000)),
            4,
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "current": {"value": "20"}}}),
        ),
        (
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": target("AverageValue", "5")}}),
            Reading::Total(Ok(20_000)),
            4,
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "current": {"averageValue": "10"}}}),
        ),
    ];
    for (spec, reading, replicas, shown) in table {
        let found = evaluated(&spec, &reading, &pods(2), 2).unwrap();
        assert_eq!(found.replicas, replicas, "{spec}");
        assert_eq!(to_value(&found.status).unwrap(), shown, "{spec}");
    }
}

#[test]
fn metric_failures_have_upstreams_reasons() {
    let pods_failed = || Reading::Pods(Err("no API".to_owned()));
    let total_failed = || Reading::Total(Err("no API".to_owned()));
    let average = json!({"type": "AverageValue", "averageValue": "1"});
    let selector = json!({"matchLabels": {"a": "b"}});
    let object = json!({"kind": "Service", "name": "front"});
    let table = [
        (
            cpu(50),
            pods_failed(),
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: no API",
            "failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no API",
        ),
        (
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": average}}),
            pods_failed(),
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: no API",
            "failed to get cpu container metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no API",
        ),
        (
            json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": average}}),
            pods_failed(),
            "FailedGetPodsMetric",
            "unable to get metric m: no API",
            "failed to get pods metric value: unable to get metric m: no API",
        ),
        (
            json!({"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": object, "target": {"type": "Value", "value": "1"}}}),
            total_failed(),
            "FailedGetObjectMetric",
            "unable to get metric m: Service on default front/no API",
            "failed to get object metric value: unable to get metric m: Service on default front/no API",
        ),
        (
            json!({"type": "External", "external": {"metric": {"name": "m", "selector": selector}, "target": average}}),
            total_failed(),
            "FailedGetExternalMetric",
            "unable to get external metric default/m/&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}: no API",
            "failed to get m external metric value: failed to get m external metric: unable to get external metric default/m/&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}: no API",
        ),
        (
            json!({"type": "Other"}),
            total_failed(),
            "InvalidMetricSourceType",
            "unknown metric source type \"Other\"",
            "unknown metric source type \"Other\"",
        ),
    ];
    for (spec, reading, reason, message, error) in table {
        let failed = evaluated(&spec, &reading, &pods(2), 2).unwrap_err();
        assert_eq!((failed.reason, failed.message.as_str(), failed.error.as_str()), (reason, message, error));
    }
}

/// The size at 50 % CPU for these pods; the first pods have samples with these values.
fn with_pods(pods: &[Pod], used: &[i64]) -> Result<i32, String> {
    let reading = Reading::Pods(Ok(samples(used, at(600))));
    let replicas = i32::try_from(pods.len()).unwrap();
    evaluated(&cpu(50), &reading, pods, replicas).map(|found| found.replicas).map_err(|failed| failed.message)
}

#[test]
fn pods_without_samples_count_against_the_direction() {
    // Four pods; some have samples, the others are missing.
    let table: [(&[i64], i32); 6] = [
        (&[100, 100, 100, 100], 8),
        (&[100, 100, 100], 6),
        (&[60, 60], 4),
        (&[10, 10, 10, 10], 1),
        (&[10, 10, 10], 3),
        (&[10], 4),
    ];
    for (used, expected) in table {
        assert_eq!(with_pods(&pods(4), used), Ok(expected), "{used:?}");
    }
}

#[test]
fn unready_pods_dampen_scale_up_and_are_ignored_otherwise() {
    let pending = changed_pod(2, json!({"phase": "Pending", "conditions": []}));
    let failed = changed_pod(2, json!({"phase": "Failed"}));
    let never_ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": at(1)});
    let never_ready = changed_pod(2, json!({"conditions": [never_ready]}));
    let just_unready = json!({"type": "Ready", "status": "False", "lastTransitionTime": at(590)});
    let just_unready = changed_pod(2, json!({"conditions": [just_unready]}));
    let starting = changed_pod(
        2,
        json!({"startTime": at(550),
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(580)}]}),
    );
    let started = changed_pod(
        2,
        json!({"startTime": at(550),
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(560)}]}),
    );
    let table = [
        ("pending", pending, [100, 100, 0], 4),
        ("failed", failed, [100, 100, 900], 5),
        ("never ready", never_ready, [100, 100, 900], 4),
        ("ready before", just_unready, [100, 100, 100], 6),
        ("a sample from before it was ready", starting, [100, 100, 900], 4),
        ("a sample from after it was ready", started, [100, 100, 100], 6),
    ];
    for (what, third, used, expected) in table {
        let mut all = pods(2);
        all.push(third);
        // The failed pod and its sample do not count: two pods at double usage propose four, which is not
        // above the current size.
        let expected = if what == "failed" { 4 } else { expected };
        assert_eq!(with_pods(&all, &used), Ok(expected), "{what}");
    }
}

#[test]
fn metrics_without_samples_or_requests_fail() {
    assert_eq!(
        with_pods(&[], &[1]).unwrap_err(),
        "failed to get cpu utilization: no pods returned by selector while calculating replica count"
    );
    let pending = changed_pod(0, json!({"phase": "Pending"}));
    let message =
        "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(with_pods(&[pending], &[1]).unwrap_err(), message);
    let mut bare = pod(0);
    bare.spec.containers[0].resources.requests.clear();
    let message = "failed to get cpu utilization: missing request for cpu in container c of Pod 0";
    assert_eq!(with_pods(&[bare], &[1]).unwrap_err(), message);
}

#[test]
fn a_failed_metric_prevents_scale_down_but_not_scale_up() {
    let hpa = autoscaler(json!({"metrics": [cpu(50), {"type": "External",
        "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}]}));
    let run = |used: &[i64]| {
        let readings = [Reading::Pods(Ok(samples(used, at(600)))), Reading::Total(Err("no API".to_owned()))];
        let pods = pods(used.len());
        let metrics = Metrics::Read { pods: &pods, readings: &readings };
        let replicas = i32::try_from(used.len()).unwrap();
        plan(Minor::DEFAULT, &hpa, &scale(replicas), &metrics, &mut History::default(), at(600))
    };
    let grown = run(&[100, 100]);
    assert_eq!(grown.status.desired_replicas, 4);
    assert_eq!(grown.events[0].reason, "FailedGetExternalMetric");
    let kept = run(&[10, 10]);
    assert_eq!(kept.rescale, None);
    assert!(is(condition(&kept, "ScalingActive"), "False", "FailedGetExternalMetric"));
    let error_message = kept.events.last().unwrap();
    assert_eq!(error_message.reason, "FailedComputeMetricsReplicas");
    assert!(
        error_message.message.starts_with("invalid metrics (1 invalid out of 2), first error is: "),
        "{}",
        error_message.message
    );
    assert_eq!(kept.status.current_metrics.unwrap().len(), 2);
}

#[test]
fn the_tolerance_of_the_rules_replaces_ten_percent() {
    let wide = json!({"behavior": {"scaleUp": {"tolerance": "500m", "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]},
        "scaleDown": {"policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}});
    assert_eq!(read_caches(&autoscaler(wide.clone()), &[70, 70]).rescale, None);
    assert_eq!(read_caches(&autoscaler(wide), &[80, 80]).rescale.unwrap().0, 4);
    assert_eq!(read_caches(&autoscaler(json!({})), &[70, 70]).rescale.unwrap().0, 3);
}

#[test]
fn answers_of_the_metrics_apis_become_samples() {
    let answer = json!({"items": [{"metadata": {"name": "a", "namespace": "ns"}, "timestamp": "2026-01-01T00:00:05Z", "window": "30s",
        "containers": [{"name": "x", "usage": {"cpu": "250m"}}, {"name": "y", "usage": {"cpu": "1500000n"}}]}]});
    let found = of_pods(&answer, "cpu", None).unwrap();
    assert_eq!((found["a"].value, found["a"].window.as_secs(), found["a"].at), (252, 30, at(5)));
    assert_eq!(of_pods(&answer, "cpu", Some("x")).unwrap()["a"].value, 250);
    assert!(of_pods(&answer, "memory", None).unwrap().is_empty(), "a pod without this resource");
    assert_eq!(
        of_pods(&answer, "cpu", Some("z")).unwrap_err(),
        "container z not present in metrics for pod ns/a"
    );
    assert_eq!(
        of_pods(&json!({"items": []}), "cpu", None).unwrap_err(),
        "no metrics returned from resource metrics API"
    );
    let custom = json!({"items": [{"describedObject": {"kind": "Pod", "name": "a"}, "timestamp": "2026-01-01T00:00:00Z", "value": "2500m"}]});
    assert_eq!(of_custom_pods(&custom).unwrap()["a"].value, 2500);
    assert_eq!(of_object(&custom), Ok(2500));
    assert_eq!(of_external(&json!({"items": [{"value": "1"}, {"value": "500m"}]})), Ok(1500));
    assert!(of_external(&json!({"items": []})).is_err());
}
