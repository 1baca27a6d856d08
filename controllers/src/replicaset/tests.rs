//! Tests of the ReplicaSet plan, with tables and random changes of pods.

use super::plan::{Change, Failure, Observed, actions, change, pod_of, report, rest};
use super::victims::{PodsPerNode, rank};
use crate::action::{Action, Plan};
use crate::limits::REPLICA_BURST;
use crate::set_kind::SetKind::{self, ReplicaSet};
use crate::set_kind::{as_replica_set, as_replication_controller};
use crate::view::Pod;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1;
use k8s_openapi::api::core::v1::ReplicationController;
use kstore_nondet::Rng;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};
use std::sync::Arc;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn set(replicas: i32, min_ready: i32) -> v1::ReplicaSet {
    from_value(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "default", "uid": "rs", "generation": 3},
        "spec": {
            "replicas": replicas, "minReadySeconds": min_ready, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "v": "1"}, "annotations": {"a": "b"}},
                         "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }))
    .unwrap()
}

fn pod(name: &str, more: Value) -> Arc<Pod> {
    let mut pod: Pod = from_value(more).unwrap();
    pod.metadata.name = name.into();
    pod.metadata.uid = name.into();
    if pod.metadata.labels.is_empty() {
        pod.metadata.labels = [("app", "web"), ("v", "1")].map(|(k, v)| (k.into(), v.into())).into();
    }
    Arc::new(pod)
}

fn ready(since: i64) -> Value {
    let at = START.checked_sub(SignedDuration::from_secs(since)).unwrap();
    json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}])
}

fn status_of(plan: &Plan) -> k8s_openapi::api::apps::v1::ReplicaSetStatus {
    let [write] = plan.actions.as_slice() else { panic!("one status write, not {:?}", plan.actions) };
    write.reported::<v1::ReplicaSet>().unwrap().status.unwrap()
}

#[test]
fn pods_carry_template_name_prefix_and_controller() {
    let pod = pod_of(ReplicaSet, &set(1, 0));
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-1-"));
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()["a"], "b");
    let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("ReplicaSet", "rs"));
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
}

#[test]
fn missing_pods_are_created_in_bursts_ignoring_ended_and_terminating_ones() {
    let pods = [
        pod("a", json!({})),
        pod("b", json!({"status": {"phase": "Failed"}})),
        pod("c", json!({"metadata": {"deletionTimestamp": START}})),
    ];
    let none = PodsPerNode::new;
    let of =
        |replicas| change(Observed { kind: ReplicaSet, set: &set(replicas, 0), pods: &pods }, START, none);
    assert_eq!(of(1), Change::None);
    assert_eq!(of(3), Change::Create(2));
    assert_eq!(of(5000), Change::Create(REPLICA_BURST));
    assert!(of(5000).is_full_burst() && !of(3).is_full_burst() && !of(1).is_full_burst());
    assert_eq!(of(0), Change::Delete(vec![Arc::clone(&pods[0])]));
    let created = actions(ReplicaSet, &set(3, 0), &of(3));
    assert!(matches!(&created[..], [Action::CreateBatch(pods)] if pods.len() == 2), "{created:?}");
}

#[test]
fn a_replica_set_that_is_being_deleted_creates_and_deletes_no_pods() {
    let pods = [pod("a", json!({})), pod("b", json!({}))];
    for replicas in [0, 1, 5] {
        let mut set = set(replicas, 0);
        set.metadata.deletion_timestamp = from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let seen = Observed { kind: ReplicaSet, set: &set, pods: &pods };
        assert_eq!(change(seen, START, PodsPerNode::new), Change::None, "{replicas}");
    }
}

#[test]
fn surplus_pods_are_deleted_in_the_documented_order() {
    let on = |more: Value| {
        let mut base = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running", "conditions": ready(64)},
            "metadata": {"creationTimestamp": START.checked_sub(SignedDuration::from_secs(100)).unwrap()}});
        json_patch(&mut base, &more);
        base
    };
    let ordered = [
        pod("unassigned", on(json!({"spec": {"nodeName": ""}}))),
        pod("pending", on(json!({"status": {"phase": "Pending"}}))),
        pod("unknown", on(json!({"status": {"phase": "Unknown"}}))),
        pod("not-ready", on(json!({"status": {"conditions": []}}))),
        pod(
            "cheap",
            on(json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})),
        ),
        pod("crowded", on(json!({"spec": {"nodeName": "n2"}}))),
        pod("ready-lately", on(json!({"status": {"conditions": ready(3)}}))),
        pod("restarted", on(json!({"status": {"containerStatuses": [{"restartCount": 3}]}}))),
        pod("young", on(json!({"metadata": {"creationTimestamp": START}}))),
        pod("y-same", on(json!({}))),
        pod("z-same", on(json!({}))),
    ];
    let neighbours: PodsPerNode = [("n1".to_owned(), 1), ("n2".to_owned(), 2)].into();
    let mut shuffled = ordered.to_vec();
    shuffled.reverse();
    shuffled.sort_by_key(|p| rank(p, &neighbours, START));
    let names: Vec<&str> = shuffled.iter().map(|p| p.metadata.name.as_str()).collect();
    let expected: Vec<&str> = ordered.iter().map(|p| p.metadata.name.as_str()).collect();
    assert_eq!(names, expected);
}

fn json_patch(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            more.iter().for_each(|(k, v)| json_patch(base.entry(k.clone()).or_insert(Value::Null), v));
        }
        (base, more) => *base = more.clone(),
    }
}

#[test]
fn the_status_counts_and_wakes_when_a_pod_becomes_available() {
    let set = set(4, 10);
    let pods = [
        pod("a", json!({"status": {"conditions": ready(20)}})),
        pod("b", json!({"status": {"conditions": ready(4)}})),
        pod("c", json!({"metadata": {"labels": {"app": "web"}}})),
        pod("d", json!({"metadata": {"deletionTimestamp": START}})),
    ];
    let seen = Observed { kind: ReplicaSet, set: &set, pods: &pods };
    let plan = report(seen, None, START);
    let status = status_of(&plan);
    let numbers =
        (status.replicas, status.fully_labeled_replicas, status.ready_replicas, status.available_replicas);
    assert_eq!(numbers, (3, Some(2), Some(2), Some(1)));
    assert_eq!((status.terminating_replicas, status.observed_generation), (Some(1), Some(3)));
    assert_eq!(plan.wake.unwrap().as_secs(), 6);
    let mut written = set.clone();
    written.status = Some(status);
    let again = report(Observed { kind: ReplicaSet, set: &written, pods: &pods }, None, START);
    assert_eq!(again.actions, [], "nothing new, nothing written");
}

#[test]
fn a_large_set_delays_runs_after_a_status_update_unless_its_spec_changed() {
    let rest = |replicas: i32, observed: i64, millis: i64| {
        let mut set = set(replicas, 0);
        set.status = Some(from_value(json!({"replicas": 0, "observedGeneration": observed})).unwrap());
        let now = START.checked_add(SignedDuration::from_millis(millis)).unwrap();
        rest(&set, Some(START), now).map(|r| r.as_millis())
    };
    assert_eq!(rest(500, 3, 10), Some(15));
    assert_eq!(rest(500, 3, 25), None);
    assert_eq!(rest(500, 2, 10), None, "the user changed something");
    assert_eq!(rest(1_000_000, 3, 0), Some(100));
    assert_eq!(rest(3, 3, 1), None);
}

#[test]
fn a_failure_sets_a_condition_while_it_lasts() {
    let mut set = set(2, 0);
    let failed = Failure { reason: "FailedCreate", message: "quota".into() };
    let status =
        status_of(&report(Observed { kind: ReplicaSet, set: &set, pods: &[] }, Some(&failed), START));
    let conditions = status.conditions.clone().unwrap();
    assert_eq!(
        (conditions[0].type_.as_str(), conditions[0].reason.as_deref()),
        ("ReplicaFailure", Some("FailedCreate"))
    );
    set.status = Some(status);
    assert_eq!(
        report(Observed { kind: ReplicaSet, set: &set, pods: &[] }, Some(&failed), START),
        Plan::nothing()
    );
    assert_eq!(
        status_of(&report(Observed { kind: ReplicaSet, set: &set, pods: &[] }, None, START)).conditions,
        None
    );
}

#[test]
fn a_replication_controller_behaves_like_a_replica_set() {
    let controller: ReplicationController = from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "rc", "generation": 2, "resourceVersion": "7"},
        "spec": {
            "replicas": 2, "minReadySeconds": 3, "selector": {"app": "web"},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {
            "replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1,
            "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}],
        },
    }))
    .unwrap();
    let set = as_replica_set(controller.clone());
    assert_eq!(as_replication_controller(set.clone()), controller);
    let kind = SetKind::ReplicationController;
    let owner = pod_of(kind, &set).metadata.owner_references.unwrap().remove(0);
    let owner = (owner.api_version, owner.kind, owner.uid);
    assert_eq!(owner, ("v1".into(), "ReplicationController".into(), "rc".into()));
    let gone = [pod("a", json!({"metadata": {"deletionTimestamp": START}}))];
    let plan = report(Observed { kind, set: &set, pods: &gone }, None, START);
    let [Action::UpdateStatus(object)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    let written: ReplicationController = object.typed().unwrap();
    let status = written.status.clone().unwrap();
    assert_eq!((status.replicas, status.observed_generation, status.conditions), (0, Some(2), None));
    assert_eq!(written.metadata, controller.metadata);
    let again = Observed { kind, set: &as_replica_set(written), pods: &gone };
    assert_eq!(report(again, None, START), Plan::nothing(), "nothing new, nothing written");
}

proptest! {
    #[test]
    fn lost_pods_are_replaced_and_only_own_pods_are_deleted(
        wanted in 0i32..30,
        seed in any::<u64>(),
        losses in prop::collection::vec(0usize..10, 0..10),
    ) {
        let rng = Rng::seeded(seed);
        let set = set(wanted, 0);
        let mut pods: Vec<Arc<Pod>> = (0..rng.below(40)).map(|i| pod(&format!("p{i}"), json!({}))).collect();
        let mut made = 0;
        for lost in losses {
            (0..lost.min(pods.len())).for_each(|_| drop(pods.swap_remove(rng.below(pods.len() as u64) as usize)));
            match change(Observed { kind: ReplicaSet, set: &set, pods: &pods }, START, PodsPerNode::new) {
                Change::None => {}
                Change::Create(n) => {
                    pods.extend((0..n).map(|i| pod(&format!("m{made}-{i}"), json!({}))));
                    made += 1;
                }
                Change::Delete(victims) => {
                    prop_assert!(victims.iter().all(|v| pods.iter().any(|p| p.metadata.uid == v.metadata.uid)));
                    pods.retain(|p| victims.iter().all(|v| v.metadata.uid != p.metadata.uid));
                }
            }
            prop_assert_eq!(pods.len(), wanted as usize);
        }
    }
}
