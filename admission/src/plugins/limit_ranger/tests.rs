//! Defaults and bounds of LimitRanges.

use super::{constraints, defaults, totals};
use serde_json::{Value, json};

fn pod(containers: Value, more: Value) -> Value {
    let mut pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": containers } });
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.extend(more.as_object().unwrap().clone());
    pod
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({ "name": name, "resources": { "requests": requests, "limits": limits } })
}

#[test]
fn missing_resources_are_defaulted_and_listed_in_an_annotation() {
    let limits = [json!({ "type": "Container",
        "default": { "cpu": "500m", "memory": "256Mi" }, "defaultRequest": { "cpu": "250m", "memory": "256Mi" } })];
    let init = json!({ "initContainers": [{ "name": "z" }] });
    let mut pod =
        pod(json!([{ "name": "x" }, container("y", json!({ "cpu": "1" }), json!({ "cpu": "2" }))]), init);
    defaults::fill(&mut pod, &limits);
    let all = json!({ "requests": { "cpu": "250m", "memory": "256Mi" }, "limits": { "cpu": "500m", "memory": "256Mi" } });
    assert_eq!(pod["spec"]["containers"][0]["resources"], all);
    assert_eq!(
        pod["spec"]["containers"][1]["resources"],
        json!({ "requests": { "cpu": "1", "memory": "256Mi" }, "limits": { "cpu": "2", "memory": "256Mi" } })
    );
    assert_eq!(pod["spec"]["initContainers"][0]["resources"], all);
    assert_eq!(
        pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container x; cpu, memory limit for container x; memory \
         request for container y; memory limit for container y; cpu, memory request for init container z; cpu, memory \
         limit for init container z"
    );
    let complete = pod.clone();
    defaults::fill(&mut pod, &limits);
    assert_eq!(pod, complete, "nothing lacks");
}

#[test]
fn absent_container_lists_are_not_created() {
    let mut own = pod(json!([{ "name": "x" }]), json!({}));
    defaults::fill(&mut own, &[json!({ "type": "Container", "default": { "cpu": "1" } })]);
    assert!(own["spec"].get("initContainers").is_none());
}

#[test]
fn limit_ranges_without_container_defaults_change_nothing() {
    let mut own = pod(json!([{ "name": "x" }]), json!({}));
    let before = own.clone();
    defaults::fill(
        &mut own,
        &[json!({ "type": "Pod", "default": { "cpu": "1" } }), json!({ "type": "Container" })],
    );
    assert_eq!(own, before);
}

#[test]
fn each_bound_has_its_text() {
    let limit = |side: &str, amount: &str| [json!({ "type": "Container", side: { "cpu": amount } })];
    for (limit, requests, limits, want) in [
        (
            limit("min", "100m"),
            json!({}),
            json!({}),
            "minimum cpu usage per Container is 100m.  No request is specified",
        ),
        (
            limit("min", "100m"),
            json!({ "cpu": "50m" }),
            json!({}),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            limit("min", "100m"),
            json!({ "cpu": "1" }),
            json!({ "cpu": "50m" }),
            "minimum cpu usage per Container is 100m, but limit is 50m",
        ),
        (
            limit("max", "1"),
            json!({ "cpu": "1" }),
            json!({}),
            "maximum cpu usage per Container is 1.  No limit is specified",
        ),
        (
            limit("max", "1"),
            json!({}),
            json!({ "cpu": "2" }),
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            limit("max", "1"),
            json!({ "cpu": "3" }),
            json!({ "cpu": "1" }),
            "maximum cpu usage per Container is 1, but request is 3",
        ),
        (
            limit("maxLimitRequestRatio", "4"),
            json!({ "cpu": "0" }),
            json!({ "cpu": "1" }),
            "cpu max limit to request ratio per Container is 4, but no request is specified or request is 0",
        ),
        (
            limit("maxLimitRequestRatio", "4"),
            json!({ "cpu": "1" }),
            json!({}),
            "cpu max limit to request ratio per Container is 4, but no limit is specified or limit is 0",
        ),
        (
            limit("maxLimitRequestRatio", "1500m"),
            json!({ "cpu": "100m" }),
            json!({ "cpu": "200m" }),
            "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
        ),
    ] {
        let pod = pod(json!([container("c", requests, limits)]), json!({}));
        assert_eq!(constraints::of_pod(&pod, &limit), [want]);
    }
    let fine = pod(json!([container("c", json!({ "cpu": "500m" }), json!({ "cpu": "1" }))]), json!({}));
    let all = json!({ "type": "Container", "min": { "cpu": "500m" }, "max": { "cpu": "1" }, "maxLimitRequestRatio": { "cpu": "2" } });
    assert_eq!(constraints::of_pod(&fine, &[all]), [""; 0]);
}

#[test]
fn equal_violations_of_containers_are_reported_once() {
    let limit = json!({ "type": "Container", "max": { "cpu": "1" } });
    let own = |name| container(name, json!({}), json!({ "cpu": "2" }));
    let pod = pod(json!([own("a"), own("b")]), json!({ "initContainers": [own("c")] }));
    assert_eq!(constraints::of_pod(&pod, &[limit]).len(), 1);
}

#[test]
fn pod_totals_are_the_maximum_of_running_and_initialization() {
    let sidecar =
        json!({ "name": "s", "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } });
    let init = json!({ "name": "i", "resources": { "requests": { "cpu": "3" } } });
    let two = json!([
        container("a", json!({ "cpu": "1" }), json!({})),
        container("b", json!({ "cpu": "1" }), json!({}))
    ]);
    let total = |more: Value| totals::of_pod(&pod(two.clone(), more), "requests")["cpu"].clone();
    assert_eq!(total(json!({})), "2");
    assert_eq!(total(json!({ "initContainers": [sidecar] })), "2100m");
    assert_eq!(total(json!({ "initContainers": [init] })), "3");
    assert_eq!(
        total(json!({ "initContainers": [sidecar, init] })),
        "3100m",
        "the sidecar runs beside the second"
    );
    assert_eq!(
        total(json!({ "resources": { "requests": { "cpu": "500m" } } })),
        "500m",
        "stated for the pod"
    );
    assert_eq!(total(json!({ "overhead": { "cpu": "5" } })), "2");
    let limit = json!({ "type": "Pod", "min": { "cpu": "3" } });
    assert_eq!(
        constraints::of_pod(&pod(two.clone(), json!({})), &[limit]),
        ["minimum cpu usage per Pod is 3, but request is 2"]
    );
}

#[test]
fn claims_are_bounded_by_their_requests() {
    let limits = [
        json!({ "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "2Gi" } }),
        json!({ "type": "Container", "max": { "storage": "1" } }),
    ];
    let ask = |amount: &str| {
        let claim = json!({ "spec": { "resources": { "requests": { "storage": amount }, "limits": { "storage": "9Gi" } } } });
        constraints::of_claim(&claim, &limits)
    };
    assert_eq!(ask("1Gi"), [""; 0]);
    assert_eq!(ask("1Mi"), ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"]);
    assert_eq!(ask("3Gi"), ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]);
}
