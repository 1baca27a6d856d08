//! Baseline: containers must not be privileged.

use super::{Control, Pod, Revision, Violation, containers, violation};
use crate::plugins::pod_security::policy::Level;

pub(super) const CONTROL: Control =
    Control { id: "privileged", level: Level::Baseline, revisions: &[Revision::new(0, check)] };

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.bad_containers(|container| container.security()["privileged"] == true);
    if bad.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&bad)))
}
