//! Restricted: volumes must be of the types that need no access to the node.

use super::{Control, Pod, Revision, Violation, host_path_volumes, plural, quoted, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::{list, text};
use std::collections::BTreeSet;

pub(super) const CONTROL: Control = Control {
    id: "restrictedVolumes",
    level: Level::Restricted,
    revisions: &[Revision::replacing(0, check, host_path_volumes::ID)],
};

const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const OTHERS: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let (mut bad, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in list(&pod.spec["volumes"]) {
        let is_of = |kind: &&&str| !volume[**kind].is_null();
        if ALLOWED.iter().find(is_of).is_none() {
            bad.push(text(&volume["name"]));
            kinds.insert(OTHERS.iter().find(is_of).copied().unwrap_or("unknown"));
        }
    }
    if bad.is_empty() {
        return None;
    }
    let (noun, verb) = (plural("volume", "volumes", bad.len()), plural("uses", "use", bad.len()));
    let object = plural("restricted volume type", "restricted volume types", kinds.len());
    let detail = format!("{noun} {} {verb} {object} {}", quoted(bad), quoted(kinds));
    violation("restricted volume types", detail)
}
