//! Validation of a pod's operating system and of Windows options.
//!
//! Follows `validateWindowsSecurityContextOptions` and `validateOS`.

use crate::check::grammar;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use crate::validate::pod::each_container;
use serde_json::Value;

/// Bytes of an inline GMSA credential specification.
const CREDENTIAL_MAX: usize = 64 * 1024;
/// Bytes of a user's domain.
const DOMAIN_MAX: usize = 256;
/// Bytes of a user name without its domain.
const USER_MAX: usize = 104;

/// Checks `windowsOptions`, if it is set.
pub(super) fn options(errors: &mut ErrorList, path: &Path<'_>, options: &Value) {
    let credential = path.child("gmsaCredentialSpecName");
    if let Some(own) = options["gmsaCredentialSpecName"].as_str() {
        grammar(errors, &credential, own, name::dns1123_subdomain(own));
    }
    if let Some(credential) = options["gmsaCredentialSpec"].as_str() {
        let path = path.child("gmsaCredentialSpec");
        if credential.is_empty() {
            errors.invalid(&path, credential, "gmsaCredentialSpec cannot be an empty string");
        } else if credential.len() > CREDENTIAL_MAX {
            errors.invalid(&path, credential, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(user) = options["runAsUserName"].as_str() {
        for fault in user_name(user) {
            errors.invalid(&path.child("runAsUserName"), user, fault);
        }
    }
}

/// Faults of a Windows user name, `[domain\]user`.
fn user_name(value: &str) -> Vec<String> {
    let fault = |text: &str| vec![format!("runAsUserName {text}")];
    if value.is_empty() {
        return fault("cannot be an empty string");
    } else if value.chars().any(|c| c.is_ascii_control()) {
        return fault("cannot contain control characters");
    }
    let mut faults = Vec::new();
    let (domain, user) = match value.split_once('\\') {
        Some((_, rest)) if rest.contains('\\') => return fault("cannot contain more than one backslash"),
        Some((domain, user)) => (Some(domain), user),
        None => (None, value),
    };
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_MAX) {
        faults.push(format!("runAsUserName's Domain length must be under {DOMAIN_MAX} characters"));
    }
    if domain.is_some_and(|domain| !is_domain(domain)) {
        faults.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        faults.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_MAX {
        faults.push(format!("runAsUserName's User length must not be longer than {USER_MAX} characters"));
    }
    if !user.is_empty() && user.bytes().all(|b| matches!(b, b'.' | b' ')) {
        faults.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        faults.push(
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned(),
        );
    }
    faults
}

fn is_domain(domain: &str) -> bool {
    let short = (1..=15).contains(&domain.chars().count());
    let net_bios = short && !domain.starts_with('.') && !domain.contains(|c| "\\/:*?\"<>|".contains(c));
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    net_bios || domain.split('.').all(part)
}

/// Checks that either all containers of a pod are host-process containers, or none.
pub(in crate::validate::pod) fn host_process(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let of_pod = spec["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let (mut all, mut those) = (0, 0);
    each_container(path, spec, |path, container| {
        let own = container["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
        all += 1;
        those += usize::from(own.or(of_pod) == Some(true));
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let path = path.child("securityContext.windowsOptions.hostProcess");
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&path, &own, detail);
        }
    });
    if those == 0 {
        return;
    }
    if those != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", detail);
    }
    if spec["hostNetwork"] != true {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), &false, detail);
    }
}

const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";

/// Pod fields that Windows pods must not set.
const POD: [&str; 15] = [
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];

/// Fields of a container's security context that Windows pods must not set.
const CONTAINER: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks the fields that the pod's operating system excludes.
pub(in crate::validate::pod) fn for_os(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let os = &spec["os"];
    if os.is_null() {
        return;
    }
    match text(&os["name"]) {
        "" => errors.required(&path.child("os.name"), ""),
        "linux" => linux(errors, path, spec),
        "windows" => windows(errors, path, spec),
        other => errors.not_supported(&path.child("os"), other, &["linux", "windows"]),
    }
}

fn linux(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let detail = "windows options cannot be set for a linux pod";
    if !spec["securityContext"]["windowsOptions"].is_null() {
        errors.forbidden(&path.child("securityContext.windowsOptions"), detail);
    }
    each_container(path, spec, |path, container| {
        if !container["securityContext"]["windowsOptions"].is_null() {
            errors.forbidden(&path.child("securityContext.windowsOptions"), detail);
        }
    });
}

fn windows(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    for member in POD {
        let value = match member.strip_prefix("securityContext.") {
            Some(own) => &spec["securityContext"][own],
            None => &spec[member],
        };
        let off = matches!(member, "hostPID" | "hostIPC") && *value == false;
        let none = member.ends_with("sysctls") && list(value).is_empty();
        if !value.is_null() && !off && !none {
            errors.forbidden(&path.child(member), NOT_FOR_WINDOWS);
        }
    }
    each_container(path, spec, |path, container| {
        let path = path.child("securityContext");
        for member in CONTAINER {
            if !container["securityContext"][member].is_null() {
                errors.forbidden(&path.child(member), NOT_FOR_WINDOWS);
            }
        }
    });
}
