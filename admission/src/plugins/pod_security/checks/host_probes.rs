//! Baseline: probes and lifecycle hooks must not name another host.

use super::{Control, Pod, Revision, Violation, plural, quoted, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::text;
use std::collections::BTreeSet;

pub(super) const CONTROL: Control = Control {
    id: "hostProbesAndHostLifecycle",
    level: Level::Baseline,
    revisions: &[Revision::new(34, check)],
};

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let (mut bad, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        let (own, hooks) = (container.0, &container.0["lifecycle"]);
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|name| &own[name]);
        let handlers = probes.into_iter().chain(["postStart", "preStop"].map(|name| &hooks[name]));
        let named =
            handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| text(&handler[kind]["host"])));
        for host in named.filter(|host| !host.is_empty()) {
            hosts.insert(host);
            bad.insert(container.name());
        }
    }
    if bad.is_empty() {
        return None;
    }
    let noun = plural("container", "containers", bad.len());
    let verb = plural("uses", "use", bad.len());
    let object = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    let detail = format!("{noun} {} {verb} {object} {}", quoted(bad), quoted(hosts));
    violation("probe or lifecycle host", detail)
}
