//! Tables of volume sources for pods and persistent volumes, in the order of validation. Files beside this
//! one check the single source types.
//!
//! Follows `validateVolumeSource`.

use super::{file, projected, remote};
use crate::check::{given_one_of, need, no_parent_references, quantity, relative, required_grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::text;
use crate::validate::claim;
use crate::validate::pod::container::pull_policy;
use serde_json::Value;

/// Volume source: its member, its names in messages, and its check.
pub(in crate::validate) struct Source {
    member: &'static str,
    /// Name of the member in messages that refuse it; Kubernetes sometimes spells it differently.
    refused: &'static str,
    /// Name of the member in messages about its content.
    judged: &'static str,
    /// Check of the member's content.
    rule: fn(&mut ErrorList, &Path<'_>, &Value),
}

const fn from(member: &'static str, rule: fn(&mut ErrorList, &Path<'_>, &Value)) -> Source {
    Source { member, refused: member, judged: member, rule }
}

/// Sources of pod volumes.
pub(in crate::validate) const OF_PODS: &[Source] = &[
    from("emptyDir", empty_dir),
    from("hostPath", host_path),
    from("gitRepo", git_repo),
    Source {
        member: "gcePersistentDisk",
        refused: "gcePersistentDisk",
        judged: "persistentDisk",
        rule: |errors, path, source| remote::disk(errors, path, source, "pdName"),
    },
    from("awsElasticBlockStore", |errors, path, source| remote::disk(errors, path, source, "volumeID")),
    from("secret", |errors, path, source| file::keys(errors, path, source, "secretName")),
    from("nfs", remote::nfs),
    from("iscsi", remote::iscsi),
    from("glusterfs", |errors, path, source| need(errors, path, source, &["endpoints", "path"])),
    from("flocker", remote::flocker),
    from("persistentVolumeClaim", |errors, path, source| need(errors, path, source, &["claimName"])),
    from("rbd", remote::rbd),
    from("cinder", |errors, path, source| {
        need(errors, path, source, &["volumeID"]);
        remote::secret(errors, path, source, &["name"]);
    }),
    Source { member: "cephfs", refused: "cephFS", judged: "cephfs", rule: remote::monitors },
    from("quobyte", remote::quobyte),
    Source { member: "downwardAPI", refused: "downwarAPI", judged: "downwardAPI", rule: file::downward },
    from("fc", remote::fibre_channel),
    from("flexVolume", remote::flex),
    from("configMap", |errors, path, source| file::keys(errors, path, source, "name")),
    from("azureFile", |errors, path, source| need(errors, path, source, &["secretName", "shareName"])),
    from("vsphereVolume", |errors, path, source| need(errors, path, source, &["volumePath"])),
    from("photonPersistentDisk", |errors, path, source| need(errors, path, source, &["pdID"])),
    from("portworxVolume", |errors, path, source| need(errors, path, source, &["volumeID"])),
    from("azureDisk", remote::azure_disk),
    from("storageos", |errors, path, source| remote::storage_os(errors, path, source, &["name"])),
    from("projected", projected::projected),
    from("scaleIO", |errors, path, source| need(errors, path, source, &["gateway", "system", "volumeName"])),
    from("csi", csi),
    from("ephemeral", ephemeral),
    from("image", image),
];

/// Sources of persistent volumes.
pub(in crate::validate) const OF_VOLUMES: &[Source] = &[
    from("hostPath", host_path),
    Source {
        member: "gcePersistentDisk",
        refused: "gcePersistentDisk",
        judged: "persistentDisk",
        rule: |errors, path, source| remote::disk(errors, path, source, "pdName"),
    },
    from("awsElasticBlockStore", |errors, path, source| remote::disk(errors, path, source, "volumeID")),
    from("glusterfs", remote::glusterfs_volume),
    from("flocker", remote::flocker),
    from("nfs", remote::nfs),
    from("rbd", remote::rbd),
    from("quobyte", remote::quobyte),
    Source { member: "cephfs", refused: "cephFS", judged: "cephfs", rule: remote::monitors },
    from("iscsi", |errors, path, source| {
        remote::iscsi(errors, path, source);
        if !source["secretRef"].is_null() {
            need(errors, &path.child("secretRef"), &source["secretRef"], &["name"]);
        }
    }),
    from("cinder", |errors, path, source| {
        need(errors, path, source, &["volumeID"]);
        remote::secret(errors, path, source, &["name", "namespace"]);
    }),
    from("fc", remote::fibre_channel),
    from("flexVolume", remote::flex),
    from("azureFile", |errors, path, source| {
        need(errors, path, source, &["secretName", "shareName"]);
        if source["secretNamespace"] == "" {
            errors.required(&path.child("secretNamespace"), "");
        }
    }),
    from("vsphereVolume", |errors, path, source| need(errors, path, source, &["volumePath"])),
    from("photonPersistentDisk", |errors, path, source| need(errors, path, source, &["pdID"])),
    from("portworxVolume", |errors, path, source| need(errors, path, source, &["volumeID"])),
    from("azureDisk", remote::azure_disk),
    from("scaleIO", |errors, path, source| need(errors, path, source, &["gateway", "system", "volumeName"])),
    from("local", |errors, path, source| match text(&source["path"]) {
        "" => errors.required(&path.child("path"), ""),
        file => no_parent_references(errors, &path.child("path"), file),
    }),
    from("storageos", |errors, path, source| {
        remote::storage_os(errors, path, source, &["name", "namespace"]);
    }),
    from("csi", remote::csi_volume),
];

/// Message for a name that is too long for iSCSI.
pub(in crate::validate) const PORTAL_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// Checks that exactly one source is set and valid. Further sources are refused without checking their
/// contents.
pub(in crate::validate) fn only_one(
    errors: &mut ErrorList,
    path: &Path<'_>,
    volume: &Value,
    sources: &[Source],
) {
    let mut found = false;
    for source in sources.iter().filter(|source| !volume[source.member].is_null()) {
        if std::mem::replace(&mut found, true) {
            errors.forbidden(&path.child(source.refused), "may not specify more than 1 volume type");
        } else {
            (source.rule)(errors, &path.child(source.judged), &volume[source.member]);
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

/// Whether a member of a persistent volume's spec is a volume source.
pub(in crate::validate) fn is_source_member(member: &str) -> bool {
    OF_VOLUMES.iter().any(|source| source.member == member)
}

fn empty_dir(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if quantity(&source["sizeLimit"]).is_some_and(crate::quantity::Quantity::is_negative) {
        errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

fn host_path(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let file = text(&source["path"]);
    if file.is_empty() {
        errors.required(&path.child("path"), "");
        return;
    }
    no_parent_references(errors, &path.child("path"), file);
    given_one_of(errors, &path.child("type"), &source["type"], &HOST_PATH_TYPES);
}

fn git_repo(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    need(errors, path, source, &["repository"]);
    relative(errors, &path.child("directory"), text(&source["directory"]));
}

fn csi(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    remote::driver_name(errors, &path.child("driver"), text(&source["driver"]));
    let secret = &source["nodePublishSecretRef"];
    if secret.is_null() {
        return;
    }
    match text(&secret["name"]) {
        "" => errors.required(&path.child("nodePublishSecretRef.name"), ""),
        _ => required_grammar(errors, &path.child("name"), &secret["name"], name::dns1123_subdomain),
    }
}

fn ephemeral(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (path, template) = (path.child("volumeClaimTemplate"), &source["volumeClaimTemplate"]);
    if template.is_null() {
        errors.required(&path, "");
    } else {
        claim::template(errors, &path, template);
    }
}

fn image(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    pull_policy(errors, &path.child("pullPolicy"), &source["pullPolicy"]);
}
