//! Baseline: pods must not run Windows host processes.

use super::{Control, Pod, Revision, Violation, setters, violation};
use crate::plugins::pod_security::policy::Level;
use serde_json::Value;

pub(super) const CONTROL: Control =
    Control { id: "windowsHostProcess", level: Level::Baseline, revisions: &[Revision::new(0, check)] };

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |security: &Value| security["windowsOptions"]["hostProcess"] == true;
    let bad = pod.bad_containers(|container| is_bad(container.security()));
    let setters = setters(is_bad(pod.security()), &bad)?;
    violation(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}
