//! Decides whether an object is available, by the rules of `kubectl rollout status` and `kubectl wait`, and
//! describes the state of its pods. Pure.

use serde_json::Value;

/// Whether an object is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The object is available, or its kind has no such state.
    Ready,
    /// The object is not available yet, for this reason.
    Pending(String),
    /// The object will not become available, for this reason.
    Failed(String),
}

/// Derives an object's readiness from its status.
pub(super) fn readiness(object: &Value) -> Readiness {
    let group = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    match (group, text(object, "/kind")) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replicas(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "Namespace") => match text(object, "/status/phase") {
            "Active" => Readiness::Ready,
            phase => Readiness::Pending(format!("its phase is {phase:?}")),
        },
        ("apiextensions.k8s.io", "CustomResourceDefinition") => condition_true(object, "Established"),
        ("apiregistration.k8s.io", "APIService") => condition_true(object, "Available"),
        _ if condition(object, "Ready").is_some() => condition_true(object, "Ready"),
        _ => Readiness::Ready,
    }
}

/// Readiness of a Deployment, as `kubectl rollout status` reports it.
fn deployment(object: &Value) -> Readiness {
    if let Some(unobserved) = unobserved(object) {
        return unobserved;
    }
    let progressing = condition(object, "Progressing");
    if progressing.is_some_and(|condition| condition["reason"] == "ProgressDeadlineExceeded") {
        return Readiness::Failed("it exceeded its progress deadline".into());
    }
    let wanted = wanted_replicas(object);
    let (replicas, updated) = (count(object, "replicas"), count(object, "updatedReplicas"));
    let available = count(object, "availableReplicas");
    if updated < wanted {
        Readiness::Pending(format!("{updated} of {wanted} replicas are updated"))
    } else if replicas > updated {
        Readiness::Pending(format!("{} old replicas are not terminated", replicas - updated))
    } else if available < updated {
        Readiness::Pending(format!("{available} of {updated} updated replicas are available"))
    } else {
        Readiness::Ready
    }
}

/// Readiness of a StatefulSet: all pods are ready, and updated as far as the update strategy requires.
fn stateful_set(object: &Value) -> Readiness {
    if let Some(unobserved) = unobserved(object) {
        return unobserved;
    }
    let (wanted, ready) = (wanted_replicas(object), count(object, "readyReplicas"));
    if ready < wanted {
        return Readiness::Pending(format!("{ready} of {wanted} pods are ready"));
    }
    let is_rolling = text(object, "/spec/updateStrategy/type") == "RollingUpdate";
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let (to_update, updated) = ((wanted - partition).max(0), count(object, "updatedReplicas"));
    if is_rolling && updated < to_update {
        return Readiness::Pending(format!("{updated} of {to_update} pods are updated"));
    }
    Readiness::Ready
}

/// Readiness of a DaemonSet: all pods are updated and available.
fn daemon_set(object: &Value) -> Readiness {
    if let Some(unobserved) = unobserved(object) {
        return unobserved;
    }
    let wanted = count(object, "desiredNumberScheduled");
    let is_rolling = text(object, "/spec/updateStrategy/type") == "RollingUpdate";
    let (updated, available) = (count(object, "updatedNumberScheduled"), count(object, "numberAvailable"));
    if is_rolling && updated < wanted {
        Readiness::Pending(format!("{updated} of {wanted} pods are updated"))
    } else if available < wanted {
        Readiness::Pending(format!("{available} of {wanted} pods are available"))
    } else {
        Readiness::Ready
    }
}

fn replicas(object: &Value) -> Readiness {
    if let Some(unobserved) = unobserved(object) {
        return unobserved;
    }
    let (wanted, ready) = (wanted_replicas(object), count(object, "readyReplicas"));
    match ready < wanted {
        true => Readiness::Pending(format!("{ready} of {wanted} replicas are ready")),
        false => Readiness::Ready,
    }
}

fn job(object: &Value) -> Readiness {
    if is_true(condition(object, "Complete")) {
        return Readiness::Ready;
    }
    if let Some(failed) = condition(object, "Failed").filter(|failed| is_true(Some(failed))) {
        return Readiness::Failed(format!("it failed: {}", describe(failed)));
    }
    let (succeeded, wanted) = (count(object, "succeeded"), number(object, "/spec/completions").unwrap_or(1));
    let suspended =
        if object.pointer("/spec/suspend") == Some(&true.into()) { "; it is suspended" } else { "" };
    Readiness::Pending(format!("{succeeded} of {wanted} completions{suspended}"))
}

/// Readiness of a pod: it is ready, or has succeeded.
fn pod(object: &Value) -> Readiness {
    match text(object, "/status/phase") {
        "Succeeded" => Readiness::Ready,
        "Failed" => Readiness::Failed(pod_state(object)),
        _ if is_true(condition(object, "Ready")) => Readiness::Ready,
        _ => Readiness::Pending(pod_state(object)),
    }
}

/// Describes a pod: its phase, why it is not scheduled, and the state of containers that are not ready.
pub(super) fn pod_state(pod: &Value) -> String {
    let mut parts = vec![format!("its phase is {:?}", text(pod, "/status/phase"))];
    let reasons = [text(pod, "/status/reason"), text(pod, "/status/message")];
    parts.extend(reasons.into_iter().filter(|reason| !reason.is_empty()).map(str::to_owned));
    if let Some(unscheduled) = condition(pod, "PodScheduled").filter(|found| !is_true(Some(found))) {
        parts.push(describe(unscheduled));
    }
    let containers = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let statuses = containers.into_iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
    for status in statuses.filter(|status| status["ready"] != true) {
        let name = text(status, "/name");
        let state = ["waiting", "terminated"]
            .into_iter()
            .find_map(|state| Some((state, status["state"].get(state)?)));
        parts.push(match state {
            Some(("terminated", end)) if end["exitCode"] == 0 => continue,
            Some(("terminated", end)) => {
                format!("container {name} ended with code {}{}", end["exitCode"], reason_of(end))
            }
            Some((_, waiting)) => format!("container {name} waits{}", reason_of(waiting)),
            None => format!("container {name} is not ready"),
        });
    }
    parts.join("; ")
}

/// The conditions of an object, one a line: `Available=False (MinimumReplicasUnavailable): …`.
pub(super) fn conditions(object: &Value) -> Vec<String> {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    list.into_iter().flatten().map(describe).collect()
}

fn describe(condition: &Value) -> String {
    format!("{}={}{}", text(condition, "/type"), text(condition, "/status"), reason_of(condition))
}

/// ` (reason): message`, without the parts that are empty.
fn reason_of(state: &Value) -> String {
    let (reason, message) = (text(state, "/reason"), text(state, "/message"));
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    if message.is_empty() { reason } else { format!("{reason}: {message}") }
}

fn condition_true(object: &Value, kind: &str) -> Readiness {
    match condition(object, kind) {
        Some(found) if is_true(Some(found)) => Readiness::Ready,
        Some(found) => Readiness::Pending(describe(found)),
        None => Readiness::Pending(format!("it has no condition {kind}")),
    }
}

fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn is_true(condition: Option<&Value>) -> bool {
    condition.is_some_and(|condition| condition["status"] == "True")
}

/// `Pending` if no controller has observed the newest spec; the status then says nothing about it.
fn unobserved(object: &Value) -> Option<Readiness> {
    let generation = number(object, "/metadata/generation").unwrap_or(0);
    let observed = count(object, "observedGeneration");
    (observed < generation).then(|| Readiness::Pending("no controller has observed its spec yet".into()))
}

fn wanted_replicas(object: &Value) -> i64 {
    number(object, "/spec/replicas").unwrap_or(1)
}

/// A number in the status; 0 if it is missing.
fn count(object: &Value, field: &str) -> i64 {
    object["status"][field].as_i64().unwrap_or(0)
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn readiness_of(kind: &str, spec: Value, status: Value) -> String {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 2},
            "spec": spec, "status": status});
        match readiness(&object) {
            Readiness::Ready => "ready".into(),
            Readiness::Pending(why) => format!("pending: {why}"),
            Readiness::Failed(why) => format!("failed: {why}"),
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn workloads_are_available_when_their_updated_pods_are() {
        let seen = |status: Value| {
            let mut status = status;
            status["observedGeneration"] = 2.into();
            status
        };
        let two = json!({"replicas": 2});
        let rolling = |partition: i64| {
            json!({"replicas": 2, "updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"partition": partition}}})
        };
        let on_delete = json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}});
        let late = json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        let unobserved = "pending: no controller has observed its spec yet";
        for (kind, spec, status, want) in [
            ("apps/v1/Deployment", &two, json!({}), unobserved),
            (
                "apps/v1/Deployment",
                &two,
                json!({"observedGeneration": 1, "availableReplicas": 2}),
                unobserved,
            ),
            ("apps/v1/Deployment", &two, seen(late), "failed: it exceeded its progress deadline"),
            (
                "apps/v1/Deployment",
                &two,
                seen(json!({"updatedReplicas": 1})),
                "pending: 1 of 2 replicas are updated",
            ),
            (
                "apps/v1/Deployment",
                &two,
                seen(json!({"updatedReplicas": 2, "replicas": 3})),
                "pending: 1 old replicas are not terminated",
            ),
            (
                "apps/v1/Deployment",
                &two,
                seen(json!({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 1})),
                "pending: 1 of 2 updated replicas are available",
            ),
            (
                "apps/v1/Deployment",
                &two,
                seen(json!({"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2})),
                "ready",
            ),
            ("apps/v1/Deployment", &json!({"replicas": 0}), seen(json!({})), "ready"),
            ("apps/v1/StatefulSet", &two, json!({"readyReplicas": 2}), unobserved),
            (
                "apps/v1/StatefulSet",
                &two,
                seen(json!({"readyReplicas": 1})),
                "pending: 1 of 2 pods are ready",
            ),
            (
                "apps/v1/StatefulSet",
                &rolling(0),
                seen(json!({"readyReplicas": 2, "updatedReplicas": 1})),
                "pending: 1 of 2 pods are updated",
            ),
            (
                "apps/v1/StatefulSet",
                &rolling(1),
                seen(json!({"readyReplicas": 2, "updatedReplicas": 1})),
                "ready",
            ),
            ("apps/v1/StatefulSet", &on_delete, seen(json!({"readyReplicas": 2})), "ready"),
            ("apps/v1/DaemonSet", &two, json!({}), unobserved),
            (
                "apps/v1/DaemonSet",
                &rolling(0),
                seen(json!({"desiredNumberScheduled": 3, "updatedNumberScheduled": 2})),
                "pending: 2 of 3 pods are updated",
            ),
            (
                "apps/v1/DaemonSet",
                &on_delete,
                seen(json!({"desiredNumberScheduled": 3, "numberAvailable": 2})),
                "pending: 2 of 3 pods are available",
            ),
            ("apps/v1/DaemonSet", &on_delete, seen(json!({})), "ready"),
            (
                "apps/v1/ReplicaSet",
                &two,
                seen(json!({"readyReplicas": 1})),
                "pending: 1 of 2 replicas are ready",
            ),
            ("apps/v1/ReplicaSet", &json!({}), seen(json!({"readyReplicas": 1})), "ready"),
            ("other.io/v1/Deployment", &two, json!({}), "ready"),
        ] {
            assert_eq!(readiness_of(kind, spec.clone(), status.clone()), want, "{kind} {spec} {status}");
        }
    }

    #[test]
    fn readiness_of_other_kinds_follows_their_condition_or_phase() {
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status, "reason": "Why", "message": "so"}]});
        let none = json!({});
        for (kind, spec, status, want) in [
            ("batch/v1/Job", &none, json!({}), "pending: 0 of 1 completions"),
            (
                "batch/v1/Job",
                &json!({"completions": 3, "suspend": true}),
                json!({"succeeded": 1}),
                "pending: 1 of 3 completions; it is suspended",
            ),
            ("batch/v1/Job", &none, condition("Complete", "True"), "ready"),
            ("batch/v1/Job", &none, condition("Failed", "True"), "failed: it failed: Failed=True (Why): so"),
            ("v1/Namespace", &none, json!({"phase": "Active"}), "ready"),
            ("v1/Namespace", &none, json!({"phase": "Terminating"}), "pending: its phase is \"Terminating\""),
            (
                "apiextensions.k8s.io/v1/CustomResourceDefinition",
                &none,
                json!({}),
                "pending: it has no condition Established",
            ),
            (
                "apiextensions.k8s.io/v1/CustomResourceDefinition",
                &none,
                condition("Established", "True"),
                "ready",
            ),
            (
                "apiregistration.k8s.io/v1/APIService",
                &none,
                condition("Available", "False"),
                "pending: Available=False (Why): so",
            ),
            ("a.b/v1/Shop", &none, json!({}), "ready"),
            ("a.b/v1/Shop", &none, condition("Ready", "Unknown"), "pending: Ready=Unknown (Why): so"),
            ("a.b/v1/Shop", &none, condition("Ready", "True"), "ready"),
            ("a.b/v1/Shop", &none, condition("Synced", "False"), "ready"),
        ] {
            assert_eq!(readiness_of(kind, spec.clone(), status.clone()), want, "{kind} {spec} {status}");
        }
    }

    #[test]
    fn a_pod_that_is_not_ready_reports_why() {
        let pod = |status: Value| readiness_of("v1/Pod", json!({}), status);
        assert_eq!(
            pod(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
            "ready"
        );
        assert_eq!(pod(json!({"phase": "Succeeded"})), "ready");
        let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes"}]});
        assert_eq!(
            pod(unscheduled),
            "pending: its phase is \"Pending\"; PodScheduled=False (Unschedulable): 0/3 nodes"
        );
        let containers = json!({"phase": "Pending",
            "initContainerStatuses": [{"name": "i", "ready": false, "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [
                {"name": "a", "ready": false, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}},
                {"name": "b", "ready": false, "state": {"running": {}}},
                {"name": "c", "ready": true, "state": {"running": {}}}]});
        assert_eq!(
            pod(containers),
            "pending: its phase is \"Pending\"; container a waits (ImagePullBackOff): no; container b is not ready"
        );
        let failed = json!({"phase": "Failed", "reason": "Evicted",
            "containerStatuses": [{"name": "a", "ready": false, "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]});
        assert_eq!(
            pod(failed),
            "failed: its phase is \"Failed\"; Evicted; container a ended with code 3 (Error)"
        );
    }
}
