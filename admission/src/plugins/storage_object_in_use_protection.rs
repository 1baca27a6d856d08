//! StorageObjectInUseProtection: new volumes, claims and classes of volume attributes get the finalizer that keeps
//! them while they are in use. The controller that removes it also adds it to objects without it.

use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
const OF_VOLUMES: &str = "kubernetes.io/pv-protection";
const OF_CLASSES: &str = "kubernetes.io/vac-protection";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("storage.k8s.io", "volumeattributesclasses"),
    ],
    mutates: &[Operation::Create],
    ..Row::new("StorageObjectInUseProtection", || Arc::new(StorageObjectInUseProtection))
};

struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Undecided> {
        let subject = review.subject;
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
