//! Increments of `metadata.generation` by the rule of each kind.

use crate::meta;
use crate::object::semantically_equal;
use crate::resource::{GenerationRule, Resource};
use serde_json::Value;

/// Sets the generation of a new object.
pub(super) fn first(resource: &Resource, object: &mut Value) {
    let starts = !matches!(resource.generation, GenerationRule::None | GenerationRule::SpecFromZero);
    meta::set_generation(object, i64::from(starts));
}

/// Sets the generation of an update: the stored one, plus one if the rule's fields changed.
pub(super) fn next(resource: &Resource, new: &mut Value, old: &Value) {
    let moved = changed(resource.generation, new, old);
    meta::set_generation(new, meta::generation(old).saturating_add(i64::from(moved)));
}

fn changed(rule: GenerationRule, new: &Value, old: &Value) -> bool {
    let differs = |member: &str| !semantically_equal(&new[member], &old[member]);
    let metadata_differs =
        |member: &str| !semantically_equal(&new["metadata"][member], &old["metadata"][member]);
    match rule {
        GenerationRule::None | GenerationRule::Fixed => false,
        GenerationRule::Spec | GenerationRule::SpecFromZero => differs("spec"),
        GenerationRule::SpecOrAnnotations => differs("spec") || metadata_differs("annotations"),
        GenerationRule::Webhooks => differs("webhooks"),
        GenerationRule::Template => differs("template"),
        GenerationRule::ContentOrLabels => content_differs(new, old, &[]) || metadata_differs("labels"),
        GenerationRule::Content => content_differs(new, old, &[]),
        GenerationRule::ContentButStatus => content_differs(new, old, &["status"]),
    }
}

/// Whether members other than metadata and the type differ.
fn content_differs(new: &Value, old: &Value, except: &[&str]) -> bool {
    let names = new.as_object().into_iter().chain(old.as_object()).flat_map(|members| members.keys());
    names
        .filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
        .filter(|name| !except.contains(&name.as_str()))
        .any(|name| !semantically_equal(&new[name], &old[name]))
}
