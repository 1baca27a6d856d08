//! OpenAPI v3 in the words of v2: operations, parameters and schemas. Older clients validate and explain with v2. It has no defaults,
//! since clients of old took them for what the server had said.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::parameters::Parameter;
use super::{GroupVersion, ResourceDoc, paths};

const REFERENCES: &str = "#/components/schemas/";

/// The parameters of paths. v2 has each once, by a name made of its own and its content, and refers to it.
#[derive(Default)]
pub(crate) struct Parameters {
    /// Those seen so far, by that name.
    pub(crate) shared: Map<String, Value>,
    /// References to those of them that are no bodies.
    references: BTreeMap<Parameter, Value>,
}

impl Parameters {
    /// The paths of resources. What changes them before they are in v2's words is up to the caller: [`Parameters::convert`] is next.
    pub(crate) fn paths_of(&mut self, gv: &GroupVersion, resources: &[ResourceDoc]) -> Map<String, Value> {
        paths::paths(gv, resources, &mut |parameter| self.reference(parameter))
    }

    /// Puts paths whose parameters are references in v2's words.
    pub(crate) fn convert(&mut self, paths: &mut Map<String, Value>) {
        for item in paths.values_mut() {
            for (name, member) in item.as_object_mut().into_iter().flatten() {
                if name != "parameters" {
                    *member = self.operation(member.take());
                }
            }
        }
    }

    fn reference(&mut self, parameter: &Parameter) -> Value {
        match self.references.get(parameter) {
            Some(reference) => reference.clone(),
            None => {
                let reference = self.share(parameter.to_v2());
                self.references.insert(parameter.clone(), reference.clone());
                reference
            }
        }
    }

    fn operation(&mut self, mut operation: Value) -> Value {
        let mut parameters = match operation.get_mut("parameters").map(Value::take) {
            Some(Value::Array(own)) => own,
            _ => Vec::new(),
        };
        let mut consumes = vec![];
        if let Some(body) = operation.as_object_mut().and_then(|map| map.remove("requestBody")) {
            consumes = media(&body);
            let body = self.body(&body);
            parameters.insert(0, body);
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
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
    }

    fn body(&mut self, body: &Value) -> Value {
        let content = body["content"].as_object().and_then(|content| content.values().next());
        let mut schema = content.map_or(Value::Null, |media| media["schema"].clone());
        self::schema(&mut schema);
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if body["required"] == true {
            parameter["required"] = json!(true);
        }
        self.share(parameter)
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

fn media(holder: &Value) -> Vec<String> {
    holder["content"].as_object().map(|content| content.keys().cloned().collect()).unwrap_or_default()
}

fn response(response: &mut Value) {
    let Some(content) = response.as_object_mut().and_then(|map| map.remove("content")) else { return };
    if let Some(media) = content.as_object().and_then(|content| content.values().next()) {
        let mut schema = media["schema"].clone();
        self::schema(&mut schema);
        response["schema"] = schema;
    }
}

/// Rewrites a schema in v2's words.
pub(super) fn schema(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
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
        map.get_mut(inner).into_iter().for_each(self::schema);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(self::schema);
    }
}
