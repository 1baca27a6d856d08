//! Baseline: seccomp profiles, if set, must be the default or local ones: in annotations until 1.18, in
//! fields since then.

use super::{Control, Pod, Revision, Violation, bad_values, plural, quoted, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::text;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) const ID: &str = "seccompProfile_baseline";
pub(super) const REASON: &str = "seccompProfile";
pub(super) const CONTROL: Control = Control {
    id: ID,
    level: Level::Baseline,
    revisions: &[Revision::new(0, check_annotations), Revision::new(19, check)],
};

const OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

fn check_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let annotation = |key: String| {
        let (_, value) = pod.annotations().find(|(own, _)| *own == key)?;
        (!is_allowed(value)).then(|| format!("{key}={value:?}"))
    };
    let of_containers = pod.containers().map(|container| format!("{OF_CONTAINER}{}", container.name()));
    let keys = std::iter::once(OF_POD.to_owned()).chain(of_containers);
    let bad: BTreeSet<String> = keys.filter_map(annotation).collect();
    if bad.is_empty() {
        return None;
    }
    let noun = plural("annotation", "annotations", bad.len());
    let bad: Vec<String> = bad.into_iter().collect();
    violation(REASON, format!("forbidden {noun} {}", bad.join(", ")))
}

fn is_allowed(annotation: &str) -> bool {
    matches!(annotation, "runtime/default" | "docker/default") || annotation.starts_with("localhost/")
}

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let detail = bad_profiles(pod)?;
    violation(REASON, detail)
}

/// Describes the forbidden profiles that pod and containers set; `None` if there are none.
pub(super) fn bad_profiles(pod: &Pod<'_>) -> Option<String> {
    let (setters, values) = bad_values(pod, "seccompProfile", |profile| {
        if is_good(profile) { Vec::new() } else { vec![text(&profile["type"])] }
    })?;
    Some(format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(values)))
}

/// Whether a profile's type is allowed.
pub(super) fn is_good(profile: &Value) -> bool {
    matches!(text(&profile["type"]), "RuntimeDefault" | "Localhost")
}
