//! Conversion of OpenAPI v3 to v2: operations, parameters and schemas. Older clients validate and explain
//! with v2. It has no defaults, since old clients took them for values from the server.

use super::form::{Bodies, Content, Form, Request};
use super::parameters::Parameter;
use super::{GroupVersion, ResourceDoc, paths};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

const REFERENCES: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/definitions/";
/// Beginning of the names of models that several kinds have in common.
const APIMACHINERY: &str = "io.k8s.apimachinery.";
/// Parameters that each operation states in full.
const UNSHARED: [&str; 3] = ["name", "dryRun", "fieldValidation"];

/// Shared parameters of v2. Each occurs once, under a name derived from its own name and content, and paths
/// refer to it. As in Kubernetes, operations state in full what depends on the kind, and `dryRun` and `fieldValidation`: kubectl up to
/// 1.27 looks there whether a server has these.
#[derive(Default)]
pub(crate) struct Parameters {
    /// Parameters collected so far, by that name.
    pub(crate) shared: Map<String, Value>,
    /// References to shared parameters that are not bodies.
    references: BTreeMap<Parameter, Value>,
}

impl Parameters {
    /// OpenAPI v2 paths of these resources.
    pub(crate) fn paths_of(&mut self, gv: &GroupVersion, resources: &[ResourceDoc]) -> Map<String, Value> {
        paths::paths(gv, resources, self)
    }

    fn body(&mut self, request: &Request<'_>) -> Value {
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema_of(&request.content)});
        if request.is_required {
            parameter["required"] = json!(true);
        }
        let is_shared = request.content.schema.is_some_and(|name| name.starts_with(APIMACHINERY));
        if is_shared { self.share(parameter) } else { parameter }
    }

    fn share(&mut self, parameter: Value) -> Value {
        let content = Sha256::digest(parameter.to_string());
        let name = parameter["name"].as_str().unwrap_or_default();
        let name = format!("{name}-{:02x}{:02x}{:02x}{:02x}", content[0], content[1], content[2], content[3]);
        let reference = json!({"$ref": format!("#/parameters/{name}")});
        self.shared.insert(name, parameter);
        reference
    }
}

impl Form for Parameters {
    fn parameter(&mut self, parameter: &Parameter) -> Value {
        match self.references.get(parameter) {
            _ if UNSHARED.contains(&parameter.name) => parameter.to_v2(),
            Some(reference) => reference.clone(),
            None => {
                let reference = self.share(parameter.to_v2());
                self.references.insert(parameter.clone(), reference.clone());
                reference
            }
        }
    }

    fn add_bodies(&mut self, members: &mut Map<String, Value>, bodies: &Bodies<'_>) {
        let consumes = match &bodies.request {
            Some(request) => {
                members.insert("parameters".to_owned(), json!([self.body(request)]));
                request.content.media.clone()
            }
            None => bodies.consumes.to_vec(),
        };
        let schema = schema_of(&bodies.answer);
        let success = bodies.codes.iter().map(|(code, description)| {
            ((*code).to_owned(), json!({"description": description, "schema": schema}))
        });
        let refusal = ("401".to_owned(), json!({"description": "Unauthorized"}));
        members.insert("responses".to_owned(), Value::Object(success.chain([refusal]).collect()));
        if !consumes.is_empty() {
            members.insert("consumes".to_owned(), json!(consumes));
        }
        members.insert("produces".to_owned(), json!(bodies.answer.media));
        members.insert("schemes".to_owned(), json!(["https"]));
    }
}

fn schema_of(content: &Content<'_>) -> Value {
    match content.schema {
        Some(name) => json!({"$ref": format!("{DEFINITIONS}{name}")}),
        None => json!({"type": "string"}),
    }
}

/// Rewrites a schema for OpenAPI v2.
pub(super) fn schema(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove("default");
    map.remove("nullable");
    // A value with several JSON types is a string in v2; people mostly write it as one.
    if map.remove("oneOf").is_some() || map.remove("anyOf").is_some() {
        map.insert("type".to_owned(), json!("string"));
    }
    map.remove("not");
    if let Some(Value::Array(all)) = map.get("allOf")
        && let [only] = all.as_slice()
        && let Some(reference) = only.get("$ref").cloned()
    {
        map.remove("allOf");
        map.insert("$ref".to_owned(), reference);
    }
    if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix(REFERENCES))
    {
        let reference = json!(format!("{DEFINITIONS}{name}"));
        map.insert("$ref".to_owned(), reference);
    }
    for inner in ["items", "additionalProperties"] {
        map.get_mut(inner).into_iter().for_each(self::schema);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(self::schema);
    }
}
