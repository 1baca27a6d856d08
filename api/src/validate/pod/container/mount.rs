//! Validation of volume mounts and volume devices of a container.
//!
//! Follows `ValidateVolumeMounts` and `ValidateVolumeDevices`.

use crate::check::relative;
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::validate::pod::volume::Volumes;
use serde_json::Value;
use std::collections::BTreeSet;

fn texts<'v>(items: &'v Value, member: &str) -> BTreeSet<&'v str> {
    list(items).iter().map(|item| text(&item[member])).collect()
}

/// Checks volume mounts. Some messages have the path of the list instead of the item, as in Kubernetes.
pub(super) fn mounts(errors: &mut ErrorList, all: &Path<'_>, container: &Value, volumes: &Volumes<'_>) {
    let devices = &container["volumeDevices"];
    let (device_names, device_paths) = (texts(devices, "name"), texts(devices, "devicePath"));
    let mut targets = BTreeSet::new();
    for (i, mount) in list(&container["volumeMounts"]).iter().enumerate() {
        let (path, own, target) = (all.index(i), text(&mount["name"]), text(&mount["mountPath"]));
        let (name_path, target_path) = (path.child("name"), path.child("mountPath"));
        if own.is_empty() {
            errors.required(&name_path, "");
        }
        if !volumes.contains_key(own) {
            errors.not_found(&name_path, own);
        }
        if target.is_empty() {
            errors.required(&target_path, "");
        }
        if !targets.insert(target) {
            errors.invalid(&target_path, target, "must be unique");
        }
        if device_names.contains(own) {
            errors.invalid(&name_path, own, "must not already exist in volumeDevices");
        }
        if device_paths.contains(target) {
            errors.invalid(&target_path, target, "must not already exist as a path in volumeDevices");
        }
        sub_paths(errors, all, &path, mount);
        propagation(errors, &all.child("mountPropagation"), mount, container);
        recursive(errors, &all.child("recursiveReadOnly"), mount);
    }
}

fn sub_paths(errors: &mut ErrorList, all: &Path<'_>, path: &Path<'_>, mount: &Value) {
    let (fixed, expanded) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
    relative(errors, &all.child("subPath"), fixed);
    if !expanded.is_empty() && !fixed.is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        errors.invalid(&path.child("subPathExpr"), expanded, detail);
    }
    relative(errors, &all.child("subPathExpr"), expanded);
}

fn propagation(errors: &mut ErrorList, path: &Path<'_>, mount: &Value, container: &Value) {
    let modes = ["Bidirectional", "HostToContainer", "None"];
    let Some(mode) = mount["mountPropagation"].as_str() else { return };
    if !modes.contains(&mode) {
        errors.not_supported(path, mode, &modes);
    }
    if mode == "Bidirectional" && container["securityContext"]["privileged"] != true {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(path, detail);
    }
}

fn recursive(errors: &mut ErrorList, path: &Path<'_>, mount: &Value) {
    match mount["recursiveReadOnly"].as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if !mount["mountPropagation"].is_null() && mount["mountPropagation"] != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(path, detail);
            }
        }
        Some(other) => errors.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// Checks volume devices, which must be claims.
pub(super) fn devices(errors: &mut ErrorList, all: &Path<'_>, container: &Value, volumes: &Volumes<'_>) {
    let mounts = &container["volumeMounts"];
    let (mount_names, mount_paths) = (texts(mounts, "name"), texts(mounts, "mountPath"));
    let (mut names, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in list(&container["volumeDevices"]).iter().enumerate() {
        let (path, own, target) = (all.index(i), text(&device["name"]), text(&device["devicePath"]));
        let (name_path, target_path) = (path.child("name"), path.child("devicePath"));
        if own.is_empty() {
            errors.required(&name_path, "");
        } else if !names.insert(own) {
            errors.invalid(&name_path, own, "must be unique");
        }
        match volumes.get(own) {
            None => errors.not_found(&name_path, own),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name_path, own, detail);
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.required(&target_path, "");
        }
        if target.split('/').any(|part| part == "..") {
            errors.invalid(&target_path, target, "can not contain backsteps ('..')");
        } else if !targets.insert(target) {
            errors.invalid(&target_path, target, "must be unique");
        }
        if mount_names.contains(own) {
            errors.invalid(&name_path, own, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(target) {
            errors.invalid(&target_path, target, "must not already exist as a path in volumeMounts");
        }
    }
}
