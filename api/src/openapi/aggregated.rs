//! [`GroupVersionExtract`]: extract of another API server's OpenAPI v2 document for one group and version, to be merged into
//! this server's document. The rest of such a document repeats models of this server, sometimes with other
//! contents.

use super::Piece;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Prefixes of references to models and to shared parameters.
const DEFINITIONS: &str = "#/definitions/";
const PARAMETERS: &str = "#/parameters/";

/// Paths of one group and version in another server's document, with the models and parameters that they
/// refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupVersionExtract {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
    parameters: Map<String, Value>,
}

impl GroupVersionExtract {
    /// Extracts the paths below `path`, such as `/apis/example.com/v1`.
    #[must_use]
    pub fn of(mut document: Value, path: &str) -> Self {
        // The document of another server may be any JSON.
        let mut take = |member: &str| match document.get_mut(member).map(Value::take) {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        let (mut paths, models, shared) = (take("paths"), take("definitions"), take("parameters"));
        let below = format!("{path}/");
        paths.retain(|name, _| name == path || name.starts_with(&below));
        let mut cut = Self { paths, ..Self::default() };
        let mut found = BTreeSet::new();
        cut.paths.values().for_each(|value| references(value, &mut found));
        while let Some(reference) = found.pop_first() {
            let (from, to, name) = match reference.strip_prefix(DEFINITIONS) {
                Some(name) => (&models, &mut cut.definitions, name),
                None => match reference.strip_prefix(PARAMETERS) {
                    Some(name) => (&shared, &mut cut.parameters, name),
                    None => continue,
                },
            };
            if let Some(value) = from.get(name).filter(|_| !to.contains_key(name)) {
                references(value, &mut found);
                to.insert(name.to_owned(), value.clone());
            }
        }
        cut
    }

    /// The extract as a piece of a document that already has the models `taken`. Equal models are shared. A
    /// different model of the same name gets a new name, as in Kubernetes: the suffix `_v2`, or the next free
    /// number.
    #[must_use]
    pub fn piece(&self, taken: &BTreeMap<String, Value>) -> Piece {
        let mut renamed = BTreeMap::new();
        for (name, model) in &self.definitions {
            if taken.get(name).is_some_and(|other| other != model) {
                let mut free = (2..).map(|number| format!("{name}_v{number}"));
                let free =
                    free.find(|free| !taken.contains_key(free) && !self.definitions.contains_key(free));
                renamed.insert(format!("{DEFINITIONS}{name}"), free.expect("numbers do not end"));
            }
        }
        let rewritten = |value: &Value| {
            let mut value = value.clone();
            rewrite(&mut value, &renamed);
            value
        };
        let new_name = |name: &String| renamed.get(&format!("{DEFINITIONS}{name}")).unwrap_or(name).clone();
        let is_new = |name: &String| {
            renamed.contains_key(&format!("{DEFINITIONS}{name}")) || !taken.contains_key(name)
        };
        let paths = self.paths.iter().map(|(path, value)| (path.clone(), rewritten(value))).collect();
        let models = self.definitions.iter().filter(|(name, _)| is_new(name));
        let models = models.map(|(name, model)| (new_name(name), rewritten(model))).collect();
        let parameters =
            self.parameters.iter().map(|(name, value)| (name.clone(), rewritten(value).to_string()));
        Piece::of(&paths, &models, parameters.collect())
    }
}

/// Collects the targets of all `$ref` in a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Replaces references to renamed models.
fn rewrite(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(new) = renamed.get(reference)
            {
                *reference = format!("{DEFINITIONS}{new}");
            }
            members.values_mut().for_each(|value| rewrite(value, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rewrite(value, renamed)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reference(name: &str) -> Value {
        json!({ "$ref": format!("{DEFINITIONS}{name}") })
    }

    fn document() -> Value {
        json!({
            "paths": {
                "/apis/g.io/v1": { "get": {} },
                "/apis/g.io/v1/flunders": { "get": { "schema": reference("Flunder"), "parameters": [{ "$ref": "#/parameters/pretty" }] } },
                "/apis/g.io/v10/others": { "get": { "schema": reference("Other") } },
                "/version": {},
            },
            "definitions": {
                "Flunder": { "properties": { "metadata": reference("ObjectMeta"), "self": reference("Flunder") } },
                "ObjectMeta": { "description": "theirs" },
                "Other": {},
            },
            "parameters": { "pretty": { "in": "query" }, "unused": {} },
        })
    }

    #[test]
    fn extracts_have_only_the_models_of_their_group_and_version() {
        let cut = GroupVersionExtract::of(document(), "/apis/g.io/v1");
        assert_eq!(cut.paths.keys().collect::<Vec<_>>(), ["/apis/g.io/v1", "/apis/g.io/v1/flunders"]);
        assert_eq!(cut.definitions.keys().collect::<Vec<_>>(), ["Flunder", "ObjectMeta"]);
        assert_eq!(cut.parameters.keys().collect::<Vec<_>>(), ["pretty"]);
        assert_eq!(GroupVersionExtract::of(json!(7), "/apis/g.io/v1"), GroupVersionExtract::default());
    }

    #[test]
    fn different_models_are_renamed_and_equal_ones_shared() {
        let cut = GroupVersionExtract::of(document(), "/apis/g.io/v1");
        let members = |text: &str| serde_json::from_str::<Value>(&format!("{{{text}}}")).unwrap();
        let same = BTreeMap::from([("ObjectMeta".to_owned(), json!({ "description": "theirs" }))]);
        let shared = members(&cut.piece(&same).definitions);
        assert_eq!(shared.as_object().unwrap().keys().collect::<Vec<_>>(), ["Flunder"]);
        assert_eq!(shared["Flunder"]["properties"]["metadata"], reference("ObjectMeta"));
        let other = BTreeMap::from([
            ("ObjectMeta".to_owned(), json!({ "description": "ours" })),
            ("ObjectMeta_v2".to_owned(), json!({})),
        ]);
        let renamed = members(&cut.piece(&other).definitions);
        assert_eq!(renamed["ObjectMeta_v3"]["description"], "theirs");
        assert_eq!(renamed["Flunder"]["properties"]["metadata"], reference("ObjectMeta_v3"));
        assert_eq!(renamed["Flunder"]["properties"]["self"], reference("Flunder"));
    }
}
