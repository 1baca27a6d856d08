//! Defaults of volumes, claims, storage classes and CSI drivers.
//!
//! Follows `SetDefaults_PersistentVolume`, `SetDefaults_StorageClass` and `SetDefaults_CSIDriver`.

use super::{default, make, pod};
use serde_json::{Value, json};

pub(crate) fn volume(object: &mut Value) {
    default(make(object, "status"), "phase", "Pending");
    let spec = make(object, "spec");
    default(spec, "persistentVolumeReclaimPolicy", "Retain");
    default(spec, "volumeMode", "Filesystem");
    if let Some(path) = super::member(spec, "hostPath") {
        default(path, "type", "");
    }
    pod::volume::legacy(spec);
}

pub(crate) fn claim(object: &mut Value) {
    default(make(object, "status"), "phase", "Pending");
    default(make(object, "spec"), "volumeMode", "Filesystem");
}

pub(crate) fn class(object: &mut Value) {
    default(object, "reclaimPolicy", "Delete");
    default(object, "volumeBindingMode", "Immediate");
}

pub(crate) fn driver(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "attachRequired", true);
    for off in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default(spec, off, false);
    }
    default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}
