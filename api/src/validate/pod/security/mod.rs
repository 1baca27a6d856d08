//! Validation of security contexts of pods and containers.
//!
//! Follows `ValidateSecurityContext` and `ValidatePodSecurityContext`.

mod profile;
mod sysctl;
mod windows;

use crate::check::given_one_of;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
pub(super) use profile::{annotations, match_annotations};
use serde_json::Value;
pub(super) use windows::{for_os, host_process};

fn ids(errors: &mut ErrorList, path: &Path<'_>, context: &Value, members: &[&str]) {
    for member in members {
        id(errors, &path.child(member), &context[*member]);
    }
}

fn id(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    for fault in value.as_i64().map(name::numeric_id).unwrap_or_default() {
        errors.invalid(path, value, fault);
    }
}

/// Checks the pod's security context. Messages about host namespaces have the path of the spec member.
pub(super) fn of_pod(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (path, context) = (path.child("securityContext"), &spec["securityContext"]);
    ids(errors, &path, context, &["fsGroup", "runAsUser", "runAsGroup"]);
    let groups = path.child("supplementalGroups");
    for (i, group) in list(&context["supplementalGroups"]).iter().enumerate() {
        id(errors, &groups.index(i), group);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), &true, detail);
    }
    sysctl::sysctls(errors, &path.child("sysctls"), spec);
    let policy = &context["fsGroupChangePolicy"];
    given_one_of(errors, &path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    profile::seccomp(errors, &path.child("seccompProfile"), &context["seccompProfile"]);
    windows::options(errors, &path.child("windowsOptions"), &context["windowsOptions"]);
    profile::app_armor(errors, &path.child("appArmorProfile"), &context["appArmorProfile"]);
    let policy = &context["supplementalGroupsPolicy"];
    given_one_of(errors, &path.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    let policy = &context["seLinuxChangePolicy"];
    given_one_of(errors, &path.child("seLinuxChangePolicy"), policy, &["MountOption", "Recursive"]);
}

/// Checks the security context of one container.
pub(super) fn of_container(errors: &mut ErrorList, path: &Path<'_>, context: &Value, host_users: bool) {
    if context.is_null() {
        return;
    }
    ids(errors, path, context, &["runAsUser", "runAsGroup"]);
    if let Some(mount) = context["procMount"].as_str() {
        let path = path.child("procMount");
        if !["Default", "Unmasked"].contains(&mount) {
            errors.not_supported_as_listed(&path, mount, &["Default", "Unmasked"]);
        }
        if host_users && mount == "Unmasked" {
            errors.invalid(&path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    profile::seccomp(errors, &path.child("seccompProfile"), &context["seccompProfile"]);
    if context["allowPrivilegeEscalation"] == false {
        escalation(errors, path, context);
    }
    windows::options(errors, &path.child("windowsOptions"), &context["windowsOptions"]);
    profile::app_armor(errors, &path.child("appArmorProfile"), &context["appArmorProfile"]);
}

/// Refuses `allowPrivilegeEscalation: false` for containers that already have privileges.
fn escalation(errors: &mut ErrorList, path: &Path<'_>, context: &Value) {
    let not_with = "cannot set `allowPrivilegeEscalation` to false and";
    if context["privileged"] == true {
        errors.invalid(path, context, format!("{not_with} `privileged` to true"));
    }
    for _ in list(&context["capabilities"]["add"]).iter().filter(|added| text(added) == "CAP_SYS_ADMIN") {
        errors.invalid(path, context, format!("{not_with} `capabilities.Add` CAP_SYS_ADMIN"));
    }
}

/// Checks the fields that exclude `hostUsers: false`.
pub(super) fn host_users(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    if spec["hostUsers"] != false {
        return;
    }
    // Kubernetes spells two of the three with a capital letter.
    for (member, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[member] == true {
            errors.forbidden(&path.child(shown), "when `hostUsers` is false");
        }
    }
    super::each_container(path, spec, |path, container| {
        if !list(&container["volumeDevices"]).is_empty() {
            errors.forbidden(&path.child("volumeDevices"), "when `hostUsers` is false");
        }
    });
}
