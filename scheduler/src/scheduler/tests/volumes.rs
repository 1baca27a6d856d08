//! Tests of pods with claims: their waits, their wake-ups and the decisions about their volumes.

use super::*;
use crate::gates::Gates;
use crate::testing::{bound_claim, claim, claiming_pod, class, near, volume};

fn bind_volumes(scheduler: &mut Scheduler, second: i64) -> VolumeWrites {
    match scheduler.next(at(second)) {
        Some(Action::BindVolumes(writes)) => writes,
        other => panic!("expected writes of volumes, not {other:?}"),
    }
}

/// The message of a refusal, with counted reasons, or with one of the pod as such: then nothing else is done for the pod.
fn refused(nodes: usize, why: &str) -> String {
    if !why.starts_with(|first: char| first.is_ascii_digit()) {
        return format!("0/{nodes} nodes are available: {why}. not found");
    }
    format!(
        "0/{nodes} nodes are available: {why}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: \
         {nodes} Preemption is not helpful for scheduling."
    )
}

fn gone(change: StorageChange) -> StorageChange {
    match change {
        StorageChange::Claim(Change::Set(record)) => StorageChange::Claim(Change::Gone(record)),
        StorageChange::Volume(Change::Set(record)) => StorageChange::Volume(Change::Gone(record)),
        other => panic!("{other:?}"),
    }
}

fn at_revision(revision: u64, mut more: serde_json::Value) -> serde_json::Value {
    crate::testing::merge(&mut more, json!({ "metadata": { "resourceVersion": revision.to_string() } }));
    more
}

const LOCAL: &str = "kubernetes.io/no-provisioner";

#[test]
fn a_pod_is_unschedulable_until_its_claims_exist_and_are_bound() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.storage(volume("v", "1Gi", json!({})), at(0));
    s.pod(Change::Set(claiming_pod("p", &["data"])), at(0));
    assert_eq!(refuse(&mut s, 0).message, refused(1, "persistentvolumeclaim \"data\" not found"));
    s.storage(claim("other", json!({})), at(10));
    s.node(Change::Set(node("n2", json!({ "unschedulable": true }))), at(10));
    s.node(Change::Gone(node("n2", json!({}))), at(10));
    assert!(!s.is_ready(at(10)), "neither another claim nor a node helps");
    let leaving = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    s.storage(claim("data", leaving), at(20));
    assert_eq!(refuse(&mut s, 20).message, refused(1, "persistentvolumeclaim \"data\" is being deleted"));
    s.storage(claim("data", json!({})), at(40));
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    assert_eq!(refuse(&mut s, 40).message, refused(1, unbound));
    s.storage(bound_claim("data", "v", at_revision(7, json!({}))), at(60));
    let binding = bind(&mut s, 60);
    assert_eq!((&*binding.choice.node, binding.cause), ("n1", Revision(7)));
}

#[test]
fn a_pod_is_bound_after_its_claim_and_other_pods_are_scheduled_meanwhile() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.node(Change::Set(node("n2", json!({}))), at(0));
    let spec = json!({ "spec": { "storageClassName": "s" } });
    let mut local = near("kubernetes.io/hostname", "n2");
    crate::testing::merge(&mut local, spec.clone());
    s.storage(class("s", LOCAL, "WaitForFirstConsumer", json!({})), at(0));
    s.storage(claim("c", spec.clone()), at(0));
    s.storage(claim("d", spec.clone()), at(0));
    s.pod(Change::Set(claiming_pod("p", &["c"])), at(0));
    let none = "2 node(s) didn't find available persistent volumes to bind";
    assert_eq!(refuse(&mut s, 0).message, refused(2, none));
    s.storage(volume("v", "1Gi", local.clone()), at(10));
    let writes = bind_volumes(&mut s, 10);
    assert_eq!((&*writes.binding.choice.node, writes.bind.len(), writes.provision.len()), ("n2", 1, 0));

    s.pod(Change::Set(claiming_pod("q", &["d"])), at(11));
    assert_eq!(refuse(&mut s, 11).message, refused(2, none), "the volume is kept for the other claim");
    s.pod(Change::Set(cpu_pod("r", "1")), at(11));
    assert_eq!(&*bind(&mut s, 11).pod.uid, "r", "a pod without claims does not wait for it");

    s.volumes_written(&writes, Revision(20), at(0));
    assert!(s.next(at(12)).is_none());
    let mut kept = local.clone();
    crate::testing::merge(
        &mut kept,
        json!({ "spec": { "claimRef": { "namespace": "ns", "name": "c", "uid": "c" } } }),
    );
    s.storage(volume("v", "1Gi", at_revision(20, kept.clone())), at(13));
    assert!(s.next(at(13)).is_none(), "it is written, not bound");
    crate::testing::merge(&mut kept, json!({ "status": { "phase": "Bound" } }));
    s.storage(volume("v", "1Gi", at_revision(21, kept)), at(14));
    s.storage(bound_claim("c", "v", at_revision(21, spec)), at(14));
    let binding = bind(&mut s, 14);
    assert_eq!((&*binding.pod.uid, &*binding.choice.node, binding.at), ("p", "n2", at(14)));
    assert_eq!(binding.cause, Revision(21), "what bound the claim made the pod ready");
    s.bound(&binding.pod.uid);
    assert!(s.deadline().is_none_or(|deadline| deadline > at(300)));
}

/// A scheduler with a pod whose claim needs a provisioned volume on `n1`.
fn provisioning() -> (Scheduler, VolumeWrites) {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.storage(class("s", "x", "WaitForFirstConsumer", json!({})), at(0));
    s.storage(claim("c", json!({ "spec": { "storageClassName": "s" } })), at(0));
    let pod = with(&claiming_pod("p", &["c"]), |pod| pod.requests = cpu_pod("p", "1").requests.clone());
    s.pod(Change::Set(pod), at(0));
    let writes = bind_volumes(&mut s, 0);
    assert_eq!((writes.bind.len(), writes.provision.len()), (0, 1));
    (s, writes)
}

fn selected(node: &str, more: serde_json::Value) -> serde_json::Value {
    let mut all = json!({
        "metadata": { "annotations": { "volume.kubernetes.io/selected-node": node } },
        "spec": { "storageClassName": "s" },
    });
    crate::testing::merge(&mut all, more);
    all
}

const FAILED: &str = "running PreBind plugin \"VolumeBinding\": binding volumes: ";

#[test]
fn a_failed_volume_binding_reports_kube_schedulers_message_and_the_pod_is_retried() {
    type Interference = fn(&mut Scheduler, &VolumeWrites);
    let cases: [(&str, Interference); 6] = [
        ("conflict", |s, writes| s.volumes_refused(writes, "conflict")),
        ("provisioning failed for PVC \"c\"", |s, writes| {
            s.volumes_written(writes, Revision(9), at(0));
            s.storage(claim("c", at_revision(9, selected("n1", json!({})))), at(1));
            s.storage(claim("c", at_revision(10, json!({ "spec": { "storageClassName": "s" } }))), at(1));
        }),
        ("failed to check pvc binding: persistentvolumeclaim \"c\" not found", |s, writes| {
            s.volumes_written(writes, Revision(9), at(0));
            s.storage(gone(claim("c", json!({}))), at(1));
        }),
        ("pv \"v\" node affinity doesn't match node \"n1\": no matching NodeSelectorTerms", |s, writes| {
            s.volumes_written(writes, Revision(9), at(0));
            s.storage(volume("v", "1Gi", near("kubernetes.io/hostname", "n2")), at(1));
            s.storage(bound_claim("c", "v", at_revision(10, selected("n1", json!({})))), at(1));
        }),
        ("the selected node does not exist any more", |s, writes| {
            s.volumes_written(writes, Revision(9), at(0));
            s.node(Change::Gone(node("n1", json!({}))), at(1));
        }),
        ("context deadline exceeded", |s, writes| {
            s.volumes_written(writes, Revision(9), at(0));
            s.storage(claim("c", at_revision(9, selected("n1", json!({})))), at(1));
        }),
    ];
    for (why, happens) in cases {
        let (mut s, writes) = provisioning();
        happens(&mut s, &writes);
        let end = if why.starts_with("context") { 600 } else { 1 };
        if end == 600 {
            assert!(s.next(at(599)).is_none());
            assert_eq!(s.deadline(), Some(at(600)));
        }
        let notice = refuse(&mut s, end);
        assert_eq!(notice.message, format!("{FAILED}{why}"));
        assert_eq!(notice.failure.reason(), "SchedulerError");
        assert_eq!(notice.nomination, NominationChange::Clear);
        assert!(!s.cache().holds(&notice.pod.uid), "the room on the node is free again");
        assert!(s.deadline().is_some_and(|deadline| deadline <= at(end + 2)), "it tries again");
        // The scheduler ignores the result of the write now.
        s.volumes_written(&writes, Revision(9), at(0));
        assert!(s.next(at(end)).is_none());
    }
}

#[test]
fn a_victim_that_waits_for_its_volumes_goes_back_to_the_queue_without_an_eviction() {
    let (mut s, writes) = provisioning();
    let victim = Arc::clone(&writes.binding.pod);
    let high = with(&cpu_pod("high", "4"), |pod| pod.priority = 5);
    s.pod(Change::Set(Arc::clone(&high)), at(1));
    let evict = match s.next(at(1)) {
        Some(Action::Preempt(evict)) => evict,
        other => panic!("{other:?}"),
    };
    assert!(evict.victims.is_empty(), "nothing is deleted");
    assert_eq!(evict.selected.map(|count| count.get()), Some(1));
    let [notice] = &evict.withdrawn[..] else { panic!("{:?}", evict.withdrawn) };
    assert_eq!((&notice.pod.uid, &*notice.message), (&victim.uid, &*format!("{FAILED}context canceled")));
    assert!(!s.cache().holds(&victim.uid));
    assert_eq!(&*bind(&mut s, 1).pod.uid, "high", "the room is free at once");
    s.volumes_written(&writes, Revision(9), at(1));
    assert!(s.next(at(1)).is_none(), "the write of the former attempt means nothing");
    assert_eq!(refuse(&mut s, 2).pod.uid, victim.uid, "after its back-off");
}

#[test]
fn a_failed_attempt_ends_the_nomination_that_the_pod_had_during_its_wait() {
    let (mut s, writes) = provisioning();
    let pod = &writes.binding.pod;
    let nominated = with(pod, |pod| pod.nominated_node = Some("n1".into()));
    s.pod(Change::Set(Arc::clone(&nominated)), at(1));
    s.volumes_refused(&writes, "conflict");
    assert_eq!(refuse(&mut s, 1).nomination, NominationChange::Clear);
    assert_eq!(s.cache().inventory().nominations.node_of(&pod.uid), None);
    s.pod(Change::Set(nominated), at(2));
    let node = s.cache().inventory().nominations.node_of(&pod.uid);
    assert_eq!(node, None, "an old status does not nominate the pod again");
    bind_volumes(&mut s, 2);
}

#[test]
fn a_restarted_scheduler_completes_a_volume_binding_in_progress() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.node(Change::Set(node("n2", json!({}))), at(0));
    s.storage(class("s", "x", "WaitForFirstConsumer", json!({})), at(0));
    s.storage(claim("c", selected("n2", json!({}))), at(0));
    let kept = json!({ "spec": { "storageClassName": "s", "claimRef": { "namespace": "ns", "name": "d", "uid": "d" } } });
    s.storage(claim("d", json!({ "spec": { "storageClassName": "s" } })), at(0));
    s.storage(volume("v", "1Gi", kept), at(0));
    s.pod(Change::Set(claiming_pod("p", &["c", "d"])), at(0));
    let writes = bind_volumes(&mut s, 0);
    assert_eq!(&*writes.binding.choice.node, "n2");
    assert!(writes.bind.is_empty() && writes.provision.is_empty(), "all of it is written: {writes:?}");
    s.volumes_written(&writes, Revision(0), at(0));
    s.storage(bound_claim("d", "v", json!({ "spec": { "storageClassName": "s" } })), at(1));
    assert!(s.next(at(1)).is_none());
    s.storage(volume("new", "1Gi", json!({})), at(1));
    s.storage(bound_claim("c", "new", selected("n2", json!({}))), at(1));
    assert_eq!(&*bind(&mut s, 1).choice.node, "n2");
}

#[test]
fn deleting_a_pod_that_waits_for_volumes_frees_its_volume_and_resources() {
    for is_gone in [true, false] {
        let mut s = scheduler();
        s.node(Change::Set(node("n1", json!({}))), at(0));
        let spec = json!({ "spec": { "storageClassName": "s" } });
        s.storage(class("s", LOCAL, "WaitForFirstConsumer", json!({})), at(0));
        s.storage(volume("v", "1Gi", spec.clone()), at(0));
        s.storage(claim("c", spec.clone()), at(0));
        s.storage(claim("d", spec), at(0));
        let pod = claiming_pod("p", &["c"]);
        s.pod(Change::Set(Arc::clone(&pod)), at(0));
        let writes = bind_volumes(&mut s, 0);
        s.pod(Change::Set(claiming_pod("q", &["d"])), at(0));
        refuse(&mut s, 0);
        match is_gone {
            true => s.pod(Change::Gone(Arc::clone(&pod)), at(5)),
            false => s.pod(Change::Set(with(&pod, |pod| pod.deleting = true)), at(5)),
        }
        s.volumes_refused(&writes, "gone");
        assert!(!s.cache().holds(&pod.uid));
        let writes = bind_volumes(&mut s, 5);
        assert_eq!((&*writes.binding.pod.uid, writes.bind[0].0.key.name()), ("q", "v"));
    }
}

#[test]
fn a_read_write_once_pod_claim_excludes_other_pods_until_its_pod_is_deleted() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.node(Change::Set(node("n2", json!({}))), at(0));
    s.storage(volume("v", "1Gi", json!({})), at(0));
    s.storage(bound_claim("c", "v", json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } })), at(0));
    s.pod(Change::Set(claiming_pod("p", &["c"])), at(0));
    let first = bind(&mut s, 0);
    s.pod(Change::Set(claiming_pod("q", &["c"])), at(0));
    let why = "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    let message = refuse(&mut s, 0).message;
    assert!(
        message.starts_with(&format!(
            "0/2 nodes are available: {why}. no new claims to deallocate, preemption: "
        )),
        "{message}"
    );
    assert!(message.ends_with("2 No preemption victims found for incoming pod."), "{message}");
    s.pod(Change::Set(with(&on(&first.pod, &first.choice.node), |pod| pod.ended = true)), at(5));
    assert_eq!(&*bind(&mut s, 5).pod.uid, "q");
}

#[test]
fn a_pod_of_lower_priority_with_the_claim_is_evicted() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.storage(volume("v", "1Gi", json!({})), at(0));
    s.storage(bound_claim("c", "v", json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } })), at(0));
    s.pod(Change::Set(on(&claiming_pod("p", &["c"]), "n1")), at(0));
    s.pod(Change::Set(with(&claiming_pod("q", &["c"]), |pod| pod.priority = 5)), at(0));
    let Some(Action::Preempt(evict)) = s.next(at(0)) else { panic!("the pod is evicted") };
    let message = &evict.notice.message;
    assert!(message.ends_with("ReadWriteOncePod access mode already in-use by another pod."), "{message}");
    assert_eq!((&*evict.victims[0].uid, evict.victims.len()), ("p", 1));
}

#[test]
fn the_csi_node_limits_the_volumes_of_a_driver_per_node() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    let csi_node = |count: i64| {
        let drivers = json!([{ "name": "d", "nodeID": "x", "allocatable": { "count": count } }]);
        let value = json!({ "metadata": { "name": "n1" }, "spec": { "drivers": drivers } });
        StorageChange::CsiNode(crate::testing::set(&value, crate::storage::csi::decode_node))
    };
    s.storage(csi_node(2), at(0));
    for name in ["a", "b", "c"] {
        let csi = json!({ "spec": { "csi": { "driver": "d", "volumeHandle": name } } });
        s.storage(volume(name, "1Gi", csi), at(0));
        s.storage(bound_claim(name, name, json!({})), at(0));
    }
    s.pod(Change::Set(claiming_pod("p", &["a"])), at(0));
    bind(&mut s, 0);
    s.pod(Change::Set(claiming_pod("q", &["a", "b"])), at(0));
    assert_eq!(&*bind(&mut s, 0).pod.uid, "q", "a volume that two pods use counts once");
    s.pod(Change::Set(claiming_pod("r", &["c"])), at(0));
    let message = refuse(&mut s, 0).message;
    assert!(message.starts_with("0/1 nodes are available: 1 node(s) exceed max volume count. "), "{message}");
    s.storage(csi_node(3), at(5));
    assert_eq!(&*bind(&mut s, 5).pod.uid, "r");
}

/// A scheduler with the gate `VolumeLimitScaling` or without it.
fn scheduler_with_gate(requires_csi_drivers: bool) -> Scheduler {
    let plugins = Registry::in_tree_with(Gates { requires_csi_drivers, ..Gates::default() });
    let profile = Profile { plugins, ..Profile::named(NAME) };
    Scheduler::of(profile.into(), PodBackoff::default(), &Rng::seeded(1))
}

fn csi_driver(requires: Option<bool>) -> StorageChange {
    let value = json!({ "metadata": { "name": "d" }, "spec": { "preventPodSchedulingIfMissing": requires } });
    StorageChange::CsiDriver(crate::testing::set(&value, crate::storage::csi::decode_driver))
}

fn csi_node_with(driver: &str) -> StorageChange {
    let value =
        json!({ "metadata": { "name": "n1" }, "spec": { "drivers": [{ "name": driver, "nodeID": "x" }] } });
    StorageChange::CsiNode(crate::testing::set(&value, crate::storage::csi::decode_node))
}

/// The pod `p` with a volume of the driver `d` waits for its attempt.
fn with_claim_of_driver(mut s: Scheduler) -> Scheduler {
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.storage(
        volume("v", "1Gi", json!({ "spec": { "csi": { "driver": "d", "volumeHandle": "v" } } })),
        at(0),
    );
    s.storage(bound_claim("c", "v", json!({})), at(0));
    s.pod(Change::Set(claiming_pod("p", &["c"])), at(0));
    s
}

#[test]
fn a_driver_that_requires_itself_keeps_its_pods_from_nodes_without_it() {
    for (has_gate, requires, installed) in [true, false]
        .into_iter()
        .flat_map(|gate| [None, Some(false), Some(true)].map(|requires| (gate, requires)))
        .flat_map(|(gate, requires)| [None, Some("other"), Some("d")].map(|driver| (gate, requires, driver)))
    {
        let mut s = with_claim_of_driver(scheduler_with_gate(has_gate));
        s.storage(csi_driver(requires), at(0));
        if let Some(driver) = installed {
            s.storage(csi_node_with(driver), at(0));
        }
        if has_gate && requires == Some(true) && installed != Some("d") {
            let message = refuse(&mut s, 0).message;
            let expected = "0/1 nodes are available: 1 d CSI driver is not installed on the node. ";
            assert!(message.starts_with(expected), "{installed:?}: {message}");
        } else {
            assert_eq!(&*bind(&mut s, 0).pod.uid, "p", "{has_gate} {requires:?} {installed:?}");
        }
    }
}

#[test]
fn a_pod_that_lacks_its_driver_wakes_when_a_node_has_it_or_when_the_driver_does_not_require_it() {
    for helps in [csi_node_with("d"), csi_driver(Some(false))] {
        let mut s = with_claim_of_driver(scheduler_with_gate(true));
        s.storage(csi_driver(Some(true)), at(0));
        refuse(&mut s, 0);
        s.storage(helps, at(5));
        assert_eq!(&*bind(&mut s, 5).pod.uid, "p");
    }
}

#[test]
fn a_volume_is_used_in_its_zone_or_on_nodes_without_a_zone() {
    let zone = |name: &str, zone: Option<&str>| {
        let mut node = NodeInfo::clone(&node(name, json!({})));
        node.labels.extend(zone.map(|zone| ("topology.kubernetes.io/zone".to_owned(), zone.to_owned())));
        Arc::new(node)
    };
    for (label, value, admitted) in [
        ("topology.kubernetes.io/zone", "a", true),
        ("failure-domain.beta.kubernetes.io/zone", "a", true),
        ("topology.kubernetes.io/zone", "b__a", true),
        ("topology.kubernetes.io/zone", "b", false),
    ] {
        let mut s = scheduler();
        s.node(Change::Set(zone("n1", Some("a"))), at(0));
        s.storage(volume("v", "1Gi", json!({ "metadata": { "labels": { label: value } } })), at(0));
        s.storage(bound_claim("c", "v", json!({})), at(0));
        s.pod(Change::Set(claiming_pod("p", &["c"])), at(0));
        if admitted {
            bind(&mut s, 0);
        } else {
            assert_eq!(refuse(&mut s, 0).message, refused(1, "1 node(s) had no available volume zone"));
            s.node(Change::Set(zone("n2", None)), at(5));
            assert_eq!(&*bind(&mut s, 5).choice.node, "n2");
        }
    }
    let mut s = scheduler();
    s.node(Change::Set(zone("n1", Some("a"))), at(0));
    s.storage(bound_claim("c", "v", json!({})), at(0));
    s.pod(Change::Set(claiming_pod("p", &["c"])), at(0));
    assert_eq!(refuse(&mut s, 0).message, refused(1, "persistentvolume \"v\" not found"));
}

#[test]
fn an_exclusive_disk_is_used_by_one_pod_per_node() {
    let disk = |name: &str| {
        crate::testing::pod(
            name,
            json!({ "volumes": [{ "name": "d", "gcePersistentDisk": { "pdName": "x" } }] }),
        )
    };
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod(Change::Set(disk("p")), at(0));
    bind(&mut s, 0);
    s.pod(Change::Set(disk("q")), at(0));
    let message = refuse(&mut s, 0).message;
    assert!(message.starts_with("0/1 nodes are available: 1 node(s) had no available disk. "), "{message}");
    s.node(Change::Set(node("n2", json!({}))), at(5));
    assert_eq!(&*bind(&mut s, 5).choice.node, "n2");
}

#[test]
fn a_pod_wakes_when_its_class_its_capacity_or_its_driver_changes() {
    let driver = |publishes: bool| {
        let value = json!({ "metadata": { "name": "x" }, "spec": { "storageCapacity": publishes } });
        StorageChange::CsiDriver(crate::testing::set(&value, crate::storage::csi::decode_driver))
    };
    let room = |class: &str, size: &str| {
        let value = json!({
            "metadata": { "namespace": "a", "name": class }, "storageClassName": class, "capacity": size,
            "nodeTopology": {},
        });
        StorageChange::Capacity(crate::testing::set(&value, crate::storage::csi::decode_capacity))
    };
    for helps in [room("s", "2Gi"), driver(false)] {
        let mut s = scheduler();
        s.node(Change::Set(node("n1", json!({}))), at(0));
        s.storage(driver(true), at(0));
        s.storage(claim("c", json!({ "spec": { "storageClassName": "s" } })), at(0));
        s.pod(Change::Set(claiming_pod("p", &["c"])), at(0));
        let unbound = "pod has unbound immediate PersistentVolumeClaims";
        assert_eq!(refuse(&mut s, 0).message, refused(1, unbound), "there is no class");
        s.storage(class("other", "x", "WaitForFirstConsumer", json!({})), at(5));
        assert!(!s.is_ready(at(5)), "another class does not help");
        s.storage(class("s", "x", "WaitForFirstConsumer", json!({})), at(10));
        let space = "1 node(s) did not have enough free storage";
        assert_eq!(refuse(&mut s, 10).message, refused(1, space));
        s.storage(room("other", "2Gi"), at(20));
        assert!(!s.is_ready(at(20)), "room of another class does not help");
        s.storage(helps, at(30));
        bind_volumes(&mut s, 30);
    }
}
