//! [`Piece`]: encoded part of the OpenAPI v2 document. The whole document is large and definitions change one
//! at a time, so unchanged pieces are joined again without encoding.

use super::definition::Fragment;
use super::{DocumentScope, Parameters, common, info, schemas, swagger};
use crate::version::Minor;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Encoded members of the v2 document. Pieces of one document have no path or model in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Members of `paths`, as JSON without the braces.
    pub paths: String,
    /// Members of `definitions`, as JSON without the braces.
    pub definitions: String,
    /// Shared parameters in JSON, by name. Equal names have equal contents.
    pub parameters: BTreeMap<String, String>,
}

impl Piece {
    /// Models of these documents. Each model occurs once, although several v3 documents may have it.
    #[must_use]
    pub fn models_of(parts: &[&DocumentScope]) -> Self {
        let minor = parts.iter().map(|part| part.minor()).find(|minor| *minor != Minor::DEFAULT);
        let mut definitions =
            schemas::named(minor.unwrap_or_default(), parts.iter().flat_map(|part| part.roots()));
        parts.iter().for_each(|part| definitions.extend(part.lists()));
        definitions.values_mut().for_each(swagger::schema);
        Self { definitions: encoded(&definitions), ..Self::default() }
    }

    /// Paths of these documents, with the parameters that they refer to. Documents are encoded one by one, to
    /// limit memory.
    #[must_use]
    pub fn paths_of(parts: &[&DocumentScope]) -> Self {
        let (mut piece, mut parameters) = (Self::default(), Parameters::default());
        for part in parts {
            append(&mut piece.paths, &encoded(&part.paths(&mut parameters)));
        }
        piece.parameters = each_encoded(&parameters.shared);
        piece
    }

    /// Encodes paths, models and parameters.
    pub(super) fn of(
        paths: &Map<String, Value>,
        definitions: &Map<String, Value>,
        parameters: BTreeMap<String, String>,
    ) -> Self {
        Self { paths: encoded(paths), definitions: encoded(definitions), parameters }
    }

    /// Encodes the v2 fragments of custom resource definitions.
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

/// Texts of `/openapi/v2` around the members of all pieces: before `paths`, between `paths` and
/// `definitions`, and after them. Commas separate the pieces' members. `parameters` are those of all pieces. The document states
/// `minor`.
#[must_use]
pub fn frame<'p>(
    minor: Minor,
    parameters: impl Iterator<Item = &'p BTreeMap<String, String>>,
) -> [String; 3] {
    let shared: BTreeMap<&str, &str> =
        parameters.flatten().map(|(name, parameter)| (name.as_str(), parameter.as_str())).collect();
    let mut members = String::new();
    for (name, parameter) in shared {
        append(&mut members, &format!("{}:{parameter}", Value::from(name)));
    }
    let info = info(minor);
    let schemes = common::security_schemes();
    [
        format!(r#"{{"swagger":"2.0","info":{info},"paths":{{"#),
        r#"},"definitions":{"#.to_owned(),
        format!(
            r#"}},"parameters":{{{members}}},"securityDefinitions":{schemes},"security":[{{"BearerToken":[]}}]}}"#
        ),
    ]
}

/// Decodes models by name, from members of `definitions` as JSON without the braces.
#[must_use]
pub fn models(members: &str) -> BTreeMap<String, Value> {
    serde_json::from_str(&format!("{{{members}}}")).expect("it was written as members of an object")
}

/// Encodes the members of an object as JSON without the braces.
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
