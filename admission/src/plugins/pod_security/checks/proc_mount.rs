//! Baseline: containers must use the default masks of `/proc`. Since 1.35 baseline allows other masks to pods
//! with a user namespace.

use super::{Control, Pod, Revision, Violation, containers, quoted, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::text;
use std::collections::BTreeSet;

const ID: &str = "procMount";
pub(super) const BASELINE: Control = Control {
    id: ID,
    level: Level::Baseline,
    revisions: &[Revision::new(0, check), Revision::new(35, check_but_own_users)],
};
pub(super) const RESTRICTED: Control = Control {
    id: "procMount_restricted",
    level: Level::Restricted,
    revisions: &[Revision::replacing(35, check, ID)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let bad = pod.bad_containers(|container| {
        let kind = &container.security()["procMount"];
        let is_bad = !kind.is_null() && kind != "Default";
        if is_bad {
            kinds.insert(text(kind));
        }
        is_bad
    });
    if bad.is_empty() {
        return None;
    }
    let kinds = quoted(kinds);
    violation("procMount", format!("{} must not set securityContext.procMount to {kinds}", containers(&bad)))
}

fn check_but_own_users(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { check(pod) }
}
