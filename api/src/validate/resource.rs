//! Names and amounts of resources (cpu, memory, extended resources) in pods, quotas and limit ranges.
//!
//! Follows `ValidateResourceQuantityValue`.

use crate::check::{grammar, quantity, quantity_not_negative};
use crate::field::{ErrorList, Path};
use crate::name as names;
use crate::quantity::Quantity;
use serde_json::Value;

/// Prefix of huge page resources; the page size follows.
pub(super) const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";
/// Prefix of request amounts in quotas.
const REQUESTS: &str = "requests.";

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// All resource names that Kubernetes itself defines.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources with integer amounts.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The prefix of the name under which containers request devices of a class: the rest is the name of the DeviceClass.
pub(crate) const CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Whether the name belongs to Kubernetes itself.
pub(super) fn is_native(own: &str) -> bool {
    !own.contains('/') || own.contains("kubernetes.io/")
}

/// Whether the name is an extended resource, also with the quota prefix `requests.`.
pub(super) fn is_extended(own: &str) -> bool {
    !is_native(own)
        && !own.starts_with(REQUESTS)
        && names::qualified_name(&format!("{REQUESTS}{own}")).is_empty()
}

/// Whether a quota uses the name for an extended resource: `requests.` and a name that is not Kubernetes'
/// own, or that names a DeviceClass.
pub(crate) fn is_extended_of_quotas(own: &str) -> bool {
    own.strip_prefix(REQUESTS).is_some_and(|resource| !is_native(own) || resource.starts_with(CLASS_PREFIX))
}

/// Whether devices of a class can satisfy requests for the resource: it is an extended resource, or names a DeviceClass.
pub(crate) fn is_of_devices(own: &str) -> bool {
    is_extended(own) || own.starts_with(CLASS_PREFIX)
}

/// Whether containers may request this resource of Kubernetes' own.
pub(super) fn is_of_containers(own: &str) -> bool {
    OF_CONTAINERS.contains(&own) || own.starts_with(HUGE_PAGES)
}

/// Whether the sum of limits may exceed the available amount.
pub(super) fn may_overcommit(own: &str) -> bool {
    is_native(own) && !own.starts_with(HUGE_PAGES)
}

/// Whether a quota may bound this resource of Kubernetes' own.
pub(super) fn is_of_quotas(own: &str) -> bool {
    is_standard(own) && own != "storage"
}

fn is_standard(own: &str) -> bool {
    STANDARD.contains(&own) || own.starts_with(HUGE_PAGES) || own.starts_with(REQUESTS_HUGE_PAGES)
}

/// Checks a resource name: Kubernetes' own, or one with a domain.
pub(super) fn name(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    let faults = names::qualified_name(own);
    if faults.is_empty() && !own.contains('/') && !is_standard(own) {
        errors.invalid(path, own, "must be a standard resource type or fully qualified");
    }
    grammar(errors, path, own, faults);
}

/// Checks an amount: not negative, and an integer for counted resources.
pub(super) fn amount(errors: &mut ErrorList, path: &Path<'_>, own: &str, amount: &Value) {
    quantity_not_negative(errors, path, amount);
    if (COUNTED.contains(&own) || is_extended(own)) && quantity(amount).is_some_and(|n| !is_whole(n)) {
        errors.invalid(path, amount, "must be an integer");
    }
}

/// Whether an amount has no fraction.
pub(super) fn is_whole(amount: Quantity) -> bool {
    amount.milli() % 1000 == 0
}
