//! PersistentVolumeClaimResize: a claim may grow only if it is bound and its StorageClass allows expansion.
//! Validation refuses shrinking.

use super::row;
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::object::text;
use kstore_api::quantity::Quantity;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The deprecated annotation that names a class.
const OLD_NAME: &str = "volume.beta.kubernetes.io/storage-class";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "persistentvolumeclaims")],
    validates: &[Operation::Update],
    ..Row::new("PersistentVolumeClaimResize", || Arc::new(PersistentVolumeClaimResize))
};

struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, old, .. } = *review;
        let (Some(new), Some(old)) = (new, old) else { return Ok(()) };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old["status"]["phase"] != "Bound" {
            return subject.refuse("Only bound persistent volume claims can be expanded");
        }
        let name = class_name(new);
        let grows = !name.is_empty()
            && name == class_name(old)
            && cluster
                .get(row("storage.k8s.io", "v1", "storageclasses"), "", name)
                .is_some_and(|class| class["allowVolumeExpansion"] == true);
        if grows {
            return Ok(());
        }
        subject.refuse(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        )
    }
}

fn size(claim: &Value) -> Quantity {
    let amount = text(&claim["spec"]["resources"]["requests"]["storage"]);
    Quantity::parse(amount).unwrap_or(Quantity::ZERO)
}

fn class_name(claim: &Value) -> &str {
    meta::annotation(claim, OLD_NAME).unwrap_or_else(|| text(&claim["spec"]["storageClassName"]))
}
