//! Baseline: SELinux types must be container types, and user and role must not be set.

use super::{Control, Pod, Revision, Violation, plural, quoted, setters, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::text;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const CONTROL: Control = Control {
    id: "seLinuxOptions",
    level: Level::Baseline,
    revisions: &[Revision::new(0, check), Revision::new(31, check_with_engines)],
};

const TYPES: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];
/// The SELinux type of containers that run containers.
const ENGINE: &str = "container_engine_t";

fn check(pod: &Pod<'_>) -> Option<Violation> {
    check_types(pod, |kind| TYPES.contains(&kind))
}

fn check_with_engines(pod: &Pod<'_>) -> Option<Violation> {
    check_types(pod, |kind| TYPES.contains(&kind) || kind == ENGINE)
}

fn check_types(pod: &Pod<'_>, is_allowed: impl Fn(&str) -> bool) -> Option<Violation> {
    let (mut types, mut sets_user, mut sets_role) = (BTreeSet::new(), false, false);
    let mut is_bad = |options: &Value| {
        let kind = text(&options["type"]);
        let is_type_bad = !is_allowed(kind);
        if is_type_bad {
            types.insert(kind.to_owned());
        }
        let (user, role) = (!text(&options["user"]).is_empty(), !text(&options["role"]).is_empty());
        sets_user |= user;
        sets_role |= role;
        is_type_bad || user || role
    };
    let is_pod_bad = is_bad(&pod.security()["seLinuxOptions"]);
    let bad = pod.bad_containers(|container| is_bad(&container.security()["seLinuxOptions"]));
    let setters = setters(is_pod_bad, &bad)?;
    let mut faults = Vec::new();
    if !types.is_empty() {
        let noun = plural("type", "types", types.len());
        faults.push(format!("{noun} {}", quoted(types.iter().map(String::as_str))));
    }
    faults.extend(sets_user.then(|| "user may not be set".to_owned()));
    faults.extend(sets_role.then(|| "role may not be set".to_owned()));
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {}", faults.join("; "));
    violation("seLinuxOptions", detail)
}
