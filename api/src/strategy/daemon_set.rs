//! Preparation of daemon sets: the generation of the template, an annotation in apps/v1 and a member of the specification inside
//! Kubernetes.

use crate::meta;
use crate::object::semantically_equal;
use crate::schema::decode::TEMPLATE_GENERATION;
use serde_json::Value;

/// Keeps the generation that the client states, which decoding has checked; it is at least one.
pub(crate) fn prepare_create(object: &mut Value) {
    let generation = stated(object).unwrap_or_default().max(1);
    meta::set_annotation(object, TEMPLATE_GENERATION, &generation.to_string());
}

/// Sets the annotation to the stored generation, plus one if the template changed. The client's value is
/// ignored.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    let moved = !semantically_equal(&new["spec"]["template"], &old["spec"]["template"]);
    let next = stated(old).unwrap_or(1).saturating_add(i64::from(moved));
    meta::set_annotation(new, TEMPLATE_GENERATION, &next.to_string());
}

fn stated(object: &Value) -> Option<i64> {
    meta::annotation(object, TEMPLATE_GENERATION).and_then(|text| text.parse().ok())
}
