//! The schemas of a document: those of `k8s-openapi`, with what Kubernetes adds to them.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{GroupVersion, ResourceDoc, common, reference, roots};
use crate::schema::{self, Field, ListType, Type};

/// All schemas that the resources and their operations use, by name.
pub(super) fn schemas(gv: &GroupVersion, resources: &[ResourceDoc]) -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let bodies =
        resources.iter().flat_map(|r| r.subresources.iter().filter_map(|s| s.schema_name.as_deref()));
    let used = resources.iter().map(|r| r.schema_name.as_str()).chain(bodies);
    for name in used.chain([
        common::DELETE_OPTIONS,
        common::LIST_META,
        common::OBJECT_META,
        common::PATCH,
        common::STATUS,
    ]) {
        roots::add(&mut generator, name);
    }
    let mut out: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    for (name, definition) in &mut out {
        special(name, definition);
        if let Some(ty) = schema::lookup(name) {
            enrich(definition, ty);
        }
    }
    for resource in resources {
        if let Some(custom) = &resource.custom {
            out.insert(resource.schema_name.clone(), own(gv, &resource.kind, custom.clone()));
        }
        if resource.verbs.iter().any(|v| v == "list") {
            out.insert(format!("{}List", resource.schema_name), list(gv, resource));
        }
    }
    out
}

/// Types whose JSON form has several types.
fn special(name: &str, definition: &mut Value) {
    let alternatives = match name.rsplit('.').next().unwrap_or_default() {
        "IntOrString" => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        "Quantity" => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        "JSON" => json!({}),
        _ => return,
    };
    let description = definition.get("description").cloned();
    *definition = alternatives;
    if let Some(description) = description {
        definition["description"] = description;
    }
}

/// Adds what the field table knows: group, version and kind, required members, list and patch facts.
fn enrich(definition: &mut Value, ty: &'static Type) {
    if ty.has_kind {
        let package = ty.package;
        definition["x-kubernetes-group-version-kind"] =
            json!([{"group": package.group, "version": package.version, "kind": ty.name}]);
    }
    if ty.atomic {
        definition["x-kubernetes-map-type"] = json!("atomic");
    }
    let required: Vec<_> = ty.fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    match definition.as_object_mut() {
        Some(map) if required.is_empty() => drop(map.remove("required")),
        Some(map) => drop(map.insert("required".to_owned(), json!(required))),
        None => {}
    }
    let Some(Value::Object(properties)) = definition.get_mut("properties") else { return };
    for (name, property) in properties {
        if let (Some(field), Value::Object(property)) = (ty.field(name), property) {
            annotate(property, field);
        }
    }
}

fn annotate(property: &mut Map<String, Value>, field: &Field) {
    let mut set = |name: &str, value: Value| property.insert(format!("x-kubernetes-{name}"), value);
    match field.list_type {
        Some(ListType::Atomic) => drop(set("list-type", json!("atomic"))),
        Some(ListType::Set) => drop(set("list-type", json!("set"))),
        Some(ListType::Map) => {
            set("list-type", json!("map"));
            set("list-map-keys", json!(field.list_keys));
        }
        None => {}
    }
    if field.atomic {
        set("map-type", json!("atomic"));
    }
    let patch = field.patch;
    let names = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
    let strategies: Vec<_> = names.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    if !strategies.is_empty() {
        set("patch-strategy", json!(strategies.join(",")));
    }
    if let Some(key) = field.merge_key {
        set("patch-merge-key", json!(key));
    }
}

/// A custom resource's schema, which states neither its metadata's type nor its group, version and kind.
fn own(gv: &GroupVersion, kind: &str, mut definition: Value) -> Value {
    if !definition.is_object() {
        definition = json!({"type": "object"});
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    definition["properties"]["apiVersion"] = text("Group and version of this object.");
    definition["properties"]["kind"] = text("Kind of this object.");
    definition["properties"]["metadata"] = json!({"allOf": [reference(common::OBJECT_META)]});
    definition["x-kubernetes-group-version-kind"] = gvk_list(gv, kind);
    definition
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
            "metadata": {"allOf": [reference(common::LIST_META)], "description": "Metadata of the list."},
            "items": {
                "type": "array",
                "description": "The objects, in the order of their keys.",
                "items": {"allOf": [reference(&resource.schema_name)]},
            },
        },
        "x-kubernetes-group-version-kind": gvk_list(gv, &format!("{kind}List")),
    })
}

fn gvk_list(gv: &GroupVersion, kind: &str) -> Value {
    json!([{"group": gv.group, "version": gv.version, "kind": kind}])
}
