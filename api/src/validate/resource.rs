//! Names of resources (cpu, memory, what vendors offer) and amounts of them, as pods, quotas and limits share them.

use serde_json::Value;

use super::check::{grammar, quantity, quantity_not_negative};
use crate::field::{ErrorList, Path};
use crate::name as names;
use crate::quantity::Quantity;

/// Begins the names of huge pages, which end with their size.
pub(super) const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";
/// Begins the names of amounts that quotas bound.
const REQUESTS: &str = "requests.";

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Everything the system itself names, in whichever context.
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

/// What is counted in pieces.
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

/// Whether the system itself names it.
pub(super) fn is_native(own: &str) -> bool {
    !own.contains('/') || own.contains("kubernetes.io/")
}

/// Whether somebody else may name it so: also with the prefix of quotas it must be a name.
pub(super) fn is_extended(own: &str) -> bool {
    !is_native(own)
        && !own.starts_with(REQUESTS)
        && names::qualified_name(&format!("{REQUESTS}{own}")).is_empty()
}

/// Whether a quota bounds an extended resource by it: `requests.` before a name that is not the system's.
pub(crate) fn is_extended_of_quotas(own: &str) -> bool {
    !is_native(own) && own.starts_with(REQUESTS)
}

/// Whether containers may ask for it, of what the system itself names.
pub(super) fn is_of_containers(own: &str) -> bool {
    OF_CONTAINERS.contains(&own) || own.starts_with(HUGE_PAGES)
}

/// Whether pods may be promised more in sum than there is.
pub(super) fn may_overcommit(own: &str) -> bool {
    is_native(own) && !own.starts_with(HUGE_PAGES)
}

/// Whether a quota may bound it, of what the system itself names.
pub(super) fn is_of_quotas(own: &str) -> bool {
    is_standard(own) && own != "storage"
}

fn is_standard(own: &str) -> bool {
    STANDARD.contains(&own) || own.starts_with(HUGE_PAGES) || own.starts_with(REQUESTS_HUGE_PAGES)
}

/// A name in any context: the system's, or one with a domain.
pub(super) fn name(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    let faults = names::qualified_name(own);
    if faults.is_empty() && !own.contains('/') && !is_standard(own) {
        errors.invalid(path, own, "must be a standard resource type or fully qualified");
    }
    grammar(errors, path, own, faults);
}

/// An amount: not negative, and whole where pieces are counted.
pub(super) fn amount(errors: &mut ErrorList, path: &Path<'_>, own: &str, amount: &Value) {
    quantity_not_negative(errors, path, amount);
    if (COUNTED.contains(&own) || is_extended(own)) && quantity(amount).is_some_and(|n| !is_whole(n)) {
        errors.invalid(path, amount, "must be an integer");
    }
}

/// Whether nothing is left after the point.
pub(super) fn is_whole(amount: Quantity) -> bool {
    amount.milli() % 1000 == 0
}
