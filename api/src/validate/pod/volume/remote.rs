//! Validation of remote volumes, one function per source type.
//!
//! Follows `validateNFSVolumeSource`, `validateISCSIVolumeSource` and `validateCSIVolumeSource`.

use crate::check::{given_one_of, grammar, need, optional_grammar, required, required_grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use serde_json::Value;

/// Checks a cloud disk and its partition.
pub(super) fn disk(errors: &mut ErrorList, path: &Path<'_>, source: &Value, id: &str) {
    required(errors, &path.child(id), &source[id]);
    if !(0..=255).contains(&int(&source["partition"])) {
        errors.invalid(&path.child("partition"), &source["partition"], name::in_range(1, 255));
    }
}

pub(super) fn nfs(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    need(errors, path, source, &["server", "path"]);
    let file = text(&source["path"]);
    if !file.starts_with('/') {
        errors.invalid(&path.child("path"), file, "must be an absolute path");
    }
}

pub(super) fn iscsi(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    need(errors, path, source, &["targetPortal", "iqn"]);
    if !text(&source["iqn"]).is_empty() {
        iscsi_name(errors, &path.child("iqn"), text(&source["iqn"]));
    }
    if !(0..=255).contains(&int(&source["lun"])) {
        errors.invalid(&path.child("lun"), &source["lun"], name::in_range(0, 255));
    }
    let chap = source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true;
    if chap && source["secretRef"].is_null() {
        errors.required(&path.child("secretRef"), "");
    }
    if let Some(initiator) = source["initiatorName"].as_str() {
        iscsi_name(errors, &path.child("initiatorname"), initiator);
    }
}

fn iscsi_name(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    let alphanumeric =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let good = match value.get(..3) {
        Some("iqn") => is_qualified(value),
        Some("eui") => value.get(4..).is_some_and(|id| alphanumeric(id, 16)),
        Some("naa") => value.get(4..).is_some_and(|id| alphanumeric(id, 32)),
        _ => {
            errors.invalid(path, value, "must be valid format starting with iqn, eui, or naa");
            return;
        }
    };
    if !good {
        errors.invalid(path, value, "must be valid format");
    }
}

/// Whether a text is an iSCSI qualified name, `iqn.YYYY-MM.authority:name`.
fn is_qualified(value: &str) -> bool {
    let digits = |text: Option<&str>, length: usize| {
        text.is_some_and(|text| text.len() == length && text.bytes().all(|b| b.is_ascii_digit()))
    };
    let Some((authority, own)) = value.split_once(':') else { return false };
    let date = digits(authority.get(4..8), 4) && digits(authority.get(9..11), 2);
    let dots = authority.get(3..4) == Some(".") && authority.get(8..9) == Some("-");
    let rest = authority.get(11..).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
    let host =
        !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    let bad = |c: char| c.is_whitespace() || ",;*&$|".contains(c);
    date && dots && host && !own.is_empty() && !own.contains(bad)
}

pub(super) fn glusterfs_volume(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    need(errors, path, source, &["endpoints", "path"]);
    let (path, namespace) = (path.child("endpointsNamespace"), &source["endpointsNamespace"]);
    if *namespace == "" {
        let detail = "if the endpointnamespace is set, it must be a valid namespace name";
        errors.invalid(&path, namespace, detail);
    }
    optional_grammar(errors, &path, namespace, name::dns1123_label);
}

pub(super) fn flocker(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (own, uuid) = (text(&source["datasetName"]), text(&source["datasetUUID"]));
    match (own.is_empty(), uuid.is_empty()) {
        (true, true) => errors.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.invalid(path, "resource", detail);
        }
        _ => {}
    }
    if own.contains('/') {
        errors.invalid(&path.child("datasetName"), own, "must not contain '/'");
    }
}

/// Checks that a list is not empty; an empty one is reported as a missing value.
pub(super) fn monitors(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if list(&source["monitors"]).is_empty() {
        errors.required(&path.child("monitors"), "");
    }
}

pub(super) fn rbd(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    monitors(errors, path, source);
    need(errors, path, source, &["image"]);
}

/// Checks members of `secretRef`, if it is set.
pub(super) fn secret(errors: &mut ErrorList, path: &Path<'_>, source: &Value, members: &[&str]) {
    if !source["secretRef"].is_null() {
        need(errors, &path.child("secretRef"), &source["secretRef"], members);
    }
}

const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";

pub(super) fn quobyte(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let registry = text(&source["registry"]);
    if registry.is_empty() {
        errors.required(&path.child("registry"), REGISTRY);
    } else if text(&source["tenant"]).len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), detail);
    } else {
        for _ in registry.split(',').filter(|pair| !pair.contains(':')) {
            errors.invalid(&path.child("registry"), registry, REGISTRY);
        }
    }
    need(errors, path, source, &["volume"]);
}

pub(super) fn fibre_channel(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (names, ids) = (list(&source["targetWWNs"]), list(&source["wwids"]));
    let at = path.child("targetWWNs");
    match (names.is_empty(), ids.is_empty()) {
        (true, true) => errors.required(&at, "must specify either targetWWNs or wwids, but not both"),
        (false, false) => {
            errors.invalid(&at, names, "targetWWNs and wwids can not be specified simultaneously");
        }
        _ => {}
    }
    let lun = &source["lun"];
    if !names.is_empty() && lun.is_null() {
        errors.required(&path.child("lun"), "lun is required if targetWWNs is specified");
    } else if !names.is_empty() && !(0..=255).contains(&int(lun)) {
        errors.invalid(&path.child("lun"), lun, name::in_range(0, 255));
    }
}

pub(super) fn flex(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    need(errors, path, source, &["driver"]);
    let options = path.child("options");
    for key in source["options"].as_object().into_iter().flat_map(|options| options.keys()) {
        let domain = format!(".{}", key.split('/').next().unwrap_or(key).to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.invalid(&options.key(key), key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(super) fn azure_disk(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    need(errors, path, source, &["diskName", "diskURI"]);
    let modes = ["None", "ReadOnly", "ReadWrite"];
    given_one_of(errors, &path.child("cachingMode"), &source["cachingMode"], &modes);
    given_one_of(errors, &path.child("kind"), &source["kind"], &["Dedicated", "Managed", "Shared"]);
    let (managed, uri) = (source["kind"] == "Managed", text(&source["diskURI"]));
    let (start, form) = if managed {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !source["kind"].is_null() && !uri.starts_with(start) {
        errors.not_supported(&path.child("diskURI"), uri, &[form]);
    }
}

pub(super) fn storage_os(errors: &mut ErrorList, path: &Path<'_>, source: &Value, members: &[&str]) {
    required_grammar(errors, &path.child("volumeName"), &source["volumeName"], name::dns1123_label);
    let namespace = path.child("volumeNamespace");
    optional_grammar(errors, &namespace, &source["volumeNamespace"], name::dns1123_label);
    secret(errors, path, source, members);
}

/// Bytes of a driver's name.
const DRIVER_MAX: usize = 63;

/// Checks the name of a CSI driver.
pub(in crate::validate) fn driver_name(errors: &mut ErrorList, path: &Path<'_>, driver: &str) {
    if driver.is_empty() {
        errors.required(path, "");
        return;
    }
    if driver.len() > DRIVER_MAX {
        errors.too_long(path, DRIVER_MAX);
    }
    grammar(errors, path, driver, name::dns1123_subdomain(&driver.to_lowercase()));
}

/// Checks CSI as the source of a persistent volume.
pub(super) fn csi_volume(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    driver_name(errors, &path.child("driver"), text(&source["driver"]));
    need(errors, path, source, &["volumeHandle"]);
    let secrets = [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ];
    for member in secrets.into_iter().filter(|member| !source[*member].is_null()) {
        let (path, secret) = (path.child(member), &source[member]);
        required_grammar(errors, &path.child("name"), &secret["name"], name::dns1123_subdomain);
        required_grammar(errors, &path.child("namespace"), &secret["namespace"], name::dns1123_label);
    }
}
