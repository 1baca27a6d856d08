//! Restricted: containers must drop all capabilities and may add only NET_BIND_SERVICE.

use super::capabilities_baseline::{self, added};
use super::{Control, Pod, Revision, Violation, containers, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::list;

pub(super) const CONTROL: Control = Control {
    id: "capabilities_restricted",
    level: Level::Restricted,
    revisions: &[
        Revision::replacing(22, check, capabilities_baseline::ID),
        Revision::replacing(25, check_but_windows, capabilities_baseline::ID),
    ],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.bad_containers(|container| {
        !list(&container.security()["capabilities"]["drop"]).iter().any(|capability| capability == "ALL")
    });
    let drop = (!bad.is_empty())
        .then(|| format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&bad)));
    let add = added(pod, |capability| capability == "NET_BIND_SERVICE");
    let details: Vec<String> = drop.into_iter().chain(add).collect();
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

/// Windows pods are exempt: they cannot set the field.
fn check_but_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
