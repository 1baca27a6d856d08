//! Restricted: containers must disallow privilege escalation.

use super::{Control, Pod, Revision, Violation, containers, violation};
use crate::plugins::pod_security::policy::Level;

pub(super) const CONTROL: Control = Control {
    id: "allowPrivilegeEscalation",
    level: Level::Restricted,
    revisions: &[Revision::new(8, check), Revision::new(25, check_but_windows)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.bad_containers(|container| container.security()["allowPrivilegeEscalation"] != false);
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&bad));
    violation("allowPrivilegeEscalation != false", detail)
}

/// Windows pods are exempt: they cannot set the field.
fn check_but_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
