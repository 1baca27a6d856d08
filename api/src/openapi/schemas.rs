//! Schemas of a document: those of `k8s-openapi`, with Kubernetes' extensions.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::facts::{self, Facts};
use super::{GroupVersion, ResourceDoc, common, reference, roots};
use crate::kind;
use crate::schema::{self, Elem, Field, ListType, Shape, Type};

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

/// The named schemas and all that they refer to.
pub(super) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for name in names {
        roots::add(&mut generator, name);
    }
    let mut out: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    for (name, definition) in &mut out {
        special(name, definition);
        if let Some(ty) = schema::lookup(name) {
            enrich(definition, ty);
        }
        wrap_references(definition);
    }
    out
}

/// Sets the schemas of types with several JSON forms.
fn special(name: &str, definition: &mut Value) {
    let alternatives = match name.rsplit('.').next().unwrap_or_default() {
        "IntOrString" => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        "Quantity" => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        "JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            json!({})
        }
        "WatchEvent" => return list_all_groups(definition, "WatchEvent"),
        _ => return,
    };
    let description = definition.get("description").cloned();
    *definition = alternatives;
    if let Some(description) = description {
        definition["description"] = description;
    }
}

/// Lists every group and version for a kind that all of them have.
fn list_all_groups(definition: &mut Value, kind: &str) {
    let each = |group: &'static str| {
        let of = move |version| json!({"group": group, "version": version, "kind": kind});
        kind::versions(group).map(of)
    };
    let mut all: Vec<Value> = kind::groups().flat_map(each).collect();
    all.sort_by_key(|gvk| gvk["group"].to_string());
    definition["x-kubernetes-group-version-kind"] = json!(all);
}

/// Adds facts of the field table: group, version and kind, required members, list types and patch strategies,
/// defaults, enumerations.
fn enrich(definition: &mut Value, ty: &'static Type) {
    match ty.name {
        "DeleteOptions" => list_all_groups(definition, ty.name),
        _ if ty.has_kind => {
            let package = ty.package;
            definition["x-kubernetes-group-version-kind"] =
                json!([{"group": package.group, "version": package.version, "kind": ty.name}]);
        }
        _ => {}
    }
    if ty.atomic {
        definition["x-kubernetes-map-type"] = json!("atomic");
    }
    if let Some(Facts { union: Some(union), .. }) = facts::of_type(ty) {
        definition["x-kubernetes-unions"] = union.clone();
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
            add_values(property, field, facts::of_field(ty, name));
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

/// Adds default value and enumeration.
fn add_values(property: &mut Map<String, Value>, field: &Field, facts: Option<&Facts>) {
    let elements = match field.shape {
        Shape::One => None,
        Shape::List => property.get_mut("items"),
        Shape::Map => property.get_mut("additionalProperties"),
    };
    if let (Some(Value::Object(elements)), Some(zero)) = (elements, zero(field.elem)) {
        elements.insert("default".to_owned(), zero);
    }
    // A list of strings with a type of its own, or a map of such lists.
    if field.elem == Elem::Items {
        let map = if field.shape == Shape::Map { property.get_mut("additionalProperties") } else { None };
        let list = match map {
            Some(map) => map.get_mut("items"),
            None => property.get_mut("items"),
        };
        list.into_iter().for_each(|items| items["default"] = json!(""));
    }
    // A member omitted when empty has no default. Structs have one, since Go's encoder never treats them as
    // empty.
    let zero = zero(field.elem).filter(|zero| !field.pointer && (!field.omit_empty || zero.is_object()));
    if let Some(zero) = zero.filter(|_| field.shape == Shape::One) {
        property.insert("default".to_owned(), zero);
    }
    let Some(facts) = facts else { return };
    if let Some(default) = &facts.default {
        property.insert("default".to_owned(), default.clone());
    }
    if facts.granular {
        property.insert("x-kubernetes-map-type".to_owned(), json!("granular"));
    }
    if !facts.values.is_empty() {
        let target = match field.shape {
            Shape::List => property.get_mut("items").and_then(Value::as_object_mut),
            Shape::One | Shape::Map => Some(property),
        };
        target.map(|target| target.insert("enum".to_owned(), json!(facts.values)));
    }
}

/// Zero value of a type; `None` for types without one in JSON.
fn zero(elem: Elem) -> Option<Value> {
    match elem {
        Elem::String => Some(json!("")),
        Elem::Bool => Some(json!(false)),
        Elem::Int32 | Elem::Int64 | Elem::Float64 => Some(json!(0)),
        Elem::Struct(_) => Some(json!({})),
        Elem::Bytes
        | Elem::Time
        | Elem::MicroTime
        | Elem::Quantity
        | Elem::IntOrString
        | Elem::Raw
        | Elem::FieldsV1
        | Elem::Json
        | Elem::Items
        | Elem::SchemaOrList
        | Elem::SchemaOrBool
        | Elem::SchemaOrStrings => None,
    }
}

/// Moves `$ref` into an `allOf` if it has siblings, which OpenAPI v3 forbids.
fn wrap_references(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.len() > 1
        && let Some(reference @ Value::String(_)) = map.remove("$ref")
    {
        map.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    for inner in ["items", "additionalProperties"] {
        map.get_mut(inner).into_iter().for_each(wrap_references);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(wrap_references);
    }
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
                "items": {"allOf": [reference(&resource.schema_name)], "default": {}},
            },
        },
        "x-kubernetes-group-version-kind": gvk_list(gv, &format!("{kind}List")),
    })
}

fn gvk_list(gv: &GroupVersion, kind: &str) -> Value {
    json!([{"group": gv.group, "version": gv.version, "kind": kind}])
}
