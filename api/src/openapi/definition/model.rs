//! OpenAPI models of a custom kind and of its list.

use super::{Definition, Form, META, Version, v2};
use crate::crd::validate;
use crate::object::list;
use serde_json::{Map, Value, json};

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Inputs for the models of one version.
#[derive(Clone, Copy)]
pub(super) struct ModelInputs<'a> {
    pub(super) definition: &'a Definition,
    pub(super) version: &'a Version,
    pub(super) form: Form,
}

impl ModelInputs<'_> {
    /// The model of the kind, from its schema.
    pub(super) fn kind(self, schema: &Value, keeps_unknown: bool) -> Value {
        let mut model = self.content(schema, keeps_unknown);
        self.mark(&mut model, &self.definition.names.kind);
        model
    }

    fn content(self, schema: &Value, keeps_unknown: bool) -> Value {
        let is_open = self.form == Form::V2 && (keeps_unknown || schema[PRESERVE] == true);
        // kubectl treats listed properties as the only ones, so a model that allows others lists none.
        if !validate::is_structural(schema) || is_open {
            return json!({"type": "object"});
        }
        let mut model = normalize(schema);
        if self.form == Form::V2 {
            v2::convert(&mut model);
        } else {
            spell_out_int_or_string(&mut model);
        }
        let properties = properties_of(&mut model);
        properties.insert("metadata".to_owned(), self.reference("ObjectMeta", METADATA));
        properties.insert("apiVersion".to_owned(), string(API_VERSION));
        properties.insert("kind".to_owned(), string(KIND));
        self.embed(&mut model);
        model
    }

    /// The model of the kind's list.
    pub(super) fn list(self, model: &str) -> Value {
        let names = &self.definition.names;
        let items = format!("{}{model}", self.prefix());
        let description = format!(
            "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
            names.plural
        );
        let mut own = json!({
            "description": format!("{} is a list of {}", names.list_kind, names.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": string(API_VERSION),
                "items": {"description": description, "type": "array", "items": {"$ref": items}},
                "kind": string(KIND),
                "metadata": self.reference("ListMeta", LIST_METADATA),
            },
        });
        self.mark(&mut own, &names.list_kind);
        own
    }

    fn prefix(self) -> &'static str {
        match self.form {
            Form::V2 => "#/definitions/",
            Form::V3 => "#/components/schemas/",
        }
    }

    /// Reference with a description, which v3 wraps since `$ref` allows no siblings.
    fn reference(self, name: &str, description: &str) -> Value {
        let target = format!("{}{META}{name}", self.prefix());
        match self.form {
            Form::V2 => json!({"description": description, "$ref": target}),
            Form::V3 => json!({"description": description, "allOf": [{"$ref": target}]}),
        }
    }

    /// Adds group, version and kind, and the selectable fields.
    fn mark(self, model: &mut Value, kind: &str) {
        let gvk = json!({"group": &*self.definition.group, "version": &*self.version.name, "kind": kind});
        model["x-kubernetes-group-version-kind"] = json!([gvk]);
        let fields = self.version.selectable.iter().map(|field| json!({"fieldPath": field.label}));
        let fields: Vec<Value> = fields.collect();
        if !fields.is_empty() {
            model["x-kubernetes-selectable-fields"] = fields.into();
        }
    }

    /// Adds the members of an object to every embedded resource.
    fn embed(self, schema: &mut Value) {
        for child in children(schema) {
            self.embed(child);
        }
        let is_open = self.form == Form::V2 && schema[PRESERVE] == true;
        if schema[EMBEDDED] != true || is_open {
            return;
        }
        let properties = properties_of(schema);
        properties.insert("apiVersion".to_owned(), string(EMBEDDED_API_VERSION));
        properties.insert("kind".to_owned(), string(EMBEDDED_KIND));
        properties.insert("metadata".to_owned(), self.reference("ObjectMeta", METADATA));
        let mut required = list(&schema["required"]).to_vec();
        for member in ["kind", "apiVersion"] {
            if !required.contains(&json!(member)) {
                required.push(member.into());
            }
        }
        schema["required"] = required.into();
    }
}

fn string(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

/// The properties of a schema, added if missing.
fn properties_of(schema: &mut Value) -> &mut Map<String, Value> {
    let slot = &mut schema["properties"];
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("made an object above")
}

/// Schemas of members and items; those in `allOf`, `anyOf`, `oneOf` and `not` are excluded.
pub(super) fn children(schema: &mut Value) -> Vec<&mut Value> {
    let mut out = Vec::new();
    for (name, value) in schema.as_object_mut().into_iter().flatten() {
        match name.as_str() {
            "properties" => out.extend(value.as_object_mut().into_iter().flat_map(Map::values_mut)),
            "items" | "additionalProperties" if value.is_object() => out.push(value),
            _ => {}
        }
    }
    out
}

/// The schema without members that mean nothing: nulls, empty lists and texts, false flags.
pub(super) fn normalize(schema: &Value) -> Value {
    const TEXTS: [&str; 5] = ["description", "type", "format", "title", "pattern"];
    let Some(members) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    for (name, value) in members {
        let value = match (name.as_str(), value) {
            (_, Value::Null) => continue,
            ("nullable" | "uniqueItems" | "exclusiveMinimum" | "exclusiveMaximum", Value::Bool(false)) => {
                continue;
            }
            (own, Value::Bool(false)) if own.starts_with("x-kubernetes-") => continue,
            (own, Value::String(text)) if text.is_empty() && TEXTS.contains(&own) => continue,
            ("default" | "example" | "externalDocs" | "x-kubernetes-validations", value) => value.clone(),
            ("enum" | "required" | "x-kubernetes-list-map-keys", Value::Array(items)) if items.is_empty() => {
                continue;
            }
            ("properties", Value::Object(properties)) if properties.is_empty() => continue,
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, own)| (name.clone(), normalize(own))).collect()
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) if branches.is_empty() => continue,
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => branches.iter().map(normalize).collect(),
            ("items" | "additionalProperties" | "not", value) => normalize(value),
            (_, value) => value.clone(),
        };
        out.insert(name.clone(), value);
    }
    Value::Object(out)
}

/// Spells out int-or-string as `anyOf` for OpenAPI, where the schema does not yet.
fn spell_out_int_or_string(schema: &mut Value) {
    for child in children(schema) {
        spell_out_int_or_string(child);
    }
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let is_spelled_out = schema["anyOf"] == both || schema["allOf"][0]["anyOf"] == both;
    if schema["x-kubernetes-int-or-string"] != true || is_spelled_out {
        return;
    }
    if schema["anyOf"].is_null() {
        schema["anyOf"] = both;
    } else {
        let mut all = vec![json!({"anyOf": both})];
        all.extend_from_slice(list(&schema["allOf"]));
        schema["allOf"] = all.into();
    }
}
