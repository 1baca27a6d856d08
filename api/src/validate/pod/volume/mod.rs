//! Validation of a pod's volumes: names, and exactly one source each.
//!
//! Follows `ValidateVolumes` and `validateVolumeSource`.

mod file;
mod projected;
mod remote;
pub(in crate::validate) mod source;

use super::Owner;
use crate::check::{grammar, required, required_grammar};
use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::{meta, name};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Valid volumes by name, for the checks of mounts.
pub(super) type Volumes<'v> = BTreeMap<&'v str, &'v Value>;

/// Checks all volumes and returns those that mounts may use.
pub(super) fn volumes<'v>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &'v Value,
    owner: Owner<'v>,
) -> Volumes<'v> {
    let (path, mut known) = (path.child("volumes"), Volumes::new());
    let (pod, templates) = match owner {
        Owner::Pod(pod) => (Some(meta::name(pod)), &[][..]),
        Owner::Template { claims } => (None, claims),
    };
    from_templates(errors, &path, templates, &mut known);
    let hidden: BTreeSet<&str> = templates.iter().map(meta::name).collect();
    let claims = claims_of(pod.unwrap_or_default(), list(&spec["volumes"]));
    let own = list(&spec["volumes"]).iter().filter(|volume| !hidden.contains(text(&volume["name"])));
    for (i, volume) in own.enumerate() {
        let (path, before, own) = (path.index(hidden.len() + i), errors.len(), text(&volume["name"]));
        source::only_one(errors, &path, volume, source::OF_PODS);
        beside_source(errors, &path, volume, pod);
        required_grammar(errors, &path.child("name"), &volume["name"], name::dns1123_label);
        if known.contains_key(own) {
            errors.duplicate(&path.child("name"), own);
        }
        if errors.len() == before {
            known.insert(own, volume);
        }
        let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
        if claims.contains(claim) {
            let path = path.child("persistentVolumeClaim.claimName");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&path, claim, detail);
        }
    }
    known
}

/// The volume that a claim template becomes, as far as mount checks need it.
static CLAIMED: LazyLock<Value> = LazyLock::new(|| json!({"persistentVolumeClaim": {}}));

/// Adds claim templates as volumes. They come first and hide volumes of the same name. Templates of one name are one volume, as in
/// `updateStorage` of Kubernetes' controller.
fn from_templates<'v>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    templates: &'v [Value],
    known: &mut Volumes<'v>,
) {
    for template in templates {
        let (path, own) = (path.index(known.len()), &template["metadata"]["name"]);
        if known.insert(text(own), &CLAIMED).is_none() {
            required(errors, &path.child("persistentVolumeClaim.claimName"), own);
            required_grammar(errors, &path.child("name"), own, name::dns1123_label);
        }
    }
}

/// Names of the claims that ephemeral volumes will create.
fn claims_of(pod: &str, volumes: &[Value]) -> BTreeSet<String> {
    let made = |volume: &&Value| !pod.is_empty() && !volume["ephemeral"].is_null();
    volumes.iter().filter(made).map(|volume| format!("{pod}-{}", text(&volume["name"]))).collect()
}

/// Bytes of a volume's name and its iSCSI portal together, if an initiator is set.
const PORTAL_MAX: usize = 64;

/// Checks that a volume fits its source.
fn beside_source(errors: &mut ErrorList, path: &Path<'_>, volume: &Value, pod: Option<&str>) {
    let own = text(&volume["name"]);
    let iscsi = &volume["iscsi"];
    if !iscsi["initiatorName"].is_null() && own.len() + 1 + text(&iscsi["targetPortal"]).len() > PORTAL_MAX {
        errors.invalid(&path.child("name"), own, source::PORTAL_TOO_LONG);
    }
    if pod.is_some() && !volume["image"].is_null() {
        required(errors, &path.child("image.reference"), &volume["image"]["reference"]);
    }
    let pod = pod.unwrap_or_default();
    if !volume["ephemeral"].is_null() && !pod.is_empty() && !own.is_empty() {
        let claim = format!("{pod}-{own}");
        let faults = name::dns1123_subdomain(&claim);
        let faults = faults.into_iter().map(|fault| format!("PVC name {claim:?}: {fault}")).collect();
        grammar(errors, &path.child("name"), own, faults);
    }
}
