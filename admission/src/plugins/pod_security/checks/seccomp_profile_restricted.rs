//! Restricted: every container must have a seccomp profile, its own or the pod's, of an allowed type.

use super::seccomp_profile_baseline::{ID, REASON, bad_profiles, is_good};
use super::{Control, Pod, Revision, Violation, containers, violation};
use crate::plugins::pod_security::policy::Level;

pub(super) const CONTROL: Control = Control {
    id: "seccompProfile_restricted",
    level: Level::Restricted,
    revisions: &[Revision::replacing(19, check, ID), Revision::replacing(25, check_but_windows, ID)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    if let Some(detail) = bad_profiles(pod) {
        return violation(REASON, detail);
    }
    if is_good(&pod.security()["seccompProfile"]) {
        return None;
    }
    let silent = pod.bad_containers(|container| container.security()["seccompProfile"].is_null());
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&silent)
    );
    violation(REASON, detail)
}

/// Windows pods are exempt: they cannot set the field.
fn check_but_windows(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
