//! Decoding of metadata in an object and its embedded objects, by the rules of Kubernetes' `ObjectMeta`.

use super::Origin;
use crate::field::{FieldError, FieldErrorKind, Path};
use crate::initializers;
use crate::schema::decode::{DecodeError, FieldProblem, Mode, normalize};
use crate::schema::limits::MAX_FIELD_PROBLEMS;
use crate::schema::object_meta;
use crate::structural::tree::{Schema, Tree};
use serde_json::{Map, Value};

/// Error of malformed metadata; the client gets a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// Error in the metadata of the object itself.
    #[error(transparent)]
    Object(#[from] DecodeError),
    /// Error in the metadata, apiVersion or kind of an embedded object.
    #[error("{0}")]
    Embedded(FieldError),
}

impl Tree {
    /// Decodes an object's metadata: checks types, writes the canonical form and removes unknown members.
    /// Returns those members for objects from requests.
    ///
    /// # Errors
    /// Metadata is malformed, unless the object comes from the store. The object must not be used then.
    pub fn decode_metadata(
        &self,
        object: &mut Value,
        origin: Origin,
    ) -> Result<Vec<FieldProblem>, MetadataError> {
        let Some(map) = object.as_object_mut() else { return Ok(Vec::new()) };
        let mut decoder = Decoder { origin, problems: Vec::new() };
        // The store has the member only if a server with initializers has written it.
        let initializers = match origin {
            Origin::Storage => map.get_mut("metadata").and_then(initializers::take_from),
            Origin::Request | Origin::Conversion | Origin::Apply => None,
        };
        decoder.metadata(map, &Path::ROOT)?;
        if initializers.is_some() {
            initializers::put(object, initializers);
        }
        Ok(decoder.problems)
    }

    /// Decodes the metadata of embedded objects like [`Self::decode_metadata`], and checks that their
    /// apiVersion and kind are strings.
    ///
    /// # Errors
    /// Those of [`Self::decode_metadata`].
    pub fn decode_embedded(
        &self,
        object: &mut Value,
        origin: Origin,
    ) -> Result<Vec<FieldProblem>, MetadataError> {
        let mut decoder = Decoder { origin, problems: Vec::new() };
        decoder.walk(object, self.root(), &Path::ROOT)?;
        decoder.problems.sort();
        Ok(decoder.problems)
    }
}

struct Decoder {
    origin: Origin,
    problems: Vec<FieldProblem>,
}

impl Decoder {
    fn walk(&mut self, value: &mut Value, schema: Schema<'_>, path: &Path<'_>) -> Result<(), MetadataError> {
        if !schema.below.embedded {
            return Ok(());
        }
        match value {
            Value::Object(map) => {
                if schema.flags.embedded {
                    self.embedded(map, path)?;
                }
                for (name, value) in map.iter_mut() {
                    let is_property = schema.node().property(name).is_some();
                    let step = if is_property { path.child(name) } else { path.key(name) };
                    if let Some(schema) = schema.member(name) {
                        self.walk(value, schema, &step)?;
                    }
                }
                Ok(())
            }
            Value::Array(items) => {
                let Some(schema) = schema.items() else { return Ok(()) };
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(at, item)| self.walk(item, schema, &path.index(at)))
            }
            _ => Ok(()),
        }
    }

    fn embedded(&mut self, map: &mut Map<String, Value>, path: &Path<'_>) -> Result<(), MetadataError> {
        for name in ["apiVersion", "kind"] {
            let Some(value) = map.get(name).filter(|value| !value.is_string()) else { continue };
            if self.origin != Origin::Storage {
                return Err(invalid(&path.child(name), value, "must be a string".to_owned()));
            }
            map.remove(name);
        }
        let before = map.get("metadata").cloned();
        self.metadata(map, path)
            .map_err(|error| invalid(&path.child("metadata"), &before.unwrap_or_default(), error.to_string()))
    }

    /// Decodes the metadata of an object.
    fn metadata(&mut self, map: &mut Map<String, Value>, path: &Path<'_>) -> Result<(), DecodeError> {
        let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        let decoded = match self.origin {
            Origin::Storage => Ok(drop_malformed(metadata)),
            Origin::Request | Origin::Conversion | Origin::Apply => {
                normalize(metadata, object_meta(), Mode::Whole)
            }
        };
        let problems = decoded?;
        if self.origin == Origin::Request {
            let prefix = path.child("metadata");
            let room = MAX_FIELD_PROBLEMS.saturating_sub(self.problems.len());
            self.problems.extend(problems.into_iter().take(room).map(|problem| below(&prefix, problem)));
        }
        Ok(())
    }
}

/// Decodes each member separately and drops malformed ones.
fn drop_malformed(metadata: &mut Value) -> Vec<FieldProblem> {
    if let Value::Object(map) = metadata {
        map.retain(|name, value| {
            let mut alone = Value::Object(Map::from_iter([(name.clone(), std::mem::take(value))]));
            let is_kept = normalize(&mut alone, object_meta(), Mode::Whole).is_ok();
            *value = alone[name.as_str()].take();
            is_kept && !value.is_null()
        });
    }
    Vec::new()
}

fn below(prefix: &Path<'_>, problem: FieldProblem) -> FieldProblem {
    let location = |path: String| prefix.child(&path).to_string();
    match problem {
        FieldProblem::Unknown(path) => FieldProblem::Unknown(location(path)),
        FieldProblem::Duplicate(path) => FieldProblem::Duplicate(location(path)),
    }
}

fn invalid(path: &Path<'_>, value: &Value, detail: String) -> MetadataError {
    let value = Some(value.to_string());
    let field = path.to_string();
    MetadataError::Embedded(FieldError { kind: FieldErrorKind::Invalid, field, value, detail })
}
