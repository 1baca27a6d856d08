//! Baseline: containers must not use host ports.

use super::{Control, Pod, Revision, Violation, containers, plural, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::{int, list};
use std::collections::BTreeSet;

pub(super) const CONTROL: Control =
    Control { id: "hostPorts", level: Level::Baseline, revisions: &[Revision::new(0, check)] };

fn check(pod: &Pod<'_>) -> Option<Violation> {
    // Sorted as texts, as in Kubernetes.
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let bad = pod.bad_containers(|container| {
        let ports = list(&container.0["ports"]).iter().map(|port| int(&port["hostPort"]));
        let ports: Vec<i64> = ports.filter(|port| *port != 0).collect();
        taken.extend(ports.iter().map(ToString::to_string));
        !ports.is_empty()
    });
    if bad.is_empty() {
        return None;
    }
    let (verb, noun) = (plural("uses", "use", bad.len()), plural("hostPort", "hostPorts", taken.len()));
    let taken: Vec<String> = taken.into_iter().collect();
    violation("hostPort", format!("{} {verb} {noun} {}", containers(&bad), taken.join(", ")))
}
