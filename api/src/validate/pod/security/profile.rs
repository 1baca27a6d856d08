//! Validation of seccomp and AppArmor profiles: fields, their former annotations, and that both agree.
//!
//! Follows `validateSeccompProfileField` and `ValidateAppArmorProfileField`.

use crate::check::relative;
use crate::field::{ErrorList, Path};
use crate::object::text;
use crate::validate::pod::each_container;
use serde_json::Value;

const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Bytes of a path on Linux.
const PATH_MAX: usize = 4095;

/// Checks a `seccompProfile`, if it is set.
pub(super) fn seccomp(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    if profile.is_null() {
        return;
    }
    let kind = text(&profile["type"]);
    if kind.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    } else if !TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &TYPES);
    }
    let path = path.child("localhostProfile");
    match (kind, profile["localhostProfile"].as_str()) {
        ("Localhost", None) => errors.required(&path, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(own)) => relative(errors, &path, own),
        (_, Some(_)) => errors.invalid(&path, profile, "can only be set when seccomp type is Localhost"),
        (_, None) => {}
    }
}

/// Checks an `appArmorProfile`, if it is set.
pub(super) fn app_armor(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    if profile.is_null() {
        return;
    }
    let own = profile["localhostProfile"].as_str();
    let own_path = path.child("localhostProfile");
    match text(&profile["type"]) {
        "Localhost" => match own {
            None => errors.required(&own_path, "must be set when AppArmor type is Localhost"),
            Some(own) => {
                if own.trim() != own {
                    errors.invalid(&own_path, own, "must not be padded with whitespace");
                } else if own.is_empty() {
                    errors.required(&own_path, "must be set when AppArmor type is Localhost");
                }
                if own.len() > PATH_MAX {
                    errors.too_long(&own_path, PATH_MAX);
                }
            }
        },
        "RuntimeDefault" | "Unconfined" => {
            if let Some(own) = own {
                errors.invalid(&own_path, own, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
        other => errors.not_supported(&path.child("type"), other, &TYPES),
    }
}

/// Checks the annotations alone.
pub(in crate::validate::pod) fn annotations(
    errors: &mut ErrorList,
    path: &Path<'_>,
    annotations: &Value,
    spec: &Value,
) {
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let value = text(value);
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp_text(errors, &path.child(key), value);
        } else if let Some(container) = key.strip_prefix(APP_ARMOR) {
            let mut known = false;
            each_container(&Path::ROOT, spec, |_, other| known |= other["name"] == container);
            if !known {
                errors.invalid(&path.key(key), container, "container not found");
            }
            if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/") {
                let detail = format!("invalid AppArmor profile name: {value:?}");
                errors.invalid(&path.key(key), value, detail);
            }
        }
    }
}

fn seccomp_text(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    match value.strip_prefix("localhost/") {
        Some(own) => relative(errors, path, own),
        None if matches!(value, "runtime/default" | "docker/default" | "unconfined") => {}
        None => errors.invalid(path, value, "must be a valid seccomp profile"),
    }
}

/// Checks that annotation and field agree where both are set.
pub(in crate::validate::pod) fn match_annotations(
    errors: &mut ErrorList,
    path: &Path<'_>,
    annotations: &Value,
    spec: &Value,
) {
    if annotations.as_object().is_none_or(|annotations| annotations.is_empty()) {
        return;
    }
    let of_pod = &spec["securityContext"];
    if let (Some(said), false) = (annotations[SECCOMP_POD].as_str(), of_pod["seccompProfile"].is_null()) {
        let path = path.child("securityContext.seccompProfile");
        same(errors, &path, "seccomp", said, &of_pod["seccompProfile"]);
    }
    each_container(path, spec, |path, container| {
        let (own, context) = (text(&container["name"]), &container["securityContext"]);
        let said = annotations[format!("{SECCOMP_CONTAINER}{own}")].as_str();
        if let (Some(said), false) = (said, context["seccompProfile"].is_null()) {
            let path = path.child("securityContext.seccompProfile");
            same(errors, &path, "seccomp", said, &context["seccompProfile"]);
        }
    });
    if spec["os"]["name"] == "windows" {
        return;
    }
    each_container(path, spec, |path, container| {
        let (own, context) = (text(&container["name"]), &container["securityContext"]);
        let profile = [&context["appArmorProfile"], &of_pod["appArmorProfile"]];
        let profile = profile.into_iter().find(|profile| !profile.is_null());
        let said = annotations[format!("{APP_ARMOR}{own}")].as_str();
        if let (Some(said), Some(profile)) = (said, profile) {
            same(errors, &path.child("securityContext.appArmorProfile"), "apparmor", said, profile);
        }
    });
}

fn same(errors: &mut ErrorList, path: &Path<'_>, what: &str, said: &str, profile: &Value) {
    let kinds = match text(&profile["type"]) {
        "Unconfined" => said == "unconfined",
        "RuntimeDefault" => said == "runtime/default" || (what == "seccomp" && said == "docker/default"),
        "Localhost" => match said.strip_prefix("localhost/") {
            Some(own) => {
                if profile["localhostProfile"] != own {
                    let detail = format!("{what} profile in annotation and field must match");
                    errors.forbidden(&path.child("localhostProfile"), detail);
                }
                true
            }
            None => false,
        },
        _ => true,
    };
    if !kinds {
        errors.forbidden(&path.child("type"), format!("{what} type in annotation and field must match"));
    }
}
