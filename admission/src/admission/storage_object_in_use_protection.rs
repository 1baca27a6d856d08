//! StorageObjectInUseProtection: new volumes, claims and classes of volume attributes get the finalizer that keeps
//! them while they are in use. The controller that removes it also adds it to objects without it.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::Value;

const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
const OF_VOLUMES: &str = "kubernetes.io/pv-protection";
const OF_CLASSES: &str = "kubernetes.io/vac-protection";

pub(super) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn mutate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        object: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if subject.operation != Operation::Create || !subject.subresource.is_empty() {
            return Ok(());
        }
        let own = match subject.resource.plural {
            "persistentvolumeclaims" => OF_CLAIMS,
            "volumeattributesclasses" => OF_CLASSES,
            _ => OF_VOLUMES,
        };
        let mut finalizers: Vec<String> = meta::finalizers(object).map(str::to_owned).collect();
        if !finalizers.iter().any(|name| name == own) {
            finalizers.push(own.to_owned());
            meta::set_finalizers(object, finalizers.iter().map(String::as_str));
        }
        Ok(())
    }
}
