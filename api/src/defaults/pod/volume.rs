//! Defaults of a pod's volumes.
//!
//! Follows `SetDefaults_Volume`.

use super::{field_ref, pull_policy};
use crate::defaults::{default, default_nonzero, items, make, member};
use serde_json::{Value, json};

/// Default mode of files made from objects: 0644.
const FILE_MODE: i64 = 0o644;

pub(super) fn volume(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|v| v.iter().any(|(k, v)| k != "name" && !v.is_null()));
    if !has_source {
        default(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = member(volume, source) {
            default(source, "defaultMode", FILE_MODE);
            items(source, "items").for_each(field_ref);
            items(source, "sources").for_each(projection);
        }
    }
    if let Some(path) = member(volume, "hostPath") {
        default(path, "type", "");
    }
    if let Some(ephemeral) = member(volume, "ephemeral")
        && let Some(template) = member(ephemeral, "volumeClaimTemplate")
    {
        default(make(template, "spec"), "volumeMode", "Filesystem");
    }
    if let Some(image) = member(volume, "image") {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        default(image, "pullPolicy", policy);
    }
    legacy(volume);
}

fn projection(source: &mut Value) {
    if let Some(token) = member(source, "serviceAccountToken") {
        default_nonzero(token, "expirationSeconds", 3600);
    }
    if let Some(api) = member(source, "downwardAPI") {
        items(api, "items").for_each(field_ref);
    }
}

/// Sets the defaults that pods and persistent volumes share for their volume sources.
pub(in crate::defaults) fn legacy(volume: &mut Value) {
    let table: &[(&str, &[(&str, &str)])] = &[
        ("iscsi", &[("iscsiInterface", "default")]),
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("azureDisk", &[("cachingMode", "ReadWrite"), ("kind", "Shared"), ("fsType", "ext4")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ];
    for (source, defaults) in table {
        if let Some(source) = member(volume, source) {
            for (name, value) in *defaults {
                default(source, name, *value);
            }
        }
    }
    if let Some(disk) = member(volume, "azureDisk") {
        default(disk, "readOnly", false);
    }
}
