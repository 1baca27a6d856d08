//! A volume claim that names no class gets the default one: of several the newest, then the first by name.

use super::{Operation, Plugin, Subject, row};
use crate::lookup::Lookup;
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::cmp::Reverse;

const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The old way of naming a class.
const OLD_NAME: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn mutate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        claim: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if !subject.is("", "persistentvolumeclaims") || subject.operation != Operation::Create {
            return Ok(());
        }
        // The empty string is a choice: no class.
        if !claim["spec"].is_object()
            || claim["spec"]["storageClassName"].is_string()
            || meta::annotation(claim, OLD_NAME).is_some()
        {
            return Ok(());
        }
        let is_default =
            |class: &Value| DEFAULT.iter().any(|key| meta::annotation(class, key) == Some("true"));
        let classes = cluster.list(row("storage.k8s.io", "v1", "storageclasses"), "");
        // In name order already, and the first of equals is taken.
        let newest =
            classes.iter().filter(|c| is_default(c)).min_by_key(|c| Reverse(meta::creation_timestamp(c)));
        if let Some(class) = newest {
            claim["spec"]["storageClassName"] = json!(meta::name(class));
        }
        Ok(())
    }
}
