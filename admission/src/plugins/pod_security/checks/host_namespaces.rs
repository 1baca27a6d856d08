//! Baseline: pods must not share namespaces of the node.

use super::{Control, Pod, Revision, Violation, violation};
use crate::plugins::pod_security::policy::Level;

pub(super) const CONTROL: Control =
    Control { id: "hostNamespaces", level: Level::Baseline, revisions: &[Revision::new(0, check)] };

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|member| pod.spec[member] == true);
    let shared: Vec<String> = shared.map(|member| format!("{member}=true")).collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}
