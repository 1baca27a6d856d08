//! Schemas of a document: those of the resources, of their lists, and all that they refer to.

use super::descriptions::Descriptions;
use super::{GroupVersion, ResourceDoc, common, model, reference};
use crate::version::Minor;
use serde_json::{Map, Value, json};

/// Names of the schemas that resources and their operations use, except those of lists. Names may repeat.
pub(super) fn roots(resources: &[ResourceDoc]) -> Vec<&str> {
    let mut names: Vec<&str> = common::of(resources).collect();
    for resource in resources {
        names.push(&resource.schema_name);
        names.extend(resource.subresources.iter().filter_map(|sub| sub.schema_name.as_deref()));
    }
    names
}

/// Schemas of these resources' lists.
pub(super) fn lists(gv: &GroupVersion, resources: &[ResourceDoc]) -> Map<String, Value> {
    let listed = resources.iter().filter(|resource| resource.can("list"));
    listed.map(|resource| (resource.list_schema_name.clone(), list(gv, resource))).collect()
}

/// Schema of the elements of a list.
fn items(resource: &ResourceDoc) -> Value {
    let element = reference(&resource.schema_name);
    match model::has_element_defaults(resource.minor) {
        true => json!({"allOf": [element], "default": {}}),
        false => element,
    }
}

/// The named schemas of a version of Kubernetes, and all that they refer to. Names without a type are left out.
pub(super) fn named<'a>(minor: Minor, names: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
    let mut descriptions = Descriptions::default();
    let mut wanted: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let mut out = Map::new();
    while let Some(name) = wanted.pop() {
        if !out.contains_key(&name)
            && let Some(model) = model::named(minor, &name, &mut descriptions, &mut |name| wanted.push(name))
        {
            out.insert(name, model);
        }
    }
    out
}

fn list(gv: &GroupVersion, resource: &ResourceDoc) -> Value {
    let kind = &resource.kind;
    json!({
        "description": format!("{kind}List is a list of {kind} objects."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this list."},
            "kind": {"type": "string", "description": "Kind of this list."},
            "metadata": {
                "allOf": [reference(common::LIST_META)],
                "default": {},
                "description": "Metadata of the list.",
            },
            "items": {
                "type": "array",
                "description": "The objects, in the order of their keys.",
                "items": items(resource),
            },
        },
        "x-kubernetes-group-version-kind": gvk_list(gv, &format!("{kind}List")),
    })
}

fn gvk_list(gv: &GroupVersion, kind: &str) -> Value {
    json!([{"group": gv.group, "version": gv.version, "kind": kind}])
}
