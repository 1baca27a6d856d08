//! DefaultStorageClass: a claim without a class gets the default one: the newest, or the first by name among
//! equally new ones.

use super::row;
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::sync::Arc;

const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The deprecated annotation that names a class.
const OLD_NAME: &str = "volume.beta.kubernetes.io/storage-class";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "persistentvolumeclaims")],
    mutates: &[Operation::Create],
    ..Row::new("DefaultStorageClass", || Arc::new(DefaultStorageClass))
};

struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn mutate(&self, review: &Review<'_>, claim: &mut Value) -> Result<(), Undecided> {
        // The empty string explicitly selects no class.
        if !claim["spec"].is_object()
            || claim["spec"]["storageClassName"].is_string()
            || meta::annotation(claim, OLD_NAME).is_some()
        {
            return Ok(());
        }
        let is_default =
            |class: &Value| DEFAULT.iter().any(|key| meta::annotation(class, key) == Some("true"));
        let classes = review.cluster.list(row("storage.k8s.io", "v1", "storageclasses"), "");
        // The list is in name order, and the first of equals is taken.
        let newest =
            classes.iter().filter(|c| is_default(c)).min_by_key(|c| Reverse(meta::creation_timestamp(c)));
        if let Some(class) = newest {
            claim["spec"]["storageClassName"] = json!(meta::name(class));
        }
        Ok(())
    }
}
