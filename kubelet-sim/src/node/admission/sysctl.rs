//! The kernel parameters that a pod may set: those that belong to its own namespaces and concern no other pod
//! (`sysctl.SafeSysctlAllowlist`). Pure.

use super::Rejection;
use crate::pod_object::PodObject;

/// A namespace that parameters belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
}

/// The parameters that a kubelet allows by default on a kernel that has all of them.
const SAFE: [(&str, Namespace); 12] = [
    ("kernel.shm_rmid_forced", Namespace::Ipc),
    ("net.ipv4.ip_local_port_range", Namespace::Net),
    ("net.ipv4.tcp_syncookies", Namespace::Net),
    ("net.ipv4.ping_group_range", Namespace::Net),
    ("net.ipv4.ip_unprivileged_port_start", Namespace::Net),
    ("net.ipv4.ip_local_reserved_ports", Namespace::Net),
    ("net.ipv4.tcp_keepalive_time", Namespace::Net),
    ("net.ipv4.tcp_fin_timeout", Namespace::Net),
    ("net.ipv4.tcp_keepalive_intvl", Namespace::Net),
    ("net.ipv4.tcp_keepalive_probes", Namespace::Net),
    ("net.ipv4.tcp_rmem", Namespace::Net),
    ("net.ipv4.tcp_wmem", Namespace::Net),
];

/// Judges the kernel parameters of a pod.
///
/// # Errors
/// The rejection because of the first one that a pod may not set.
pub(super) fn admit(pod: &PodObject) -> Result<(), Rejection> {
    for sysctl in &pod.spec.security_context.sysctls {
        let name = normalized(&sysctl.name);
        let problem = match SAFE.iter().find(|(safe, _)| *safe == name) {
            None => "not allowlisted",
            Some((_, Namespace::Ipc)) if pod.spec.host_ipc => "not allowed with host IPC enabled",
            Some((_, Namespace::Net)) if pod.spec.host_network => "not allowed with host Net enabled",
            Some(_) => continue,
        };
        return Err(Rejection::new("SysctlForbidden", format!("forbidden sysctl: \"{name}\" {problem}")));
    }
    Ok(())
}

/// A name with dots between its parts, if slashes are: a first slash makes them the separators, and dots parts of names.
fn normalized(name: &str) -> String {
    match name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/')) {
        false => name.to_owned(),
        true => name
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parameters_of_the_own_namespaces_are_safe() {
        let of = |sysctl: &str, more: &str| {
            let spec = format!(
                "{{spec: {{{more} securityContext: {{sysctls: [{{name: {sysctl}, value: '1'}}]}}}}}}"
            );
            let why = admit(&serde_yaml_ng::from_str(&spec).unwrap()).err()?;
            assert_eq!(why.reason, "SysctlForbidden");
            Some(why.message)
        };
        for safe in ["kernel.shm_rmid_forced", "kernel/shm_rmid_forced", "net.ipv4.tcp_rmem"] {
            assert_eq!(of(safe, ""), None, "{safe}");
        }
        let told = |text: &str| Some(format!("forbidden sysctl: {text}"));
        assert_eq!(of("kernel.msgmax", ""), told("\"kernel.msgmax\" not allowlisted"));
        assert_eq!(of("net/ipv4/ip_forward", ""), told("\"net.ipv4.ip_forward\" not allowlisted"));
        assert_eq!(
            of("net.ipv4.tcp_syncookies", "hostNetwork: true,"),
            told("\"net.ipv4.tcp_syncookies\" not allowed with host Net enabled")
        );
        assert_eq!(of("kernel.shm_rmid_forced", "hostNetwork: true,"), None);
        assert_eq!(
            of("kernel.shm_rmid_forced", "hostIPC: true,"),
            told("\"kernel.shm_rmid_forced\" not allowed with host IPC enabled")
        );
    }
}
