//! Schema of one type: its members by the field table, its default values and enumerations by `facts`, its texts by
//! `descriptions`. The few types that are in no table are written here.

use super::descriptions::{Descriptions, TypeDescriptions};
use super::facts::{self, Facts};
use super::registered::{self, KINDS};
use super::{common, reference};
use crate::schema::{self, Elem, Field, ListType, Shape, Type};
use crate::version::Minor;
use serde_json::{Map, Value, json};

const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const SCHEMA_OR_BOOL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const SCHEMA_OR_LIST: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const SCHEMA_OR_STRINGS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// Members of the `/version` response, and whether they are required.
const VERSION_MEMBERS: [(&str, bool); 13] = [
    ("buildDate", true),
    ("compiler", true),
    ("emulationMajor", false),
    ("emulationMinor", false),
    ("gitCommit", true),
    ("gitTreeState", true),
    ("gitVersion", true),
    ("goVersion", true),
    ("major", true),
    ("minCompatibilityMajor", false),
    ("minCompatibilityMinor", false),
    ("minor", true),
    ("platform", true),
];

/// The schema with this name in a version of Kubernetes; `None` if no type has it. `refer` receives the name of each schema that it
/// refers to.
pub(super) fn named(
    minor: Minor,
    name: &str,
    descriptions: &mut Descriptions,
    refer: &mut dyn FnMut(String),
) -> Option<Value> {
    let mut model = match schema::lookup_minor(minor, name) {
        Some(ty) => of_type(minor, ty, &descriptions.of(name), refer),
        None => unlisted(minor, name, &descriptions.of(name), refer)?,
    };
    wrap_references(&mut model);
    Some(model)
}

/// Schema of a type of the field table.
fn of_type(
    minor: Minor,
    ty: &'static Type,
    texts: &TypeDescriptions<'_>,
    refer: &mut dyn FnMut(String),
) -> Value {
    let mut model = Map::new();
    model.insert("type".to_owned(), json!("object"));
    describe(&mut model, texts.text());
    let mut properties = Map::new();
    for field in ty.fields {
        let mut property = value(field, refer);
        describe(&mut property, texts.member(field.name));
        annotate(&mut property, field);
        add_values(minor, &mut property, field, facts::of_field(minor, ty, field.name));
        properties.insert(field.name.to_owned(), property.into());
    }
    if !properties.is_empty() {
        model.insert("properties".to_owned(), properties.into());
    }
    let required: Vec<_> = ty.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        model.insert("required".to_owned(), json!(required));
    }
    if ty.name == "DeleteOptions" {
        model.insert(KINDS.to_owned(), registered::in_all_groups(minor, ty.name));
    } else if ty.has_kind {
        let kind = json!({"group": ty.package.group, "version": ty.package.version, "kind": ty.name});
        model.insert(KINDS.to_owned(), json!([kind]));
    }
    if ty.atomic {
        model.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    if let Some(Facts { union: Some(union), .. }) = facts::of_type(minor, ty) {
        model.insert("x-kubernetes-unions".to_owned(), union.clone());
    }
    model.into()
}

/// Schema of a type that is in no table: a scalar, a type with several JSON forms, or part of no object.
fn unlisted(
    minor: Minor,
    name: &str,
    texts: &TypeDescriptions<'_>,
    refer: &mut dyn FnMut(String),
) -> Option<Value> {
    let mut model = match name {
        TIME | MICRO_TIME => json!({"type": "string", "format": "date-time"}),
        FIELDS | RAW_EXTENSION | common::PATCH => json!({"type": "object"}),
        INT_OR_STRING => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        QUANTITY => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        JSON | SCHEMA_OR_BOOL | SCHEMA_OR_LIST | SCHEMA_OR_STRINGS => json!({}),
        common::WATCH_EVENT => {
            refer(RAW_EXTENSION.to_owned());
            let mut object = reference(RAW_EXTENSION);
            object["description"] = json!("The changed object, or a Status for an event of the type ERROR.");
            let properties = json!({"object": object, "type": {"type": "string", "default": ""}});
            let kinds = registered::in_all_groups(minor, "WatchEvent");
            json!({"type": "object", "properties": properties, "required": ["type", "object"], KINDS: kinds})
        }
        common::VERSION => version(texts),
        _ => return None,
    };
    describe(model.as_object_mut()?, texts.text());
    Some(model)
}

/// Schema of the `/version` response.
fn version(texts: &TypeDescriptions<'_>) -> Value {
    let property = |(name, is_required): &(&str, bool)| {
        let mut property = Map::from_iter([("type".to_owned(), json!("string"))]);
        describe(&mut property, texts.member(name));
        if *is_required {
            property.insert("default".to_owned(), json!(""));
        }
        ((*name).to_owned(), Value::from(property))
    };
    let properties: Map<String, Value> = VERSION_MEMBERS.iter().map(property).collect();
    let required: Vec<&str> =
        VERSION_MEMBERS.iter().filter(|(_, required)| *required).map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn describe(schema: &mut Map<String, Value>, text: Option<String>) {
    if let Some(text) = text {
        schema.insert("description".to_owned(), text.into());
    }
}

/// Schema of a field's value by its type alone.
fn value(field: &Field, refer: &mut dyn FnMut(String)) -> Map<String, Value> {
    let elem = element(field.elem, refer);
    match field.shape {
        Shape::One => elem,
        Shape::List => object([("type", json!("array")), ("items", elem.into())]),
        Shape::Map => object([("type", json!("object")), ("additionalProperties", elem.into())]),
    }
}

fn element(elem: Elem, refer: &mut dyn FnMut(String)) -> Map<String, Value> {
    let plain = |ty: &str| object([("type", json!(ty))]);
    let formatted = |ty: &str, format: &str| object([("type", json!(ty)), ("format", json!(format))]);
    let mut named = |name: &str| {
        refer(name.to_owned());
        object([("$ref", reference(name)["$ref"].take())])
    };
    match elem {
        Elem::String => plain("string"),
        Elem::Bool => plain("boolean"),
        Elem::Int32 => formatted("integer", "int32"),
        Elem::Int64 => formatted("integer", "int64"),
        Elem::Float64 => formatted("number", "double"),
        Elem::Bytes => formatted("string", "byte"),
        Elem::Items => object([("type", json!("array")), ("items", plain("string").into())]),
        Elem::Time => named(TIME),
        Elem::MicroTime => named(MICRO_TIME),
        Elem::Quantity => named(QUANTITY),
        Elem::IntOrString => named(INT_OR_STRING),
        Elem::Raw => named(RAW_EXTENSION),
        Elem::FieldsV1 => named(FIELDS),
        Elem::Json => named(JSON),
        Elem::SchemaOrList => named(SCHEMA_OR_LIST),
        Elem::SchemaOrBool => named(SCHEMA_OR_BOOL),
        Elem::SchemaOrStrings => named(SCHEMA_OR_STRINGS),
        Elem::Struct(id) => named(&id.get().openapi_name()),
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
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
fn add_values(minor: Minor, property: &mut Map<String, Value>, field: &Field, facts: Option<&Facts>) {
    if has_element_defaults(minor) {
        add_element_default(property, field);
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
            Shape::Map => property.get_mut("additionalProperties").and_then(Value::as_object_mut),
            Shape::One => Some(property),
        };
        target.map(|target| target.insert("enum".to_owned(), json!(facts.values)));
    }
}

/// Whether documents state default values of the elements of lists and maps, which are never absent: Kubernetes' do until 1.36
/// (kube-openapi's pull request 606).
pub(super) const fn has_element_defaults(minor: Minor) -> bool {
    (minor as u8) < Minor::V37 as u8
}

fn add_element_default(property: &mut Map<String, Value>, field: &Field) {
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
