//! What the system, not the author, decides about a definition: defaults, status, generation and stored versions.

use serde_json::Value;

/// Fills in the defaults of a definition. Idempotent.
pub fn set_defaults(crd: &mut Value) {
    let _ = crd;
    todo!()
}

/// Prepares a definition for its creation: no conditions, empty accepted names, generation 1, the storage version stored.
pub fn prepare_create(crd: &mut Value) {
    let _ = crd;
    todo!()
}

/// Prepares a successor written through the object's own path: the status is the old one, the generation follows the spec, the storage
/// version is among the stored ones.
pub fn prepare_update(new: &mut Value, old: &Value) {
    let _ = (new, old);
    todo!()
}

/// Prepares a successor written through `/status`: the spec is the old one, and so is metadata but labels, annotations, finalizers,
/// owner references and managed fields.
pub fn prepare_status_update(new: &mut Value, old: &Value) {
    let _ = (new, old);
    todo!()
}

/// Warnings for the author: formats that no type knows. On update only those that `old` did not have.
#[must_use]
pub fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let _ = (new, old);
    todo!()
}
