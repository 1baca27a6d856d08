//! Baseline: pods may set only kernel parameters that affect the pod alone.

use super::{Control, Pod, Revision, Violation, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::{list, text};

pub(super) const CONTROL: Control = Control {
    id: "sysctls",
    level: Level::Baseline,
    revisions: &[
        Revision::new(0, |pod| check(pod, 5)),
        Revision::new(27, |pod| check(pod, 6)),
        Revision::new(29, |pod| check(pod, 10)),
        Revision::new(32, |pod| check(pod, 12)),
        Revision::new(37, |pod| check(pod, 14)),
    ],
};

/// Allowed parameters, in the order in which versions added them.
const ALLOWED: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

/// Checks against the first `allowed` parameters.
fn check(pod: &Pod<'_>, allowed: usize) -> Option<Violation> {
    let names = list(&pod.security()["sysctls"]).iter().map(|sysctl| text(&sysctl["name"]));
    let forbidden: Vec<&str> = names.filter(|name| !ALLOWED[..allowed].contains(name)).collect();
    if forbidden.is_empty() { None } else { violation("forbidden sysctls", forbidden.join(", ")) }
}
