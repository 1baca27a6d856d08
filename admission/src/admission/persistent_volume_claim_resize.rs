//! PersistentVolumeClaimResize: a claim may grow only if it is bound and its StorageClass allows expansion.
//! Validation refuses shrinking.

use super::{Operation, Plugin, Subject, row};
use crate::admission::Cluster;
use kstore_api::meta;
use kstore_api::object::text;
use kstore_api::quantity::Quantity;
use kstore_api::status::Status;
use serde_json::Value;

/// The deprecated annotation that names a class.
const OLD_NAME: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn validate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (Operation::Update, "", Some(new), Some(old)) =
            (subject.operation, subject.subresource, new, old)
        else {
            return Ok(());
        };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old["status"]["phase"] != "Bound" {
            return Err(subject.forbidden("Only bound persistent volume claims can be expanded"));
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
        Err(subject.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ))
    }
}

fn size(claim: &Value) -> Quantity {
    let amount = text(&claim["spec"]["resources"]["requests"]["storage"]);
    Quantity::parse(amount).unwrap_or(Quantity::ZERO)
}

fn class_name(claim: &Value) -> &str {
    meta::annotation(claim, OLD_NAME).unwrap_or_else(|| text(&claim["spec"]["storageClassName"]))
}
