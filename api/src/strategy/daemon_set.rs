//! Preparation of daemon sets: the generation of the template, an annotation in apps/v1.

use serde_json::Value;

use crate::meta;
use crate::object::semantically_equal;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(crate) fn prepare_create(object: &mut Value) {
    meta::set_annotation(object, TEMPLATE_GENERATION, "1");
}

/// Sets the annotation to the stored generation, plus one if the template changed. The client's value is
/// ignored.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    let stored = meta::annotation(old, TEMPLATE_GENERATION).and_then(|text| text.parse::<i64>().ok());
    let moved = !semantically_equal(&new["spec"]["template"], &old["spec"]["template"]);
    let next = stored.unwrap_or(1).saturating_add(i64::from(moved));
    meta::set_annotation(new, TEMPLATE_GENERATION, &next.to_string());
}
