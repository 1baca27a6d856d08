//! Restricted: containers must not set user 0. Since 1.35 pods with a user namespace are exempt.

use super::{Control, Pod, Revision, Violation, setters, violation};
use crate::plugins::pod_security::policy::Level;

pub(super) const CONTROL: Control = Control {
    id: "runAsUser",
    level: Level::Restricted,
    revisions: &[Revision::new(23, check), Revision::new(35, check_but_own_users)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let explicit = pod.bad_containers(|container| container.security()["runAsUser"] == 0);
    let setters = setters(pod.security()["runAsUser"] == 0, &explicit)?;
    violation("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

fn check_but_own_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { check(pod) }
}
