//! Tests of pods with resource claims: their waits, the devices that they get, and what other pods get meanwhile.

use super::*;
use crate::devices::DeviceChange;
use crate::testing::{decode_pod, device_claim, device_class, device_pod, device_slice, gpus, merge};

/// A scheduler with a node `n1` that has this many devices of the class `gpu`.
fn with_gpus(count: usize) -> Scheduler {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.devices(device_class("gpu", &["device.driver == 'gpu.x'"], json!({})), at(0));
    s.devices(gpu_slice("n1", count), at(0));
    s
}

fn gpu_slice(node: &str, count: usize) -> DeviceChange {
    let devices: Vec<_> = (0..count).map(|n| json!({ "name": format!("g{n}") })).collect();
    device_slice(node, json!({ "nodeName": node, "devices": devices }))
}

fn claim(name: &str, more: serde_json::Value) -> DeviceChange {
    device_claim(name, gpus(1), more)
}

/// The status of a claim that has this device, reserved for these pods, at a revision.
fn allocated(revision: u64, device: &str, node: &str, pods: &[&str]) -> serde_json::Value {
    let result = json!({ "request": "gpu", "driver": "gpu.x", "pool": node, "device": device });
    let nodes = json!({ "nodeSelectorTerms": [{ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": [node] },
    ] }] });
    let reserved = |name: &&str| json!({ "resource": "pods", "name": name, "uid": name });
    json!({
        "metadata": { "resourceVersion": revision.to_string() },
        "status": {
            "allocation": { "devices": { "results": [result] }, "nodeSelector": nodes },
            "reservedFor": pods.iter().map(reserved).collect::<Vec<_>>(),
        },
    })
}

fn refused(why: &str, devices: &str) -> String {
    format!(
        "0/1 nodes are available: {why}. {devices}, preemption: 0/1 nodes are available: \
         1 Preemption is not helpful for scheduling."
    )
}

/// The claims that a bind allocates, each with its devices.
fn devices_of(binding: &Binding) -> Vec<(String, Vec<String>)> {
    let plan = binding.devices.as_ref().unwrap();
    let allocate = plan.allocate.iter().map(|(claim, allocation)| {
        let devices = allocation.devices.iter().map(|device| device.id.device.to_string());
        (claim.key.name().to_owned(), devices.collect())
    });
    allocate.collect()
}

fn one(claim: &str, device: &str) -> Vec<(String, Vec<String>)> {
    vec![(claim.to_owned(), vec![device.to_owned()])]
}

#[test]
fn a_pod_is_not_tried_until_its_claims_exist() {
    let mut s = with_gpus(1);
    s.pod(Change::Set(device_pod("p", &["c"])), at(0));
    assert!(s.next(at(10)).is_none(), "the claim is missing");
    s.devices(claim("other", json!({})), at(20));
    assert!(!s.is_ready(at(20)));
    s.devices(claim("c", json!({})), at(30));
    assert_eq!(devices_of(&bind(&mut s, 30)), one("c", "g0"));
}

#[test]
fn a_pod_waits_until_its_status_names_the_claim_of_its_template() {
    let pod = |status: serde_json::Value| {
        let spec = json!({ "schedulerName": NAME, "resourceClaims": [{ "name": "gpu", "resourceClaimTemplateName": "t" }] });
        let meta = json!({ "name": "p", "namespace": "ns", "uid": "p" });
        decode_pod(&json!({ "metadata": meta, "spec": spec, "status": status }))
    };
    let mut s = with_gpus(1);
    s.pod(Change::Set(pod(json!({}))), at(0));
    assert!(s.next(at(10)).is_none());
    let owner =
        |uid: &str| json!({ "metadata": { "ownerReferences": [{ "uid": uid, "controller": true }] } });
    s.devices(claim("p-gpu-x", owner("p")), at(20));
    assert!(s.next(at(20)).is_none());
    let named = json!({ "resourceClaimStatuses": [{ "name": "gpu", "resourceClaimName": "p-gpu-x" }] });
    s.pod(Change::Set(pod(named.clone())), at(30));
    assert_eq!(devices_of(&bind(&mut s, 30)), one("p-gpu-x", "g0"));

    let mut s = with_gpus(1);
    s.devices(claim("p-gpu-x", owner("another")), at(0));
    s.pod(Change::Set(pod(named)), at(0));
    let why = "ResourceClaim ns/p-gpu-x was not created for Pod ns/p (Pod is not owner)";
    assert_eq!(refuse(&mut s, 300).message, refused(why, "no new claims to deallocate"));
    let mut s = with_gpus(1);
    s.pod(Change::Set(pod(json!({ "resourceClaimStatuses": [{ "name": "gpu" }] }))), at(0));
    assert!(bind(&mut s, 0).devices.is_none(), "the status says that no claim is needed");
}

#[test]
fn refusals_have_the_words_of_kube_scheduler() {
    let mut s = with_gpus(1);
    s.devices(device_claim("many", gpus(2), json!({})), at(0));
    s.pod(Change::Set(device_pod("p", &["many"])), at(0));
    assert_eq!(refuse(&mut s, 0).message, refused("1 cannot allocate all claims", "still not schedulable"));
    let unknown = json!([{ "name": "a", "exactly": { "deviceClassName": "tpu" } }]);
    s.devices(device_claim("unknown", unknown, json!({})), at(0));
    s.pod(Change::Set(device_pod("q", &["unknown"])), at(0));
    let why = "request a: device class tpu does not exist";
    assert_eq!(refuse(&mut s, 0).message, refused(why, "no new claims to deallocate"));
    s.devices(device_class("tpu", &["device.nothing"], json!({})), at(20));
    // The class wakes the pod of the first claim, too.
    let notices = [refuse(&mut s, 20), refuse(&mut s, 20)];
    let failed = notices.iter().find(|notice| &*notice.pod.uid == "q").unwrap();
    let text = "running \"DynamicResources\" filter plugin: class tpu: selector #0: CEL compile error: ";
    assert!(failed.message.starts_with(text), "{}", failed.message);
    assert_eq!(failed.failure.reason(), "SchedulerError");
    let pods: Vec<String> = (0..256).map(|n| format!("user-{n}")).collect();
    let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    s.devices(claim("full", allocated(7, "g0", "n1", &pods)), at(20));
    s.pod(Change::Set(device_pod("r", &["full"])), at(20));
    assert_eq!(refuse(&mut s, 20).message, refused("resourceclaim in use", "no new claims to deallocate"));
}

#[test]
fn a_pod_whose_selector_fails_on_a_device_is_tried_again_without_an_event() {
    let mut s = with_gpus(1);
    s.devices(device_class("odd", &["device.attributes['x'].nothing == 1"], json!({})), at(0));
    let request = json!([{ "name": "a", "exactly": { "deviceClassName": "odd" } }]);
    s.devices(device_claim("a", request, json!({})), at(0));
    let nominated = with(&device_pod("p", &["a"]), |pod| pod.nominated_node = Some("n1".into()));
    s.pod(Change::Set(nominated), at(0));
    let notice = refuse(&mut s, 0);
    assert!(notice.message.contains(" filter plugin: class odd: selector #0 "), "{}", notice.message);
    assert_eq!((notice.failure.reason(), &notice.nomination), ("SchedulerError", &NominationChange::Clear));
    assert!(s.next(at(0)).is_none());
    assert_eq!(s.deadline(), Some(at(1)), "as after other errors");
    assert_eq!(refuse(&mut s, 1).failure.reason(), "SchedulerError");
    assert_eq!(s.deadline(), Some(at(3)));
}

#[test]
fn a_node_that_serves_a_better_alternative_is_preferred() {
    let mut s = scheduler();
    for (name, model) in [("n1", "slow"), ("n2", "fast")] {
        s.node(Change::Set(node(name, json!({}))), at(0));
        let device = json!({ "name": "d", "attributes": { "model": { "string": model } } });
        s.devices(device_slice(name, json!({ "nodeName": name, "devices": [device] })), at(0));
        s.devices(
            device_class(model, &[&format!("device.attributes['gpu.x'].model == '{model}'")], json!({})),
            at(0),
        );
    }
    // The other scores prefer the empty node, a little.
    s.pod(Change::Set(on(&cpu_pod("old", "400m"), "n2")), at(0));
    let request = |classes: [&str; 2]| {
        let options = classes.map(|class| json!({ "name": class, "deviceClassName": class }));
        json!([{ "name": "a", "firstAvailable": options }])
    };
    s.devices(device_claim("a", request(["fast", "slow"]), json!({})), at(0));
    s.pod(Change::Set(device_pod("p", &["a"])), at(0));
    let choice = bind(&mut s, 0).choice;
    assert_eq!((&*choice.node, choice.feasible), ("n2", 2));
    assert!(choice.scores.contains(&("DynamicResources", 100)), "{:?}", choice.scores);
}

#[test]
fn two_pods_in_a_row_get_different_devices_and_the_next_waits_for_one() {
    let mut s = with_gpus(2);
    for (claim_name, pod) in [("a", "p"), ("b", "q"), ("c", "r")] {
        s.devices(claim(claim_name, json!({})), at(0));
        s.pod(Change::Set(device_pod(pod, &[claim_name])), at(0));
    }
    let (first, second) = (bind(&mut s, 0), bind(&mut s, 0));
    assert_eq!((devices_of(&first), devices_of(&second)), (one("a", "g0"), one("b", "g1")));
    assert_eq!(refuse(&mut s, 0).message, refused("1 cannot allocate all claims", "still not schedulable"));

    s.devices_written(&first, Revision(10));
    s.bound(&first.pod.uid);
    s.devices(claim("a", allocated(10, "g0", "n1", &["p"])), at(5));
    assert!(!s.is_ready(at(50)), "an allocation frees nothing");
    s.devices(claim("a", json!({ "metadata": { "resourceVersion": "11" } })), at(60));
    assert_eq!(devices_of(&bind(&mut s, 60)), one("c", "g0"));
}

#[test]
fn the_devices_of_a_refused_write_are_free_again() {
    let mut s = with_gpus(1);
    s.devices(claim("a", json!({})), at(0));
    s.devices(claim("b", json!({})), at(0));
    s.pod(Change::Set(device_pod("p", &["a"])), at(0));
    s.pod(Change::Set(device_pod("q", &["b"])), at(0));
    let binding = bind(&mut s, 0);
    refuse(&mut s, 0);
    let notice = s.devices_refused(&binding, "conflict", at(5)).unwrap();
    assert_eq!(notice.message, "running PreBind plugin \"DynamicResources\": conflict");
    assert_eq!(devices_of(&bind(&mut s, 5)), one("b", "g0"), "free devices wake the waiting pod");
    assert_eq!(&*refuse(&mut s, 6).pod.uid, "p");
}

#[test]
fn a_written_allocation_is_assumed_until_the_claim_shows_it() {
    let mut s = with_gpus(1);
    s.devices(claim("a", json!({})), at(0));
    s.devices(claim("b", json!({})), at(0));
    s.pod(Change::Set(device_pod("p", &["a"])), at(0));
    let binding = bind(&mut s, 0);
    s.devices_written(&binding, Revision(10));
    s.bound(&binding.pod.uid);
    s.pod(Change::Set(device_pod("q", &["b"])), at(1));
    refuse(&mut s, 1);
    // The watch may skip the allocation if the claim lost it soon after.
    s.devices(claim("a", json!({ "metadata": { "resourceVersion": "12" } })), at(60));
    s.devices(gpu_slice("n1", 1), at(60));
    s.devices(claim("b", json!({ "metadata": { "labels": { "a": "b" }, "resourceVersion": "13" } })), at(60));
    s.devices(gpu_slice("n2", 1), at(60));
    assert_eq!(devices_of(&bind(&mut s, 60)), one("b", "g0"));
}

#[test]
fn pods_share_an_allocated_claim_and_wait_while_it_is_being_allocated() {
    let mut s = with_gpus(1);
    s.devices(claim("c", json!({})), at(0));
    s.pod(Change::Set(device_pod("p", &["c"])), at(0));
    s.pod(Change::Set(device_pod("q", &["c"])), at(0));
    let first = bind(&mut s, 0);
    let why = "resource claim ns/c is in the process of being allocated";
    assert_eq!(refuse(&mut s, 0).message, refused(why, "no new claims to deallocate"));
    s.devices_written(&first, Revision(10));
    s.bound(&first.pod.uid);
    s.devices(claim("c", allocated(10, "g0", "n1", &["p"])), at(5));
    let second = bind(&mut s, 5);
    let plan = second.devices.unwrap();
    assert_eq!((plan.allocate.len(), plan.reserve.len()), (0, 1));
}

#[test]
fn an_unused_allocation_for_another_node_is_taken_away() {
    let mut s = with_gpus(1);
    s.devices(claim("c", allocated(7, "g0", "n2", &[])), at(0));
    s.pod(Change::Set(device_pod("p", &["c"])), at(0));
    let notice = refuse(&mut s, 0);
    let why = "1 resourceclaim not available on the node";
    assert_eq!(notice.message, refused(why, "deallocation of ResourceClaim completed"));
    let deallocation = notice.deallocation.unwrap();
    assert_eq!((deallocation.claim.as_str(), deallocation.revision), ("ns/c", Revision(7)));
    s.devices(claim("c", json!({ "metadata": { "resourceVersion": "8" } })), at(10));
    assert_eq!(devices_of(&bind(&mut s, 10)), one("c", "g0"));

    let mut s = with_gpus(1);
    s.devices(claim("c", allocated(7, "g0", "n2", &["another"])), at(0));
    s.pod(Change::Set(device_pod("p", &["c"])), at(0));
    let notice = refuse(&mut s, 0);
    assert_eq!(notice.message, refused(why, "still not schedulable"));
    assert_eq!(notice.deallocation, None, "another pod uses the claim");
}

#[test]
fn new_classes_and_slices_and_free_devices_wake_pods_and_other_changes_do_not() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.devices(claim("c", json!({})), at(0));
    s.pod(Change::Set(device_pod("p", &["c"])), at(0));
    refuse(&mut s, 0);
    s.pod(Change::Set(on(&cpu_pod("other", "1"), "n1")), at(10));
    s.devices(claim("d", json!({})), at(10));
    assert!(!s.is_ready(at(10)));
    s.devices(device_class("gpu", &[], json!({})), at(20));
    refuse(&mut s, 20);
    s.devices(gpu_slice("n1", 1), at(40));
    assert_eq!(devices_of(&bind(&mut s, 40)), one("c", "g0"));
}

#[test]
fn a_repeated_decision_gives_a_shared_device_the_same_share() {
    let slice = json!({ "nodeName": "n1", "devices": [{ "name": "g0", "allowMultipleAllocations": true }] });
    let share = || {
        let mut s = with_gpus(0);
        let mut pool = json!({ "pool": { "name": "shared" } });
        merge(&mut pool, slice.clone());
        s.devices(device_slice("shared", pool), at(0));
        s.devices(claim("c", json!({})), at(0));
        s.pod(Change::Set(device_pod("p", &["c"])), at(0));
        let plan = bind(&mut s, 0).devices.unwrap();
        plan.allocate[0].1.json["devices"]["results"][0]["shareID"].as_str().unwrap().to_owned()
    };
    assert_eq!(share(), share());
}
