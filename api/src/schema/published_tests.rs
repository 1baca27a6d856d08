//! Compares the field table with the schemas that Kubernetes publishes for the version of `k8s-openapi`:
//! types, members, member types and required members. Those schemas have no protobuf numbers and no pointers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Elem, Field, Shape, Type, all};
use crate::openapi::roots;

const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Types of the table that have no published schema, in the order of the table. Types inlined in others are
/// compared there. The rest are URL queries, alternative forms of objects, and bodies of conversion webhooks.
const UNPUBLISHED: &[&str] = &[
    "io.k8s.api.admissionregistration.v1.Rule",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ConversionRequest",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ConversionResponse",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ConversionReview",
    "io.k8s.api.core.v1.EphemeralContainerCommon",
    "io.k8s.api.core.v1.PersistentVolumeSource",
    "io.k8s.api.core.v1.ProbeHandler",
    "io.k8s.api.core.v1.VolumeSource",
    "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata",
    "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.UpdateOptions",
    "io.k8s.api.networking.v1.IngressRuleValue",
    "io.k8s.api.resource.v1.DeviceConfiguration",
];

/// Packages of versions that are only read from storage, and have no published schemas.
const ONLY_STORED: [&str; 2] = ["apiextensions/v1beta1", "networking/v1beta1"];

/// Members whose requirement `k8s-openapi` changes: names that default to "" are plain strings there, and a
/// nullable time is an option. It also has the metadata of every object as a plain value.
const REQUIRED_OTHERWISE: &[&str] = &[
    "io.k8s.api.core.v1.ConfigMapEnvSource.name",
    "io.k8s.api.core.v1.ConfigMapKeySelector.name",
    "io.k8s.api.core.v1.ConfigMapProjection.name",
    "io.k8s.api.core.v1.ConfigMapVolumeSource.name",
    "io.k8s.api.core.v1.LocalObjectReference.name",
    "io.k8s.api.core.v1.SecretEnvSource.name",
    "io.k8s.api.core.v1.SecretKeySelector.name",
    "io.k8s.api.core.v1.SecretProjection.name",
    "io.k8s.api.events.v1.Event.eventTime",
];

/// The published schemas by name.
fn published() -> BTreeMap<String, Value> {
    let mut generator = schemars::generate::SchemaSettings::openapi3().into_generator();
    roots::add_all(&mut generator);
    generator.take_definitions(true).into_iter().collect()
}

/// Short text for the type in a published schema: `string`, `integer/int32`, a struct's name, with `[]` or
/// `{}` before the type of elements.
fn words(schema: &Value) -> String {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    if let Some(reference) = reference {
        return reference.rsplit('/').next().unwrap_or_default().to_owned();
    }
    let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("type"), text("format")) {
        ("array", _) => format!("[]{}", words(&schema["items"])),
        ("object", _) if schema.get("additionalProperties").is_some() => {
            format!("{{}}{}", words(&schema["additionalProperties"]))
        }
        (kind, "") => kind.to_owned(),
        (kind, format) => format!("{kind}/{format}"),
    }
}

/// The same short text for a field of the table.
fn words_of(field: &Field) -> String {
    let shape = match field.shape {
        Shape::One => "",
        Shape::List => "[]",
        Shape::Map => "{}",
    };
    let elem = match field.elem {
        Elem::String => "string".to_owned(),
        Elem::Bool => "boolean".to_owned(),
        Elem::Int32 => "integer/int32".to_owned(),
        Elem::Int64 => "integer/int64".to_owned(),
        Elem::Float64 => "number/double".to_owned(),
        Elem::Bytes => "string/byte".to_owned(),
        Elem::Time => format!("{META}.Time"),
        Elem::MicroTime => format!("{META}.MicroTime"),
        Elem::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
        Elem::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
        Elem::Raw => "io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned(),
        Elem::FieldsV1 => format!("{META}.FieldsV1"),
        Elem::Json => format!("{EXTENSIONS}.JSON"),
        Elem::Items => "[]string".to_owned(),
        Elem::SchemaOrList => format!("{EXTENSIONS}.JSONSchemaPropsOrArray"),
        Elem::SchemaOrBool => format!("{EXTENSIONS}.JSONSchemaPropsOrBool"),
        Elem::SchemaOrStrings => format!("{EXTENSIONS}.JSONSchemaPropsOrStringArray"),
        Elem::Struct(id) => id.get().openapi_name(),
    };
    format!("{shape}{elem}")
}

/// Members of a published schema with their types, and an exclamation mark where they are required.
fn published_members(schema: &Value) -> BTreeMap<String, String> {
    let required: BTreeSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, schema)| (name.clone(), marked(words(schema), required.contains(&**name))))
        .collect()
}

fn members(ty: &Type) -> BTreeMap<String, String> {
    ty.fields.iter().map(|field| (field.name.to_owned(), marked(words_of(field), field.required))).collect()
}

fn marked(words: String, required: bool) -> String {
    if required { words + "!" } else { words }
}

/// Whether `k8s-openapi` decides on its own whether this member is required.
fn is_required_otherwise(ty: &Type, member: &str) -> bool {
    let name = format!("{}.{member}", ty.openapi_name());
    (ty.has_kind && member == "metadata") || REQUIRED_OTHERWISE.contains(&name.as_str())
}

/// Whether a type is the list of a kind; `k8s-openapi` writes lists as one generic type.
fn is_list(ty: &'static Type) -> bool {
    ty.has_kind && ty.name.ends_with("List") && ty.field("items").is_some()
}

#[test]
fn every_type_has_the_published_members() {
    let published = published();
    let (mut compared, mut differ, mut missing) = (0, Vec::new(), Vec::new());
    let served = all().filter(|ty| !ONLY_STORED.contains(&ty.package.short));
    for ty in served.filter(|ty| !is_list(ty)) {
        let name = ty.openapi_name();
        let Some(schema) = published.get(&name) else {
            missing.push(name);
            continue;
        };
        compared += 1;
        let (ours, theirs) = (members(ty), published_members(schema));
        let differs = |member: &&&String| {
            let (ours, theirs) = (ours.get(**member), theirs.get(**member));
            match is_required_otherwise(ty, member) {
                true => {
                    ours.map(|words| words.trim_end_matches('!'))
                        != theirs.map(|words| words.trim_end_matches('!'))
                }
                false => ours != theirs,
            }
        };
        let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for member in names.iter().filter(differs) {
            differ.push(format!(
                "{name}.{member}: {:?}, published {:?}",
                ours.get(*member),
                theirs.get(*member)
            ));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(missing, UNPUBLISHED);
    assert!(compared > 400, "{compared} types");
}

#[test]
fn every_published_type_is_in_the_table_or_a_scalar() {
    let scalars = [
        "FieldsV1",
        "IntOrString",
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
        "MicroTime",
        "Quantity",
        "RawExtension",
        "Time",
    ];
    let known: BTreeSet<String> = all().map(Type::openapi_name).collect();
    let unknown = published().into_keys().filter(|name| !known.contains(name));
    let unknown: BTreeSet<String> =
        unknown.filter(|name| !scalars.contains(&name.rsplit('.').next().unwrap_or_default())).collect();
    // Types that are never part of a request or an object: the version page, a watch frame, a patch body.
    let others =
        ["io.k8s.apimachinery.pkg.version.Info", &format!("{META}.Patch"), &format!("{META}.WatchEvent")];
    assert_eq!(unknown, others.map(str::to_owned).into());
}

#[test]
fn every_list_has_metadata_and_the_items_of_its_kind() {
    let mut lists = 0;
    for ty in all().filter(|ty| is_list(ty)) {
        let items = ty.field("items").unwrap();
        let own = format!("[]{}", ty.openapi_name().trim_end_matches("List"));
        let free = ["io.k8s.apimachinery.pkg.apis.meta.v1.List"].contains(&&*ty.openapi_name());
        assert!(free || words_of(items) == own, "{}: {}", ty.openapi_name(), words_of(items));
        assert_eq!(
            words_of(ty.field("metadata").unwrap()),
            format!("{META}.ListMeta"),
            "{}",
            ty.openapi_name()
        );
        lists += 1;
    }
    assert!(lists > 40, "{lists} lists");
}
