//! Restricted: containers must run as non-root, as set for the pod or the container. Since 1.35 pods with a
//! user namespace are exempt.

use super::{Control, Pod, Revision, Violation, containers, setters, violation};
use crate::plugins::pod_security::policy::Level;

pub(super) const CONTROL: Control = Control {
    id: "runAsNonRoot",
    level: Level::Restricted,
    revisions: &[Revision::new(0, check), Revision::new(35, check_but_own_users)],
};

const REASON: &str = "runAsNonRoot != true";

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let of_pod = &pod.security()["runAsNonRoot"];
    let explicit = pod.bad_containers(|container| container.security()["runAsNonRoot"] == false);
    if let Some(setters) = setters(*of_pod == false, &explicit) {
        return violation(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    let silent =
        pod.bad_containers(|container| *of_pod != true && container.security()["runAsNonRoot"].is_null());
    if silent.is_empty() {
        return None;
    }
    violation(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&silent)))
}

fn check_but_own_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { check(pod) }
}
