//! Warnings for volumes and claims.
//!
//! Follows `GetWarningsForPersistentVolume` and `GetWarningsForPersistentVolumeClaim`.

use super::{fraction, node_terms};
use crate::field::Path;
use crate::meta;
use crate::object::{list, text};
use crate::resource::Warnings;
use serde_json::Value;

/// Volume sources that no version serves any more: member, name in messages, and message.
const OLD: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn warn_old_sources(path: &Path<'_>, volume: &Value, silent: &[&str], warnings: &mut Warnings) {
    for (member, shown, said) in OLD {
        if !volume[member].is_null() && !silent.contains(&member) {
            warnings.push(format!("{}: {said}", path.child(shown)));
        }
    }
}

pub(super) fn of_pod(path: &Path<'_>, spec: &Value, warnings: &mut Warnings) {
    let path = path.child("volumes");
    for (i, volume) in list(&spec["volumes"]).iter().enumerate() {
        let path = path.index(i);
        warn_old_sources(&path, volume, &[], warnings);
        let has_no_member = |source: &&Value| source.as_object().is_none_or(serde_json::Map::is_empty);
        for _ in list(&volume["projected"]["sources"]).iter().filter(has_no_member) {
            let own = text(&volume["name"]);
            warnings.push(format!("volume {own:?} (Projected) has no sources provided"));
        }
        let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        claim_spec(&path.child("ephemeral.volumeClaimTemplate.spec"), claim, warnings);
    }
}

pub(crate) fn volume(object: &Value, warnings: &mut Warnings) {
    let (path, spec) = (Path::new("spec"), &object["spec"]);
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let terms = path.child("nodeAffinity.required.nodeSelectorTerms");
    for (i, term) in list(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"]).iter().enumerate() {
        node_terms(&terms.index(i), term, false, warnings);
    }
    warn_old_sources(&path, spec, &SILENT_IN_VOLUMES, warnings);
}

/// Old sources of pods' volumes that persistent volumes may name without a warning.
const SILENT_IN_VOLUMES: [&str; 2] = ["flocker", "quobyte"];

const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) fn claim(object: &Value, warnings: &mut Warnings) {
    if meta::annotation(object, OLD_CLASS).is_some() {
        warnings.push(format!(
            "metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    claim_spec(&Path::new("spec"), &object["spec"], warnings);
}

pub(super) fn claim_spec(path: &Path<'_>, spec: &Value, warnings: &mut Warnings) {
    let path = path.child("resources");
    for side in ["requests", "limits"] {
        fraction(&path.child(side), &spec["resources"][side], "storage", warnings);
    }
}
