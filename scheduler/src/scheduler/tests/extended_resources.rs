//! Pods whose extended resources devices of a class satisfy.

use super::*;
use crate::devices::DeviceChange;
use crate::gates::Gates;
use crate::testing::{decode_node, device_claim, device_class, device_slice, gpus, pod, with};

const GPU: &str = "a.x/gpu";

/// A node that offers this number of GPUs itself; `None` if it does not know the resource.
fn node_with(name: &str, offered: Option<i64>) -> Arc<NodeInfo> {
    let mut allocatable = json!({ "cpu": "4", "memory": "32Gi", "pods": "110" });
    if let Some(offered) = offered {
        allocatable[GPU] = offered.to_string().into();
    }
    decode_node(&json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } }))
}

fn class(name: &str, created: i64, resource: Option<&str>) -> DeviceChange {
    let more = resource.map_or(json!({}), |resource| json!({ "extendedResourceName": resource }));
    let DeviceChange::Class(Change::Set(class)) = device_class(name, &["device.driver == 'gpu.x'"], more)
    else {
        unreachable!("it makes a class")
    };
    let mut class = crate::storage::Record::clone(&class);
    class.fields.created = at(created);
    DeviceChange::Class(Change::Set(Arc::new(class)))
}

fn slice(node: &str, count: usize) -> DeviceChange {
    let devices: Vec<_> = (0..count).map(|n| json!({ "name": format!("g{n}") })).collect();
    device_slice(node, json!({ "nodeName": node, "devices": devices }))
}

fn asking(name: &str, resource: &str, count: i64) -> Arc<PodInfo> {
    let container = json!({ "name": "c", "resources": { "requests": { resource: count.to_string() } } });
    pod(name, json!({ "containers": [container] }))
}

fn gated(extends_resources: bool) -> Scheduler {
    let plugins = Registry::in_tree_with(Gates { extends_resources, ..Gates::default() });
    let profile = Profile { plugins, ..Profile::named(NAME) };
    Scheduler::of(profile.into(), PodBackoff::default(), &Rng::seeded(1))
}

/// A scheduler with a node `n1` that has two devices of the class `gpu` for [`GPU`].
fn with_class() -> Scheduler {
    let mut s = gated(true);
    s.node(Change::Set(node_with("n1", None)), at(0));
    s.devices(class("gpu", 0, Some(GPU)), at(0));
    s.devices(slice("n1", 2), at(0));
    s
}

/// The name of the claim that a bind creates, and the names of its devices.
fn created(binding: &Binding) -> (String, Vec<String>) {
    let created = binding.devices.as_ref().unwrap().create.as_ref().unwrap();
    let devices = created.allocation.devices.iter().map(|device| device.id.device.to_string());
    (created.claim.key.name().to_owned(), devices.collect())
}

/// The claim of a bind as the API shows it at a revision, with its devices.
fn shown(binding: &Binding, revision: u64) -> DeviceChange {
    let created = binding.devices.as_ref().unwrap().create.as_ref().unwrap();
    let pod = &*binding.pod.uid;
    let more = json!({
        "metadata": {
            "resourceVersion": revision.to_string(),
            "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
            "ownerReferences": [{ "uid": pod, "controller": true }],
        },
        "status": {
            "allocation": created.allocation.json,
            "reservedFor": [{ "resource": "pods", "name": pod, "uid": pod }],
        },
    });
    device_claim(created.claim.key.name(), gpus(1), more)
}

fn refused(why: &str, devices: &str, is_unresolvable: bool) -> String {
    let preemption = match is_unresolvable {
        true => "1 Preemption is not helpful for scheduling.",
        false => "1 No preemption victims found for incoming pod.",
    };
    format!("0/1 nodes are available: {why}. {devices}, preemption: 0/1 nodes are available: {preemption}")
}

#[test]
fn devices_of_the_class_satisfy_requests_for_the_resource_and_for_the_class() {
    for resource in [GPU, "deviceclass.resource.kubernetes.io/gpu"] {
        let mut s = with_class();
        s.pod(Change::Set(asking("p", resource, 2)), at(0));
        let binding = bind(&mut s, 0);
        let (name, devices) = created(&binding);
        assert!(name.starts_with("p-extended-resources-") && name.len() == 26, "{name}");
        assert_eq!(devices, ["g0", "g1"]);
        let mapping = &binding.devices.as_ref().unwrap().create.as_ref().unwrap().mappings[0];
        assert_eq!((&*mapping.resource, &*mapping.request), (resource, "container-0-request-0"));
        // Before the API shows the claim, and after that, no other pod gets the devices.
        for step in ["decided", "written", "shown"] {
            match step {
                "written" => s.devices_written(&binding, Revision(20)),
                "shown" => s.devices(shown(&binding, 20), at(1)),
                _ => {}
            }
            s.pod(Change::Set(asking(&format!("q-{step}"), GPU, 1)), at(1));
            let why = refused("1 cannot allocate all claims", "still not schedulable", true);
            assert_eq!(refuse(&mut s, 1).message, why, "{step}");
        }
        let DeviceChange::Claim(Change::Set(claim)) = shown(&binding, 21) else { unreachable!() };
        s.devices(DeviceChange::Claim(Change::Gone(claim)), at(100));
        assert_eq!(created(&bind(&mut s, 120)).1, ["g0"], "the devices of the deleted claim are free");
    }
}

#[test]
fn a_node_that_offers_the_resource_needs_no_devices() {
    let mut s = gated(true);
    s.node(Change::Set(node_with("n1", Some(1))), at(0));
    s.devices(class("gpu", 0, Some(GPU)), at(0));
    s.devices(slice("n1", 2), at(0));
    s.pod(Change::Set(asking("p", GPU, 1)), at(0));
    assert!(bind(&mut s, 0).devices.is_none());
    s.pod(Change::Set(asking("q", GPU, 1)), at(0));
    let why = refused("1 Insufficient a.x/gpu", "still not schedulable", false);
    assert_eq!(refuse(&mut s, 0).message, why);
    // A node that begins to offer the resource helps a pod that waits for devices.
    let mut s = gated(true);
    s.node(Change::Set(node_with("n1", None)), at(0));
    s.devices(class("gpu", 0, Some(GPU)), at(0));
    s.pod(Change::Set(asking("p", GPU, 1)), at(0));
    let why = refused("1 cannot allocate all claims", "still not schedulable", true);
    assert_eq!(refuse(&mut s, 0).message, why);
    s.node(Change::Set(node_with("n1", Some(1))), at(20));
    assert!(bind(&mut s, 20).devices.is_none());
    // The number of zero, which a device plugin without devices states, is no offer.
    let mut s = gated(true);
    s.node(Change::Set(node_with("n1", Some(0))), at(0));
    s.devices(class("gpu", 0, Some(GPU)), at(0));
    s.devices(slice("n1", 2), at(0));
    s.pod(Change::Set(asking("p", GPU, 1)), at(0));
    assert_eq!(created(&bind(&mut s, 0)).1, ["g0"]);
}

#[test]
fn without_the_gate_or_a_class_the_resource_is_insufficient() {
    let mut s = gated(false);
    s.node(Change::Set(node_with("n1", None)), at(0));
    s.devices(class("gpu", 0, Some(GPU)), at(0));
    s.devices(slice("n1", 2), at(0));
    for resource in [GPU, "deviceclass.resource.kubernetes.io/gpu"] {
        s.pod(Change::Set(asking("p", resource, 1)), at(0));
        let why = refused(&format!("1 Insufficient {resource}"), "no new claims to deallocate", true);
        assert_eq!(refuse(&mut s, 0).message, why);
        s.pod(Change::Gone(asking("p", resource, 1)), at(0));
    }
    let mut s = gated(true);
    s.node(Change::Set(node_with("n1", None)), at(0));
    s.devices(slice("n1", 2), at(0));
    s.pod(Change::Set(asking("p", GPU, 1)), at(0));
    let why = refused("1 Insufficient a.x/gpu", "no new claims to deallocate", true);
    assert_eq!(refuse(&mut s, 0).message, why);
    s.devices(class("other", 0, None), at(10));
    assert!(!s.is_ready(at(10)), "the class is for no resource of the pod");
    s.devices(class("gpu", 0, Some(GPU)), at(20));
    assert_eq!(created(&bind(&mut s, 20)).1, ["g0"]);
}

#[test]
fn the_newest_class_of_a_resource_counts_then_the_first_by_name() {
    let mut s = gated(true);
    let class_of =
        |s: &Scheduler| s.cache().devices().class_of_resource(GPU).map(|class| class.key.name().to_owned());
    assert_eq!(class_of(&s), None);
    s.devices(class("b", 5, Some(GPU)), at(0));
    s.devices(class("a", 5, Some(GPU)), at(0));
    assert_eq!(class_of(&s).as_deref(), Some("a"));
    s.devices(class("c", 6, Some(GPU)), at(0));
    assert_eq!(class_of(&s).as_deref(), Some("c"));
    s.devices(class("c", 6, Some("b.x/nic")), at(0));
    assert_eq!(class_of(&s).as_deref(), Some("a"));
    let DeviceChange::Class(Change::Set(gone)) = class("a", 5, Some(GPU)) else { unreachable!() };
    s.devices(DeviceChange::Class(Change::Gone(gone)), at(0));
    assert_eq!(class_of(&s).as_deref(), Some("b"));
}

#[test]
fn the_claim_of_a_failed_attempt_is_deleted_and_the_pod_tried_again() {
    let mut s = with_class();
    s.pod(Change::Set(asking("p", GPU, 1)), at(0));
    let binding = bind(&mut s, 0);
    // The claim was written, and the bind failed after that.
    s.devices(shown(&binding, 20), at(1));
    s.bind_failed(&binding.pod.uid, "an extender said no", at(1));
    let notice = refuse(&mut s, 60);
    let why =
        refused("1 cannot schedule extended resource claim", "deletion of ResourceClaim completed", true);
    assert_eq!(notice.message, why);
    let stale = notice.deallocation.unwrap();
    assert_eq!(
        (stale.claim.name(), stale.revision, stale.deletes),
        (&*created(&binding).0, Revision(20), true)
    );
    assert!(s.next(at(61)).is_none());
    let DeviceChange::Claim(Change::Set(claim)) = shown(&binding, 21) else { unreachable!() };
    s.devices(DeviceChange::Claim(Change::Gone(claim)), at(62));
    assert_eq!(created(&bind(&mut s, 80)).1, ["g0"]);
}

#[test]
fn a_refused_creation_frees_the_devices() {
    let mut s = with_class();
    s.pod(Change::Set(asking("p", GPU, 2)), at(0));
    let binding = bind(&mut s, 0);
    s.devices_refused(&binding, "exceeded quota", at(1)).unwrap();
    let again = bind(&mut s, 20);
    assert_eq!(created(&again).1, ["g0", "g1"]);
    assert_ne!(created(&again).0, created(&binding).0, "a new attempt takes a new name");
}

#[test]
fn a_claim_that_is_deleted_before_the_scheduler_sees_it_holds_no_devices() {
    let mut s = with_class();
    s.pod(Change::Set(asking("p", GPU, 2)), at(0));
    let binding = bind(&mut s, 0);
    s.devices_written(&binding, Revision(20));
    s.bound(&binding.pod.uid);
    s.pod(Change::Gone(with(&binding.pod, |pod| pod.node_name = Some("n1".into()))), at(1));
    s.pod(Change::Set(asking("q", GPU, 2)), at(2));
    assert_eq!(created(&bind(&mut s, 2)).1, ["g0", "g1"]);
}

#[test]
fn a_new_node_wakes_a_pod_if_its_devices_may_serve_the_pod() {
    for (has_class, is_woken) in [(true, true), (false, false)] {
        let mut s = gated(true);
        s.node(Change::Set(node_with("n1", None)), at(0));
        if has_class {
            s.devices(class("gpu", 0, Some(GPU)), at(0));
        }
        s.pod(Change::Set(asking("p", GPU, 1)), at(0));
        refuse(&mut s, 0);
        s.node(Change::Set(node_with("n2", None)), at(20));
        assert_eq!(s.is_ready(at(20)), is_woken);
    }
}
