//! Tests of the allowed disruptions, and of how long evicted pods are not counted.

use super::plan::{Observed, depends_on_scale, plan};
use super::scale::{Kind, ReadScales, Workload, Workloads, no_scale};
use super::stale::expires_in;
use crate::action::{Action, Plan};
use crate::disruption_target::unmark;
use crate::resource::Resource;
use crate::view::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use serde_json::{Value, from_value, json};
use std::sync::Arc;
use std::time::Duration;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn ago(seconds: i64) -> Timestamp {
    NOW.checked_sub(SignedDuration::from_secs(seconds)).unwrap()
}

fn budget(spec: Value) -> PodDisruptionBudget {
    let mut budget = json!({"metadata": {"name": "b", "namespace": "n", "generation": 2}, "spec": spec});
    budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    from_value(budget).unwrap()
}

fn owner(kind: &str, name: &str) -> Value {
    let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    json!({"apiVersion": version, "kind": kind, "name": name, "uid": format!("{name}-uid"), "controller": true})
}

fn pod(name: &str, owner: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": [owner]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// `ready` ready and some unready pods of the ReplicaSet `web-1`.
fn web(ready: usize, unready: usize) -> Vec<Value> {
    let one = |i| {
        let mut pod = pod(&format!("web-{i}"), owner("ReplicaSet", "web-1"));
        pod["status"]["conditions"][0]["status"] = json!(if i < ready { "True" } else { "False" });
        pod
    };
    (0..ready + unready).map(one).collect()
}

/// Workloads: a Deployment `web` of ten with its ReplicaSet, a ReplicaSet of 4, a StatefulSet of 5, a
/// ReplicationController of 6, and a ReplicaSet whose Deployment is missing.
fn find(kind: Kind, name: &str) -> Option<Workload> {
    let (replicas, controller) = match (kind, name) {
        (Kind::Deployment, "web") => (10, None),
        (Kind::ReplicaSet, "web-1") => (7, Some(owner("Deployment", "web"))),
        (Kind::ReplicaSet, "alone") => (4, None),
        (Kind::ReplicaSet, "orphan") => (3, Some(owner("Deployment", "gone"))),
        (Kind::StatefulSet, "db") => (5, None),
        (Kind::ReplicationController, "old") => (6, None),
        _ => return None,
    };
    let controller = controller.map(|c| from_value(c).unwrap());
    Some(Workload { uid: format!("{name}-uid"), replicas, controller })
}

fn planned(budget: &PodDisruptionBudget, pods: &[Value]) -> Plan {
    let pods: Vec<Arc<Pod>> = pods.iter().map(|pod| Arc::new(from_value(pod.clone()).unwrap())).collect();
    let read = read_scales();
    plan(Observed { budget, pods: &pods }, &Workloads { cached: find, read: &read }, NOW)
}

/// Scales of kinds without a cache: a Gang of 4, one that is missing, and a Job.
fn read_scales() -> ReadScales {
    [
        ("four-uid", Ok(Some(4))),
        ("missing-uid", Ok(None)),
        ("j-uid", Err(no_scale(&Resource::named("batch", "v1", "jobs")))),
        ("agent-uid", Err(no_scale(&Resource::named("apps", "v1", "daemonsets")))),
        ("n-uid", Err(no_scale(&Resource::named("", "v1", "nodes")))),
    ]
    .into_iter()
    .map(|(uid, scale)| (uid.to_owned(), scale))
    .collect()
}

fn gang(name: &str) -> Value {
    let mut gang = owner("Gang", name);
    gang["apiVersion"] = json!("example.com/v1");
    gang
}

fn status(plan: &Plan) -> PodDisruptionBudgetStatus {
    let budget: PodDisruptionBudget = plan.actions.first().and_then(Action::reported).expect("a status");
    budget.status.unwrap()
}

/// Reasons of the events.
fn event_reasons(plan: &Plan) -> Vec<&str> {
    let events = plan.actions.iter().filter_map(|action| match action {
        Action::Event(event) => Some(event.reason.as_str()),
        _ => None,
    });
    events.collect()
}

/// Expected, desired, healthy and allowed pods.
fn counts(spec: Value, pods: &[Value]) -> (i32, i32, i32, i32) {
    let status = status(&planned(&budget(spec), pods));
    (
        status.expected_pods.unwrap(),
        status.desired_healthy.unwrap(),
        status.current_healthy.unwrap(),
        status.disruptions_allowed.unwrap(),
    )
}

#[test]
fn allowed_disruptions_are_healthy_pods_above_the_required() {
    let table = [
        // An absolute number: relative to the existing pods.
        (json!({"minAvailable": 2}), web(3, 0), (3, 2, 3, 1)),
        (json!({"minAvailable": 2}), web(2, 1), (3, 2, 2, 0)),
        (json!({"minAvailable": 2}), web(1, 0), (1, 2, 1, 0)),
        (json!({"minAvailable": 0}), web(3, 0), (3, 0, 3, 3)),
        (json!({"minAvailable": 0}), web(0, 0), (0, 0, 0, 0)),
        // A percentage of the Deployment's desired size, rounded up.
        (json!({"minAvailable": "50%"}), web(7, 0), (10, 5, 7, 2)),
        (json!({"minAvailable": "51%"}), web(10, 0), (10, 6, 10, 4)),
        (json!({"minAvailable": "0%"}), web(1, 0), (10, 0, 1, 1)),
        (json!({"minAvailable": "100%"}), web(10, 0), (10, 10, 10, 0)),
        (json!({"maxUnavailable": 1}), web(10, 0), (10, 9, 10, 1)),
        (json!({"maxUnavailable": 1}), web(9, 1), (10, 9, 9, 0)),
        (json!({"maxUnavailable": 3}), web(9, 0), (10, 7, 9, 2)),
        (json!({"maxUnavailable": 30}), web(9, 0), (10, 0, 9, 9)),
        (json!({"maxUnavailable": 0}), web(10, 0), (10, 10, 10, 0)),
        (json!({"maxUnavailable": "25%"}), web(10, 0), (10, 7, 10, 3)),
        (json!({"maxUnavailable": "50%"}), web(0, 0), (0, 0, 0, 0)),
        (json!({}), web(3, 0), (0, 0, 3, 0)),
    ];
    for (spec, pods, expected) in table {
        assert_eq!(counts(spec.clone(), &pods), expected, "{spec} of {}", pods.len());
    }
}

#[test]
fn expected_pods_are_the_sum_of_their_controllers_replicas() {
    let owners = [
        (vec![owner("ReplicaSet", "alone")], 4),
        (vec![owner("ReplicaSet", "orphan")], 3),
        (vec![owner("StatefulSet", "db")], 5),
        (vec![owner("ReplicationController", "old")], 6),
        (vec![owner("Deployment", "web")], 10),
        (vec![owner("ReplicaSet", "web-1"), owner("ReplicaSet", "web-1"), owner("Deployment", "web")], 10),
        (vec![owner("ReplicaSet", "alone"), owner("StatefulSet", "db")], 9),
        (vec![gang("four")], 4),
        (vec![gang("four"), gang("four"), owner("StatefulSet", "db")], 9),
    ];
    for (owners, expected) in owners {
        let pods: Vec<_> = owners.iter().map(|owner| pod("p", owner.clone())).collect();
        assert_eq!(counts(json!({"maxUnavailable": 1}), &pods).0, expected, "{owners:?}");
    }
}

#[test]
fn a_terminating_pod_is_not_healthy() {
    let mut pods = web(3, 0);
    pods[0]["metadata"]["deletionTimestamp"] = json!(NOW);
    assert_eq!(counts(json!({"minAvailable": 1}), &pods), (3, 1, 2, 1));
}

#[test]
fn an_evicted_pod_is_not_counted_for_two_minutes() {
    let mut budget = budget(json!({"minAvailable": 1}));
    let books = json!({"web-0": ago(119), "web-1": ago(120), "web-2": ago(5), "gone": ago(1)});
    budget.status = Some(from_value(json!({ "disruptedPods": books })).unwrap());
    let mut pods = web(4, 0);
    pods[2]["metadata"]["deletionTimestamp"] = json!(NOW);
    let plan = planned(&budget, &pods);
    let status = status(&plan);
    let books = status.disrupted_pods.unwrap();
    assert_eq!(books.keys().collect::<Vec<_>>(), ["web-0"], "who is gone, going or stays is not missed");
    assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(2), Some(1)));
    assert_eq!(plan.wake, Some(Duration::from_secs(1)));
    let Some(Action::Event(event)) = plan.actions.get(1) else { panic!("{plan:?}") };
    assert_eq!((event.reason.as_str(), event.about.name.as_str()), ("NotDeleted", "web-1"));
    assert_eq!(event.message, "Pod was expected by PDB n/b to be deleted but it wasn't");
}

#[test]
fn an_unchanged_status_is_not_written() {
    let mut budget = budget(json!({"minAvailable": 2}));
    let first = status(&planned(&budget, &web(3, 0)));
    let condition = &first.conditions.as_ref().unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.status.as_str(), condition.reason.as_str()),
        ("DisruptionAllowed", "True", "SufficientPods")
    );
    assert_eq!((condition.observed_generation, first.observed_generation), (Some(2), Some(2)));
    budget.status = Some(PodDisruptionBudgetStatus { disrupted_pods: Some([].into()), ..first });
    assert_eq!(planned(&budget, &web(3, 0)), Plan::nothing());
    budget.metadata.generation = Some(3);
    assert_eq!(status(&planned(&budget, &web(3, 0))).observed_generation, Some(3));
}

#[test]
fn transition_times_change_with_the_status_only() {
    let mut budget = budget(json!({"minAvailable": 2}));
    let condition = json!({"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
        "message": "", "lastTransitionTime": ago(60)});
    let other =
        json!({"type": "Mine", "status": "True", "reason": "R", "message": "", "lastTransitionTime": ago(9)});
    budget.status = Some(from_value(json!({ "conditions": [other, condition] })).unwrap());
    for (ready, status_is, reason, since) in
        [(4, "True", "SufficientPods", ago(60)), (2, "False", "InsufficientPods", NOW)]
    {
        let conditions = status(&planned(&budget, &web(ready, 0))).conditions.unwrap();
        assert_eq!((conditions.len(), conditions[0].type_.as_str()), (2, "Mine"));
        let now = &conditions[1];
        assert_eq!((now.status.as_str(), now.reason.as_str()), (status_is, reason));
        assert_eq!(now.last_transition_time.0, since);
    }
}

#[test]
fn unknown_expected_pods_allow_no_disruption() {
    let lost = "found no controllers for pod \"p\"";
    let mut replaced = owner("ReplicaSet", "alone");
    replaced["uid"] = json!("another");
    let mut custom = owner("Rollout", "r");
    custom["apiVersion"] = json!("example.com/v1");
    let mut job = owner("Job", "j");
    job["apiVersion"] = json!("batch/v1");
    let mut node = owner("Node", "n");
    node["apiVersion"] = json!("v1");
    let table = [
        (owner("ReplicaSet", "gone"), lost),
        (replaced, lost),
        (owner("DaemonSet", "agent"), "daemonsets.apps does not implement the scale subresource"),
        (job, "jobs.batch does not implement the scale subresource"),
        (custom, "no matches for kind \"Rollout\" in version \"example.com/v1\""),
        (node, "nodes does not implement the scale subresource"),
        (gang("missing"), lost),
    ];
    for (owner, why) in table {
        for spec in [json!({"maxUnavailable": 1}), json!({"minAvailable": "10%"})] {
            let mut budget = budget(spec);
            let old = json!({"disruptionsAllowed": 2, "currentHealthy": 5, "desiredHealthy": 3, "expectedPods": 5, "observedGeneration": 1});
            budget.status = Some(from_value(old).unwrap());
            let plan = planned(&budget, &[pod("p", owner.clone())]);
            let status = status(&plan);
            let condition = &status.conditions.as_ref().unwrap()[0];
            assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("SyncFailed", why));
            assert_eq!((condition.status.as_str(), condition.observed_generation), ("False", Some(1)));
            assert_eq!((status.disruptions_allowed, status.current_healthy), (Some(0), Some(5)));
            assert_eq!(event_reasons(&plan), ["CalculateExpectedPodCountFailed"]);
            budget.status = Some(status);
            assert_eq!(planned(&budget, &[pod("p", owner.clone())]), Plan::nothing(), "told once");
        }
        // An absolute `minAvailable` needs no controller.
        assert_eq!(counts(json!({"minAvailable": 0}), &[pod("p", owner)]), (1, 0, 1, 1));
    }
}

#[test]
fn uncontrolled_pods_are_not_expected() {
    let mut alone = pod("p", Value::Null);
    alone["metadata"]["ownerReferences"] = json!([]);
    let spec = json!({"maxUnavailable": 1});
    assert_eq!(counts(spec.clone(), &[alone.clone()]), (0, 0, 1, 0));
    let plan = planned(&budget(spec), &[alone, pod("q", owner("ReplicaSet", "alone"))]);
    assert_eq!(event_reasons(&plan), ["UnmanagedPods"]);
    assert_eq!(status(&plan).expected_pods, Some(4));
    let Some(Action::Event(event)) = plan.actions.get(1) else { panic!("{plan:?}") };
    let selector = "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},})";
    assert!(event.message.contains(selector), "{}", event.message);
}

#[test]
fn a_budget_without_pods_records_an_event() {
    assert_eq!(event_reasons(&planned(&budget(json!({"maxUnavailable": 1})), &[])), ["NoPods"]);
}

#[test]
fn only_absolute_min_available_is_independent_of_scale() {
    let depends = |spec: Value| depends_on_scale(&budget(spec).spec.unwrap());
    let table = [
        (json!({"minAvailable": 1}), false),
        (json!({"minAvailable": "1%"}), true),
        (json!({"maxUnavailable": 1}), true),
        (json!({"maxUnavailable": "1%"}), true),
        (json!({}), false),
    ];
    for (spec, expected) in table {
        assert_eq!(depends(spec.clone()), expected, "{spec}");
    }
}

fn marked(condition: &Value, rest: Value) -> Pod {
    let ready = json!({"type": "Ready", "status": "True"});
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"},
        "status": {"phase": "Running", "conditions": [condition, ready]}});
    for (part, fields) in rest.as_object().into_iter().flatten() {
        for (field, value) in fields.as_object().into_iter().flatten() {
            pod[part][field] = value.clone();
        }
    }
    from_value(pod).unwrap()
}

#[test]
fn a_disruption_target_without_deletion_is_stale_after_two_minutes() {
    let mark = |status: &str, reason: &str, age| json!({"type": "DisruptionTarget", "status": status, "reason": reason, "lastTransitionTime": ago(age)});
    let evicted = |age| mark("True", "EvictionByEvictionAPI", age);
    let table = [
        (evicted(0), json!({}), Some(120)),
        (evicted(119), json!({}), Some(1)),
        (evicted(500), json!({}), Some(0)),
        (mark("False", "EvictionByEvictionAPI", 500), json!({}), None),
        (mark("True", "TerminationByKubelet", 500), json!({}), None),
        (evicted(500), json!({"metadata": {"deletionTimestamp": NOW}}), None),
        (evicted(500), json!({"status": {"phase": "Failed"}}), None),
    ];
    for (condition, rest, expected) in table {
        let wait = expires_in(&marked(&condition, rest), NOW);
        assert_eq!(wait, expected.map(Duration::from_secs), "{condition}");
    }
    let Action::Patch { patch, status: true, .. } = unmark(&marked(&evicted(500), json!({})), NOW) else {
        panic!("no patch of the status")
    };
    assert_eq!(patch["metadata"], json!({"uid": "u", "resourceVersion": "7"}));
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 2);
    assert_eq!((&conditions[0]["type"], &conditions[1]["status"]), (&json!("Ready"), &json!("False")));
    assert!(conditions[1].get("reason").is_none());
}
