//! The rights that a pod asks for beyond those of any container of a program of this machine. Pure.

use k8s_openapi::api::core::v1::{Container, PodSecurityContext, PodSpec, SecurityContext};

/// The fields by which a container asks for rights that no program of this machine has, as paths in the pod. They have no effect.
pub fn fields(spec: &PodSpec, container: &Container) -> Vec<&'static str> {
    let none = (PodSecurityContext::default(), SecurityContext::default());
    let general = spec.security_context.as_ref().unwrap_or(&none.0);
    let own = container.security_context.as_ref().unwrap_or(&none.1);
    let is_unconfined = |kind: Option<&str>| kind == Some("Unconfined");
    let adds = own.capabilities.as_ref().and_then(|all| all.add.as_ref()).is_some_and(|add| !add.is_empty());
    let asked = [
        ("spec.hostPID", spec.host_pid == Some(true)),
        ("spec.hostIPC", spec.host_ipc == Some(true)),
        ("spec.securityContext.seLinuxOptions", general.se_linux_options.is_some()),
        (
            "spec.securityContext.seccompProfile",
            is_unconfined(general.seccomp_profile.as_ref().map(|profile| profile.type_.as_str())),
        ),
        (
            "spec.securityContext.appArmorProfile",
            is_unconfined(general.app_armor_profile.as_ref().map(|profile| profile.type_.as_str())),
        ),
        ("securityContext.privileged", own.privileged == Some(true)),
        ("securityContext.allowPrivilegeEscalation", own.allow_privilege_escalation == Some(true)),
        ("securityContext.capabilities.add", adds),
        ("securityContext.procMount", own.proc_mount.as_deref() == Some("Unmasked")),
        ("securityContext.seLinuxOptions", own.se_linux_options.is_some()),
        (
            "securityContext.seccompProfile",
            is_unconfined(own.seccomp_profile.as_ref().map(|profile| profile.type_.as_str())),
        ),
        (
            "securityContext.appArmorProfile",
            is_unconfined(own.app_armor_profile.as_ref().map(|profile| profile.type_.as_str())),
        ),
    ];
    asked.into_iter().filter_map(|(field, is_asked)| is_asked.then_some(field)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pod: &str, container: &str) -> Vec<&'static str> {
        fields(&serde_yaml_ng::from_str(pod).unwrap(), &serde_yaml_ng::from_str(container).unwrap())
    }

    #[test]
    fn only_what_asks_for_more_rights_is_listed() {
        let usual = "{name: c, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true, \
                     readOnlyRootFilesystem: true, seccompProfile: {type: RuntimeDefault}, privileged: false}}";
        assert!(of("{containers: [], hostNetwork: true, securityContext: {fsGroup: 1}}", usual).is_empty());
        let all = "{name: c, securityContext: {allowPrivilegeEscalation: true, capabilities: {add: [NET_ADMIN]}, privileged: true, \
                   procMount: Unmasked, seLinuxOptions: {level: s0}, seccompProfile: {type: Unconfined}, \
                   appArmorProfile: {type: Unconfined}}}";
        let pod = "{containers: [], hostPID: true, hostIPC: true, securityContext: {seLinuxOptions: {level: s0}, \
                   seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}}}";
        assert_eq!(of(pod, all).len(), 12);
        assert_eq!(
            of("{containers: []}", "{name: c, securityContext: {privileged: true}}"),
            ["securityContext.privileged"]
        );
    }
}
