//! Defaults of device requests.
//!
//! Follows `SetDefaults_ExactDeviceRequest`.

use super::{default, items, make, member};
use serde_json::Value;

pub(crate) fn claim(object: &mut Value) {
    requests(make(object, "spec"));
    let devices =
        object.get_mut("status").and_then(|status| status.get_mut("allocation")?.get_mut("devices"));
    if let Some(devices) = devices {
        items(devices, "results").for_each(tolerations);
    }
}

pub(crate) fn claim_template(object: &mut Value) {
    requests(make(make(object, "spec"), "spec"));
}

fn requests(spec: &mut Value) {
    let Some(devices) = member(spec, "devices") else { return };
    for entry in items(devices, "requests") {
        if let Some(exactly) = member(entry, "exactly") {
            request(exactly);
        }
        items(entry, "firstAvailable").for_each(request);
    }
}

fn request(request: &mut Value) {
    default(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        super::default_nonzero(request, "count", 1);
    }
    tolerations(request);
}

/// As `SetDefaults_DeviceToleration` of Kubernetes.
fn tolerations(owner: &mut Value) {
    items(owner, "tolerations").for_each(|toleration| default(toleration, "operator", "Equal"));
}
