//! [`Cut`]: what the OpenAPI v2 document of another API server says of one group and version, to be merged into ours. The rest of such
//! a document repeats what we say ourselves, sometimes in other words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Piece;

/// Where references to models and to shared parameters begin.
const DEFINITIONS: &str = "#/definitions/";
const PARAMETERS: &str = "#/parameters/";

/// The paths of one group and version, and the models and parameters that they need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
    parameters: Map<String, Value>,
}

impl Cut {
    /// Cuts out what is below `path`, such as `/apis/example.com/v1`.
    #[must_use]
    pub fn of(mut document: Value, path: &str) -> Self {
        // Another server's document may be any JSON.
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

    /// Its piece of a document that has these models already, by name. A model that is there in the same words is left out; one in
    /// other words gets another name, as in Kubernetes: `_v2` at its end, or the next free number.
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

/// Collects what `$ref` names in a value.
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

/// Lets references to renamed models name them anew.
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
    fn only_what_a_group_and_version_needs_is_cut_out() {
        let cut = Cut::of(document(), "/apis/g.io/v1");
        assert_eq!(cut.paths.keys().collect::<Vec<_>>(), ["/apis/g.io/v1", "/apis/g.io/v1/flunders"]);
        assert_eq!(cut.definitions.keys().collect::<Vec<_>>(), ["Flunder", "ObjectMeta"]);
        assert_eq!(cut.parameters.keys().collect::<Vec<_>>(), ["pretty"]);
        assert_eq!(Cut::of(json!(7), "/apis/g.io/v1"), Cut::default());
    }

    #[test]
    fn a_model_in_other_words_gets_another_name_and_one_in_the_same_words_is_shared() {
        let cut = Cut::of(document(), "/apis/g.io/v1");
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
