//! Validation of a pod's sysctls.
//!
//! Follows `validateSysctls`.

use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// Bytes of a sysctl name.
const NAME_MAX: usize = 253;

pub(super) fn sysctls(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let mut names = BTreeSet::new();
    for (i, sysctl) in list(&spec["securityContext"]["sysctls"]).iter().enumerate() {
        let (path, own) = (path.index(i), text(&sysctl["name"]));
        let path = path.child("name");
        if own.is_empty() {
            errors.required(&path, "");
        } else if !is_name(own) {
            let detail = format!(
                "must have at most {NAME_MAX} characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            );
            errors.invalid(&path, own, detail);
        } else if names.contains(own) {
            errors.duplicate(&path, own);
        }
        of_host(errors, &path, own, spec);
        names.insert(own);
    }
}

fn is_name(own: &str) -> bool {
    let end = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    own.len() <= NAME_MAX
        && own.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(end)
                && bytes.last().is_some_and(end)
                && bytes.iter().all(|b| end(b) || matches!(b, b'-' | b'_'))
        })
}

const OF_IPC: [&str; 4] = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];

/// Refuses sysctls of a namespace that the pod shares with the host.
fn of_host(errors: &mut ErrorList, path: &Path<'_>, own: &str, spec: &Value) {
    let plain = if own.find('/') < own.find('.') && own.contains('/') || !own.contains('.') {
        own.replace('/', ".")
    } else {
        own.to_owned()
    };
    if spec["hostNetwork"] == true && plain.starts_with("net.") {
        errors.invalid(path, own, "may not be specified when 'hostNetwork' is true");
    } else if spec["hostIPC"] == true && OF_IPC.iter().any(|prefix| plain.starts_with(prefix)) {
        errors.invalid(path, own, "may not be specified when 'hostIPC' is true");
    }
}
