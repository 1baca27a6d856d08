//! Baseline: containers must not add capabilities beyond the default set.

use super::{Control, Pod, Revision, Violation, containers, quoted, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::{list, text};
use std::collections::BTreeSet;

pub(super) const ID: &str = "capabilities_baseline";
pub(super) const CONTROL: Control =
    Control { id: ID, level: Level::Baseline, revisions: &[Revision::new(0, check)] };

const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let text = added(pod, |capability| DEFAULT.contains(&capability))?;
    violation("non-default capabilities", text)
}

/// Describes the capabilities that containers add without permission; `None` if there are none.
pub(super) fn added(pod: &Pod<'_>, may_be_added: impl Fn(&str) -> bool) -> Option<String> {
    let mut forbidden = BTreeSet::new();
    let bad = pod.bad_containers(|container| {
        let added = list(&container.security()["capabilities"]["add"]).iter().map(text);
        let bad: Vec<&str> = added.filter(|capability| !may_be_added(capability)).collect();
        forbidden.extend(bad.iter().copied());
        !bad.is_empty()
    });
    let forbidden = quoted(forbidden);
    (!bad.is_empty()).then(|| {
        format!("{} must not include {forbidden} in securityContext.capabilities.add", containers(&bad))
    })
}
