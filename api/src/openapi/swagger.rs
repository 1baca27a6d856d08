//! The one OpenAPI v2 document, made of the v3 documents: older clients validate and explain with it. It has no defaults, since
//! clients of old took them for what the server had said.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::common;

const REFERENCES: &str = "#/components/schemas/";

/// The document that says what all of `documents` (of OpenAPI v3) say.
pub(super) fn document(documents: impl Iterator<Item = Value>) -> Value {
    let mut out = Swagger::default();
    for mut document in documents {
        let mut take = |pointer: &str| match document.pointer_mut(pointer).map(Value::take) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        for (name, definition) in take("/components/schemas") {
            out.definitions.entry(name).or_insert_with(|| schema(definition));
        }
        for (path, item) in take("/paths") {
            let item = out.item(item);
            out.paths.insert(path, item);
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": super::version()},
        "paths": out.paths,
        "definitions": out.definitions,
        "parameters": out.parameters,
        "securityDefinitions": common::security_schemes(),
        "security": [{"BearerToken": []}],
    })
}

#[derive(Default)]
struct Swagger {
    paths: BTreeMap<String, Value>,
    definitions: BTreeMap<String, Value>,
    /// Each parameter once, by a name made of its own and its content.
    parameters: BTreeMap<String, Value>,
}

impl Swagger {
    fn item(&mut self, item: Value) -> Value {
        let Value::Object(item) = item else { return item };
        let member = |(name, value): (String, Value)| {
            let value = if name == "parameters" { self.parameters(&value) } else { self.operation(value) };
            (name, value)
        };
        Value::Object(item.into_iter().map(member).collect())
    }

    fn operation(&mut self, mut operation: Value) -> Value {
        let mut parameters = match operation.get("parameters") {
            Some(own) => self.parameters(own),
            None => json!([]),
        };
        let mut consumes = vec![];
        if let Some(body) = operation.as_object_mut().and_then(|map| map.remove("requestBody")) {
            consumes = media(&body);
            let body = self.body(&body);
            parameters.as_array_mut().expect("made as a list above").insert(0, body);
        }
        if consumes.is_empty() && operation["x-kubernetes-action"] == "connect" {
            consumes.push("*/*".into());
        }
        let mut produces = vec![];
        if let Some(responses) = operation["responses"].as_object_mut() {
            produces = responses.values().map(media).find(|media| !media.is_empty()).unwrap_or_default();
            responses.values_mut().for_each(response);
        }
        operation["consumes"] = json!(consumes);
        operation["produces"] = json!(produces);
        operation["schemes"] = json!(["https"]);
        if parameters != json!([]) {
            operation["parameters"] = parameters;
        }
        operation
    }

    fn parameters(&mut self, parameters: &Value) -> Value {
        parameters.as_array().into_iter().flatten().map(|parameter| self.parameter(parameter)).collect()
    }

    /// In v2 the type stands beside the name, not in a schema.
    fn parameter(&mut self, parameter: &Value) -> Value {
        let mut parameter = parameter.clone();
        if let Some(Value::Object(schema)) = parameter.as_object_mut().and_then(|map| map.remove("schema")) {
            parameter.as_object_mut().expect("a parameter is an object").extend(schema);
        }
        self.shared(parameter)
    }

    fn body(&mut self, body: &Value) -> Value {
        let content = body["content"].as_object().and_then(|content| content.values().next());
        let schema = schema(content.map_or(Value::Null, |media| media["schema"].clone()));
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if body["required"] == true {
            parameter["required"] = json!(true);
        }
        self.shared(parameter)
    }

    fn shared(&mut self, parameter: Value) -> Value {
        let content = Sha256::digest(parameter.to_string());
        let name = parameter["name"].as_str().unwrap_or_default();
        let name = format!("{name}-{:02x}{:02x}{:02x}{:02x}", content[0], content[1], content[2], content[3]);
        let reference = json!({"$ref": format!("#/parameters/{name}")});
        self.parameters.insert(name, parameter);
        reference
    }
}

fn media(holder: &Value) -> Vec<String> {
    holder["content"].as_object().map(|content| content.keys().cloned().collect()).unwrap_or_default()
}

fn response(response: &mut Value) {
    let Some(content) = response.as_object_mut().and_then(|map| map.remove("content")) else { return };
    if let Some(media) = content.as_object().and_then(|content| content.values().next()) {
        response["schema"] = schema(media["schema"].clone());
    }
}

/// A schema in v2's words.
fn schema(schema: Value) -> Value {
    let Value::Object(mut map) = schema else { return schema };
    map.remove("default");
    map.remove("nullable");
    // What has several types in JSON is a string to v2, as its format says. (Written by people, it mostly is one.)
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
        let reference = json!(format!("#/definitions/{name}"));
        map.insert("$ref".to_owned(), reference);
    }
    for inner in ["items", "additionalProperties"] {
        map.entry(inner).and_modify(|inner| *inner = self::schema(inner.take()));
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = self::schema(property.take()));
    }
    Value::Object(map)
}
