//! [`ClaimDevices`]: the devices that a ResourceClaim may get, and the names under which quotas charge them. Each device counts for its
//! class; since Kubernetes 1.36 also for the resource that names the class, and for the extended resource that the class states. What the
//! pod itself is charged for, its claim is not.
//!
//! Follows `setResourceQuantity`.

use super::Quantity;
use super::usage::Used;
use crate::meta;
use crate::object::{int, list, text};
use crate::quantity::Format;
use crate::validate::{CLASS_PREFIX, is_of_devices};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::slice;

/// End of a resource's name whose beginning is a DeviceClass.
pub(super) const DEVICES_OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// Annotation of a claim that a scheduler made for the extended resources of the pod that owns it.
const OF_RESOURCES: &str = "resource.kubernetes.io/extended-resource-claim";

/// Devices that a request for all of them may get at most, as upstream's `AllocationResultsMaxSize`.
const ALL_DEVICES: i64 = 32;

/// The devices that a claim may get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimDevices {
    /// By request: its name, the class and the number of devices. Of alternatives the most of each class.
    requests: Vec<(String, String, i64)>,
    /// Name and uid of the pod for whose extended resources a scheduler made the claim.
    pod: Option<(String, String)>,
}

/// What the names depend on, besides the claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceNames {
    /// The extended resources that DeviceClasses state, by the name of the class.
    pub of_classes: BTreeMap<String, String>,
    /// The resource for which the pod asks by each request of its claim ([`requests_of_pod`]).
    pub of_requests: BTreeMap<String, String>,
}

impl ClaimDevices {
    pub(super) fn of(claim: &Value) -> Self {
        let mut requests = Vec::new();
        for request in list(&claim["spec"]["devices"]["requests"]) {
            let (exactly, alternatives) =
                (slice::from_ref(&request["exactly"]), list(&request["firstAvailable"]));
            let mut most: BTreeMap<&str, i64> = BTreeMap::new();
            for one in if alternatives.is_empty() { exactly } else { alternatives } {
                let count = match text(&one["allocationMode"]) {
                    "ExactCount" => int(&one["count"]),
                    "All" => ALL_DEVICES,
                    _ => 0,
                };
                let of_class = most.entry(text(&one["deviceClassName"])).or_default();
                *of_class = count.max(*of_class);
            }
            let name = text(&request["name"]);
            let named = most.into_iter().filter(|(class, _)| !class.is_empty());
            requests.extend(named.map(|(class, count)| (name.to_owned(), class.to_owned(), count)));
        }
        let is_of_resources = meta::annotation(claim, OF_RESOURCES) == Some("true");
        let owner = list(&claim["metadata"]["ownerReferences"]).iter().find(|owner| {
            owner["controller"] == true && owner["kind"] == "Pod" && owner["apiVersion"] == "v1"
        });
        let pod = owner.filter(|_| is_of_resources);
        let pod = pod.map(|owner| (text(&owner["name"]).to_owned(), text(&owner["uid"]).to_owned()));
        Self { requests, pod }
    }

    /// Name and uid of the pod for whose extended resources a scheduler made the claim.
    pub fn pod(&self) -> Option<(&str, &str)> {
        self.pod.as_ref().map(|(name, uid)| (&**name, &**uid))
    }

    /// The amounts by class.
    pub(super) fn by_class(&self) -> Used {
        used(self.requests.iter().map(|(_, class, count)| (format!("{class}{DEVICES_OF_CLASS}"), *count)))
    }

    /// The amounts under the names of resources.
    pub(super) fn by_resource(&self, names: &DeviceNames) -> Used {
        used(self.requests.iter().flat_map(|(request, class, count)| {
            let asked = names.of_requests.get(request).filter(|_| self.pod.is_some());
            let all = [Some(format!("{CLASS_PREFIX}{class}")), names.of_classes.get(class).cloned()];
            let others = all.into_iter().flatten().filter(move |name| Some(name) != asked);
            others.map(|name| (format!("requests.{name}"), *count))
        }))
    }
}

/// The sums of these amounts by name.
fn used(amounts: impl Iterator<Item = (String, i64)>) -> Used {
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (name, count) in amounts {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
    let amount = |count| Quantity::from_units(count, Format::DecimalSi);
    sums.into_iter().map(|(name, count)| (Cow::Owned(name), amount(count))).collect()
}

/// The resources for which the containers of a pod ask and that devices may satisfy, by the names of the requests that a scheduler gives
/// the pod's claim for them.
pub fn requests_of_pod(pod: &Value) -> BTreeMap<String, String> {
    let spec = &pod["spec"];
    let containers = list(&spec["initContainers"]).iter().chain(list(&spec["containers"])).enumerate();
    let requests = containers.flat_map(|(at, container)| {
        let requests = container["resources"]["requests"].as_object().into_iter().flatten();
        let mut names: Vec<&String> = requests.map(|(name, _)| name).collect();
        names.sort();
        let of_devices = names.into_iter().enumerate().filter(|(_, name)| is_of_devices(name));
        of_devices.map(move |(index, name)| (format!("container-{at}-request-{index}"), name.clone()))
    });
    requests.collect()
}
