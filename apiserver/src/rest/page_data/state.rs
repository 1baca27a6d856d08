//! [`State`]: how an object is, in one word of a short list, for its colour and shape on the page. Pure.

use kstore_api::resource::Resource;
use serde_json::Value;

/// How an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It exists; its kind says no more.
    Plain,
    /// It works as it should.
    Ready,
    /// It is on its way: a rollout, a pod that starts, a job that runs.
    Progress,
    /// It runs and is not ready.
    Unready,
    /// It waits for something that is not there: a node, a volume.
    Pending,
    /// It ended with success.
    Done,
    /// It failed.
    Failed,
    /// It wants nothing: zero replicas, a suspended job, a cordoned node.
    Idle,
    /// It is being deleted.
    Ending,
    /// An Event of the type Warning.
    Warning,
}

impl State {
    /// The word of the state in rows.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Ready => "ready",
            Self::Progress => "progress",
            Self::Unready => "unready",
            Self::Pending => "pending",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Idle => "idle",
            Self::Ending => "ending",
            Self::Warning => "warning",
        }
    }

    /// Whether a person would want to know why.
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Unready | Self::Pending | Self::Failed)
    }
}

/// The state of an object of a kind.
pub(super) fn of(resource: &Resource, object: &Value) -> State {
    if resource.is("", "events") {
        return if object["type"] == "Warning" { State::Warning } else { State::Plain };
    }
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return State::Ending;
    }
    if resource.is("", "pods") {
        return pod(object);
    }
    if resource.is("batch", "jobs") {
        return job(object);
    }
    if let Some(parts) = parts(resource, object) {
        return workload(object, parts);
    }
    if resource.is("", "nodes") && object["spec"]["unschedulable"] == true && is(object, "Ready", "True") {
        return State::Idle;
    }
    by_conditions(object)
}

fn pod(pod: &Value) -> State {
    match pod["status"]["phase"].as_str().unwrap_or_default() {
        "Succeeded" => State::Done,
        "Failed" => State::Failed,
        "Running" if is(pod, "Ready", "True") => State::Ready,
        "Running" | "Unknown" => State::Unready,
        _ if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() => State::Pending,
        _ => State::Progress,
    }
}

fn job(job: &Value) -> State {
    match () {
        () if is(job, "Complete", "True") => State::Done,
        () if is(job, "Failed", "True") => State::Failed,
        () if job["spec"]["suspend"] == true => State::Idle,
        () => State::Progress,
    }
}

fn workload(object: &Value, (ready, wanted): (i64, i64)) -> State {
    let status = &object["status"];
    let updated = status["updatedReplicas"].as_i64().or(status["updatedNumberScheduled"].as_i64());
    match () {
        () if is(object, "Progressing", "False") || is(object, "ReplicaFailure", "True") => State::Failed,
        () if wanted == 0 && ready == 0 => State::Idle,
        () if ready >= wanted && updated.is_none_or(|updated| updated >= wanted) => State::Ready,
        () => State::Progress,
    }
}

/// The state by the usual conditions and phases, for kinds that have no rule of their own.
fn by_conditions(object: &Value) -> State {
    for (kind, status, state) in [
        ("Ready", "True", State::Ready),
        ("Ready", "False", State::Unready),
        ("Ready", "Unknown", State::Unready),
        ("Available", "True", State::Ready),
        ("Available", "False", State::Unready),
        ("Established", "True", State::Ready),
    ] {
        if is(object, kind, status) {
            return state;
        }
    }
    match object["status"]["phase"].as_str().unwrap_or_default() {
        "Active" | "Bound" | "Available" => State::Ready,
        "Pending" => State::Pending,
        "Failed" | "Lost" => State::Failed,
        _ => State::Plain,
    }
}

/// Ready and wanted parts of a workload; `None` for other kinds.
pub(super) fn parts(resource: &Resource, object: &Value) -> Option<(i64, i64)> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let number = |value: &Value, default: i64| value.as_i64().unwrap_or(default);
    let is_replicated = [("apps", "deployments"), ("apps", "replicasets"), ("apps", "statefulsets")];
    if is_replicated.iter().any(|(group, plural)| resource.is(group, plural))
        || resource.is("", "replicationcontrollers")
    {
        return Some((number(&status["readyReplicas"], 0), number(&spec["replicas"], 1)));
    }
    if resource.is("apps", "daemonsets") {
        return Some((number(&status["numberReady"], 0), number(&status["desiredNumberScheduled"], 0)));
    }
    if resource.is("batch", "jobs") {
        return Some((number(&status["succeeded"], 0), number(&spec["completions"], 1)));
    }
    None
}

/// A condition by its type.
pub(super) fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// The message of the condition that says why an object is not well; empty if none does.
pub(super) fn complaint(object: &Value) -> String {
    let found = [
        ("Progressing", "False"),
        ("ReplicaFailure", "True"),
        ("Failed", "True"),
        ("Ready", "False"),
        ("Ready", "Unknown"),
        ("Available", "False"),
    ]
    .iter()
    .find_map(|(kind, status)| condition(object, kind).filter(|condition| condition["status"] == *status));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    found.map_or_else(String::new, |condition| match text(&condition["message"]) {
        message if message.is_empty() => text(&condition["reason"]),
        message => message,
    })
}

fn is(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;
    use serde_json::json;

    fn word(group: &str, plural: &str, object: &Value) -> &'static str {
        of(kind::lookup(group, "v1", plural).unwrap(), object).word()
    }

    #[test]
    fn pods_have_a_state_for_each_part_of_their_life() {
        let pod = |phase: &str, node: &str, ready: &str| json!({"spec": {"nodeName": node}, "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
        for (phase, node, ready, expected) in [
            ("Pending", "", "False", "pending"),
            ("Pending", "n", "False", "progress"),
            ("Running", "n", "True", "ready"),
            ("Running", "n", "False", "unready"),
            ("Succeeded", "n", "False", "done"),
            ("Failed", "n", "False", "failed"),
        ] {
            assert_eq!(word("", "pods", &pod(phase, node, ready)), expected, "{phase} {node} {ready}");
        }
        let mut ending = pod("Running", "n", "True");
        ending["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(word("", "pods", &ending), "ending");
    }

    #[test]
    fn a_workload_is_ready_when_all_its_parts_are_of_the_newest_template() {
        let deployment = |wanted: i64, ready: i64, updated: i64| json!({"spec": {"replicas": wanted}, "status": {"readyReplicas": ready, "updatedReplicas": updated}});
        assert_eq!(word("apps", "deployments", &deployment(2, 2, 2)), "ready");
        assert_eq!(word("apps", "deployments", &deployment(2, 2, 1)), "progress");
        assert_eq!(word("apps", "deployments", &deployment(2, 1, 2)), "progress");
        assert_eq!(word("apps", "deployments", &deployment(0, 0, 0)), "idle");
        let stuck = json!({"spec": {"replicas": 1}, "status": {"conditions": [
            {"type": "Progressing", "status": "False", "message": "deadline"}]}});
        assert_eq!((word("apps", "deployments", &stuck), &*complaint(&stuck)), ("failed", "deadline"));
        let job = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
        assert_eq!(
            ["Complete", "Failed", "Other"].map(|kind| word("batch", "jobs", &job(kind))),
            ["done", "failed", "progress"]
        );
    }

    #[test]
    fn other_kinds_are_judged_by_usual_conditions_and_phases() {
        let node = |ready: &str, cordoned: bool| json!({"spec": {"unschedulable": cordoned}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        assert_eq!(word("", "nodes", &node("True", false)), "ready");
        assert_eq!(word("", "nodes", &node("True", true)), "idle");
        assert_eq!(word("", "nodes", &node("Unknown", true)), "unready");
        let phase = |phase: &str| json!({"status": {"phase": phase}});
        assert_eq!(word("", "persistentvolumeclaims", &phase("Pending")), "pending");
        assert_eq!(word("", "namespaces", &phase("Active")), "ready");
        assert_eq!(word("", "configmaps", &json!({})), "");
    }
}
