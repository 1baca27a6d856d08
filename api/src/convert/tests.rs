//! Tests of conversions and round trips.

use super::*;
use crate::kind::lookup;
use serde_json::json;

fn converted(group: &str, version: &str, plural: &str, object: &Value) -> Value {
    let mut object = object.clone();
    to_version(lookup(group, version, plural).unwrap(), &mut object).unwrap();
    object
}

#[test]
fn events_convert_between_core_and_events_k8s_io() {
    let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"},
        "reason": "R", "message": "m", "source": {"component": "c", "host": "h"}, "count": 2, "type": "Normal",
        "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:00:01Z", "reportingComponent": "c",
        "reportingInstance": "i", "series": {"count": 2, "lastObservedTime": "2024-01-01T00:00:01.000000Z"}});
    let new = converted("events.k8s.io", "v1", "events", &core);
    assert_eq!(
        new,
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": {"kind": "Pod"},
            "reason": "R", "note": "m", "deprecatedSource": {"component": "c", "host": "h"}, "deprecatedCount": 2,
            "type": "Normal", "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2024-01-01T00:00:01Z", "reportingController": "c", "reportingInstance": "i",
            "series": {"count": 2, "lastObservedTime": "2024-01-01T00:00:01.000000Z"}})
    );
    assert_eq!(converted("", "v1", "events", &new), core);
}

const HPA: &str = "horizontalpodautoscalers";

#[test]
fn cpu_target_of_v1_becomes_a_metric_in_v2() {
    let v1 = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
        "status": {"currentReplicas": 1, "currentCPUUtilizationPercentage": 20}});
    let v2 = converted("autoscaling", "v2", HPA, &v1);
    assert_eq!(
        v2,
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "metrics": [{"type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]},
            "status": {"currentReplicas": 1, "currentMetrics": [{"type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": 20}}}]}})
    );
    let mut back = converted("autoscaling", "v1", HPA, &v2);
    let current = back["metadata"].as_object_mut().unwrap().remove("annotations").unwrap();
    let current = &current["autoscaling.alpha.kubernetes.io/current-metrics"];
    let all = r#"[{"resource":{"currentAverageUtilization":20,"name":"cpu"},"type":"Resource"}]"#;
    assert_eq!((current, back), (&json!(all), v1), "what is now is told in full");
}

/// `currentReplicas` is `omitempty` in v2 and always printed in v1.
#[test]
fn conversion_adds_the_zero_members_of_the_target_version() {
    let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}, "status": {"desiredReplicas": 0}});
    let mut v1 = v2.clone();
    from_storage(lookup("autoscaling", "v1", HPA).unwrap(), &mut v1);
    assert_eq!(v1["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
    let mut same = v2.clone();
    from_storage(lookup("autoscaling", "v2", HPA).unwrap(), &mut same);
    assert_eq!(same, v2);
}

#[test]
fn v2_metrics_survive_a_round_trip_through_v1() {
    let policies = json!([{"type": "Pods", "value": 4, "periodSeconds": 15}]);
    let behavior = json!({
        "scaleUp": {"selectPolicy": "Max", "stabilizationWindowSeconds": 0, "policies": policies},
        "scaleDown": {"selectPolicy": "Min", "policies": policies, "tolerance": "100m"}});
    let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "behavior": behavior, "metrics": [
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "1"}}},
            {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "5"}}},
            {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "30"}}},
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 60}}},
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]},
        "status": {"conditions": [{"type": "AbleToScale", "status": "True"}], "currentMetrics": [
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "2"}}}]}});
    let v1 = converted("autoscaling", "v1", HPA, &v2);
    assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
    let metrics = v1["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"].as_str().unwrap();
    assert!(metrics.contains(r#""resource":{"name":"memory","targetAverageValue":"1Gi"}"#), "{metrics}");
    let behavior = &v1["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"];
    let policies = r#""Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}]"#;
    let up =
        format!(r#"{{"StabilizationWindowSeconds":0,"SelectPolicy":"Max",{policies},"Tolerance":null}}"#);
    let down = format!(
        r#"{{"StabilizationWindowSeconds":null,"SelectPolicy":"Min",{policies},"Tolerance":"100m"}}"#
    );
    assert_eq!(*behavior, format!(r#"{{"ScaleUp":{up},"ScaleDown":{down}}}"#));
    assert_eq!(converted("autoscaling", "v2", HPA, &v1), v2);
}

#[test]
fn v1_without_a_target_gets_the_default_metric() {
    let v1 = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 3}});
    let v2 = converted("autoscaling", "v2", HPA, &v1);
    assert_eq!(v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
}

#[test]
fn unknown_versions_are_refused_and_equal_versions_are_unchanged() {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
    assert_eq!(to_version(lookup("", "v1", "pods").unwrap(), &mut pod), Ok(()));
    let error = to_version(lookup("apps", "v1", "deployments").unwrap(), &mut pod).unwrap_err();
    assert_eq!(error.to_string(), "no conversion of Deployment from v1 to apps/v1");
}

#[test]
fn annotations_that_do_not_decode_are_ignored_and_those_of_v2_are_dropped() {
    let v2 = crate::kind::lookup("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
    let annotation = |name: &str| format!("autoscaling.alpha.kubernetes.io/{name}");
    for (name, text) in [
        ("behavior", "[]"),
        ("behavior", r#"{"ScaleUp":7}"#),
        ("metrics", r#"[{"type":7}]"#),
        ("conditions", "{}"),
    ] {
        let mut object = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 1},
            "status": {}, "metadata": {"annotations": {annotation(name): text}}});
        to_version(v2, &mut object).unwrap();
        assert!(
            object["spec"]["behavior"].is_null() && object["status"]["conditions"].is_null(),
            "{name} {text}: {object}"
        );
        assert_eq!(object["spec"]["metrics"][0]["resource"]["name"], "cpu", "the default");
    }
    let all: serde_json::Map<String, Value> = ["metrics", "behavior", "conditions", "current-metrics"]
        .into_iter()
        .map(|name| (annotation(name), "[]".into()))
        .collect();
    let mut object = json!({"metadata": {"annotations": all}, "spec": {"maxReplicas": 1}});
    crate::defaults::apply(v2, &mut object);
    assert!(object["metadata"]["annotations"].is_null(), "{object}");
}

#[test]
fn pod_groups_and_workloads_keep_what_both_versions_can_say() {
    use super::to_version;
    use crate::kind::known_in;
    use crate::version::Minor;
    let row = |minor, version: &str, kind: &str| {
        known_in(minor, &format!("scheduling.k8s.io/{version}"), kind).unwrap()
    };
    let turn = |object: &serde_json::Value, minor, version| {
        let mut other = object.clone();
        to_version(row(minor, version, object["kind"].as_str().unwrap()), &mut other).unwrap();
        other
    };
    let alpha = serde_json::json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            "schedulingPolicy": {"gang": {"minCount": 2}},
        },
    });
    let beta = serde_json::json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"single": {}},
        },
    });
    assert_eq!(turn(&alpha, Minor::V37, "v1beta1"), beta);
    assert_eq!(turn(&beta, Minor::V36, "v1alpha2"), alpha);
    let all = serde_json::json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"},
        "spec": {"podGroupTemplates": [{"name": "t", "disruptionMode": {"all": {}}}]},
    });
    let former = turn(&all, Minor::V36, "v1alpha2");
    assert_eq!(former["spec"]["podGroupTemplates"][0]["disruptionMode"], "PodGroup");
    assert_eq!(turn(&former, Minor::V37, "v1beta1"), all);
}
