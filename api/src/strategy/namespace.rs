//! Namespaces: their phase, and the finalizer that keeps them until their contents are gone.

use serde_json::{Value, json};

use super::copy;

/// The finalizer in `spec.finalizers` which the namespace controller removes when nothing is left.
const KUBERNETES: &str = "kubernetes";

/// A name that was generated is known only now, so the label that follows from it is set again.
pub(super) fn prepare_create(object: &mut Value) {
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

/// The finalizers of the spec move only through `/finalize`.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    if !new["spec"].is_object() {
        new["spec"] = json!({});
    }
    copy(&mut new["spec"], &old["spec"], "finalizers");
}
