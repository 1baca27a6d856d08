//! [`Piece`]: a part of the OpenAPI v2 document, encoded. The document covers everything and is large, while one definition changes at a
//! time: pieces that stay are joined as they are.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Parameters, Part, common, schemas, swagger};
use crate::crd::openapi::Fragment;

/// Members of the v2 document. No two pieces of one document have paths or models of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Members of `paths`, as JSON without the braces.
    pub paths: String,
    /// Members of `definitions`, likewise.
    pub definitions: String,
    /// Shared parameters in JSON by name: a name stands for its content.
    pub parameters: BTreeMap<String, String>,
}

impl Piece {
    /// The models of these parts. Each is made once, although v3 has it in the document of each part that uses it.
    #[must_use]
    pub fn models_of(parts: &[&Part]) -> Self {
        let mut definitions = schemas::named(parts.iter().flat_map(|part| part.roots()));
        parts.iter().for_each(|part| definitions.extend(part.lists()));
        definitions.values_mut().for_each(swagger::schema);
        Self { definitions: encoded(&definitions), ..Self::default() }
    }

    /// The paths of these parts, and the parameters that they refer to. A part after the other, which keeps memory small.
    #[must_use]
    pub fn paths_of(parts: &[&Part]) -> Self {
        let (mut piece, mut parameters) = (Self::default(), Parameters::default());
        for part in parts {
            append(&mut piece.paths, &encoded(&part.paths(&mut parameters)));
        }
        piece.parameters = each_encoded(&parameters.shared);
        piece
    }

    /// These paths, models and parameters in JSON.
    pub(super) fn of(
        paths: &Map<String, Value>,
        definitions: &Map<String, Value>,
        parameters: BTreeMap<String, String>,
    ) -> Self {
        Self { paths: encoded(paths), definitions: encoded(definitions), parameters }
    }

    /// What definitions add; the fragments are those for v2.
    #[must_use]
    pub fn of_custom(fragments: &[Fragment]) -> Self {
        let mut piece = Self::default();
        for Fragment { schemas, paths, parameters, .. } in fragments {
            append(&mut piece.paths, &encoded(paths));
            append(&mut piece.definitions, &encoded(schemas));
            piece.parameters.extend(each_encoded(parameters));
        }
        piece
    }
}

/// The texts of the document at `/openapi/v2` around the members of all pieces, which commas separate: before those of `paths`, between
/// them and those of `definitions`, and after these. `parameters` are those of all pieces.
#[must_use]
pub fn frame<'p>(parameters: impl Iterator<Item = &'p BTreeMap<String, String>>) -> [String; 3] {
    let shared: BTreeMap<&str, &str> =
        parameters.flatten().map(|(name, parameter)| (name.as_str(), parameter.as_str())).collect();
    let mut members = String::new();
    for (name, parameter) in shared {
        append(&mut members, &format!("{}:{parameter}", Value::from(name)));
    }
    let info = json!({"title": "Kubernetes", "version": super::version()});
    let schemes = common::security_schemes();
    [
        format!(r#"{{"swagger":"2.0","info":{info},"paths":{{"#),
        r#"},"definitions":{"#.to_owned(),
        format!(
            r#"}},"parameters":{{{members}}},"securityDefinitions":{schemes},"security":[{{"BearerToken":[]}}]}}"#
        ),
    ]
}

/// Models by name, from members of `definitions` as JSON without the braces.
#[must_use]
pub fn models(members: &str) -> BTreeMap<String, Value> {
    serde_json::from_str(&format!("{{{members}}}")).expect("it was written as members of an object")
}

/// The members of an object as JSON without the braces.
fn encoded(members: &Map<String, Value>) -> String {
    let text = serde_json::to_string(members).expect("a value has string keys only");
    text[1..text.len() - 1].to_owned()
}

fn each_encoded(members: &Map<String, Value>) -> BTreeMap<String, String> {
    members.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
}

fn append(members: &mut String, more: &str) {
    if !members.is_empty() && !more.is_empty() {
        members.push(',');
    }
    members.push_str(more);
}
