//! Pods whose devices must be prepared before they are bound.

use super::*;
use crate::devices::DeviceChange;
use crate::gates::Gates;
use crate::testing::{device_claim, device_class, device_pod, device_slice, gpus, merge};
use serde_json::Value;

const PREPARED: &str = "gpu.x/prepared";
const BROKEN: &str = "gpu.x/broken";

/// A scheduler with a node `n1` of which one device of the class `gpu` must be prepared, and another need not.
fn with_devices(prepares_devices: bool) -> Scheduler {
    let plugins = Registry::in_tree_with(Gates { prepares_devices, ..Gates::default() });
    let profile = Profile { plugins, ..Profile::named(NAME) };
    let mut s = Scheduler::of(profile.into(), PodBackoff::default(), &Rng::seeded(1));
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.devices(device_class("gpu", &["device.driver == 'gpu.x'"], json!({})), at(0));
    let prepared =
        json!({ "name": "g0", "bindingConditions": [PREPARED], "bindingFailureConditions": [BROKEN] });
    s.devices(device_slice("a", json!({ "nodeName": "n1", "devices": [prepared] })), at(0));
    s
}

/// The claim `c` as the API shows it at a revision, with these conditions of its device.
fn shown(revision: u64, plan: &Value, conditions: &Value) -> DeviceChange {
    let device = json!({ "driver": "gpu.x", "pool": "a", "device": "g0", "conditions": conditions });
    let mut status = json!({
        "metadata": { "resourceVersion": revision.to_string() },
        "status": { "reservedFor": [{ "resource": "pods", "name": "p", "uid": "p" }], "devices": [device] },
    });
    merge(&mut status["status"], json!({ "allocation": plan }));
    device_claim("c", gpus(1), status)
}

/// The claim write of the pod `p`, which the API has accepted at revision 20, and the allocation.
fn claimed(s: &mut Scheduler) -> (Binding, Value) {
    s.devices(device_claim("c", gpus(1), json!({})), at(0));
    s.pod(Change::Set(device_pod("p", &["c"])), at(0));
    let Some(Action::ClaimDevices(binding)) = s.next(at(0)) else { panic!("the claim is written first") };
    let plan = binding.devices.clone().unwrap();
    let allocation = plan.allocate[0].1.json.clone();
    let result = &allocation["devices"]["results"][0];
    assert_eq!(
        (&result["bindingConditions"], &result["bindingFailureConditions"]),
        (&json!([PREPARED]), &json!([BROKEN]))
    );
    s.devices_claimed(&binding, Revision(20), at(0));
    assert!(s.next(at(0)).is_none(), "the device is not prepared");
    (binding, allocation)
}

#[test]
fn a_pod_is_bound_when_every_binding_condition_is_true() {
    let mut s = with_devices(true);
    let (_, allocation) = claimed(&mut s);
    s.devices(shown(20, &allocation, &json!([])), at(1));
    s.devices(shown(21, &allocation, &json!([{ "type": PREPARED, "status": "False" }])), at(2));
    assert!(s.next(at(2)).is_none());
    s.devices(shown(22, &allocation, &json!([{ "type": PREPARED, "status": "True" }])), at(3));
    let binding = bind(&mut s, 3);
    assert!(binding.devices.is_none(), "the claims are written already");
    assert_eq!((&*binding.choice.node, binding.cause), ("n1", Revision(22)));
}

#[test]
fn a_device_that_cannot_be_prepared_is_taken_away_and_the_pod_tried_again() {
    for (conditions, second, message) in [
        (
            json!([{ "type": BROKEN, "status": "True", "reason": "Bad", "message": "no \"cable\"" }]),
            3,
            "device binding failed: claim=c, reason=Bad, message=\"no \\\"cable\\\"\"",
        ),
        (json!([{ "type": BROKEN, "status": "False" }]), 600, "device binding timeout: claim=c"),
    ] {
        let mut s = with_devices(true);
        let (_, allocation) = claimed(&mut s);
        s.devices(shown(21, &allocation, &conditions), at(3));
        assert!(second == 3 || s.next(at(599)).is_none());
        assert!(s.deadline().is_some());
        let notice = refuse(&mut s, second);
        assert_eq!(notice.message, format!("running PreBind plugin \"DynamicResources\": {message}"));
        assert_eq!(notice.failure.reason(), "SchedulerError");
        let taken = notice.deallocation.unwrap();
        assert_eq!((taken.claim.name(), taken.revision), ("c", Revision(21)));
        assert!(!s.cache().holds(&notice.pod.uid));
        s.devices(device_claim("c", gpus(1), json!({ "metadata": { "resourceVersion": "22" } })), at(second));
        let again = s.next(at(second + 20));
        assert!(matches!(again, Some(Action::ClaimDevices(_))), "{again:?}");
    }
}

#[test]
fn a_pod_that_is_deleted_waits_no_longer() {
    let mut s = with_devices(true);
    let (binding, allocation) = claimed(&mut s);
    s.pod(Change::Gone(Arc::clone(&binding.pod)), at(1));
    s.devices(shown(22, &allocation, &json!([{ "type": PREPARED, "status": "True" }])), at(3));
    assert!(s.next(at(3)).is_none() && s.deadline().is_none());
    assert!(!s.cache().holds(&binding.pod.uid));
}

#[test]
fn devices_without_binding_conditions_are_preferred_and_without_the_gate_the_only_ones() {
    for (prepares_devices, others) in [(true, true), (false, true), (false, false)] {
        let mut s = with_devices(prepares_devices);
        if others {
            let plain = json!({ "nodeName": "n1", "devices": [{ "name": "g9" }] });
            s.devices(device_slice("z", plain), at(0));
        }
        s.devices(device_claim("c", gpus(1), json!({})), at(0));
        s.pod(Change::Set(device_pod("p", &["c"])), at(0));
        match others {
            true => {
                let plan = bind(&mut s, 0).devices.unwrap();
                assert_eq!(&*plan.allocate[0].1.devices[0].id.device, "g9");
            }
            false => assert!(refuse(&mut s, 0).message.contains("cannot allocate all claims")),
        }
    }
}
