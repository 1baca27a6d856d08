//! Preparation of namespaces: the phase, and the finalizer that keeps a namespace until its contents are
//! deleted.

use crate::resource::copy;
use serde_json::{Value, json};

/// Finalizer in `spec.finalizers`; the namespace controller removes it when the namespace is empty.
const KUBERNETES: &str = "kubernetes";

/// Prepares a new namespace. Sets the name label again, since a generated name is known only now.
pub(crate) fn prepare_create(object: &mut Value) {
    let own = crate::meta::name(object).to_owned();
    if !own.is_empty() {
        crate::meta::set_label(object, "kubernetes.io/metadata.name", &own);
    }
    object["status"] = json!({"phase": "Active"});
    let finalizers = &mut object["spec"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(list) if !list.iter().any(|f| f == KUBERNETES) => list.push(KUBERNETES.into()),
        Some(_) => {}
        None => *finalizers = json!([KUBERNETES]),
    }
}

/// Keeps the spec's finalizers, which only `/finalize` changes.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    if !new["spec"].is_object() {
        new["spec"] = json!({});
    }
    copy(&mut new["spec"], &old["spec"], "finalizers");
}
