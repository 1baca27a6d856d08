//! JSON documents as values: a shape says of each part which type it has, and the document is read in place.

use super::{List, Map, Object, Val, time};
use crate::error::EvalError;
use crate::types::Type;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a part of a JSON document presents itself as a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// By what it is: texts, booleans, numbers, lists, maps, null. Whole numbers are signed, those beyond 64 signed bits
    /// floating-point.
    Dyn,
    /// A boolean.
    Bool,
    /// A whole number, written without a fraction.
    Int,
    /// A number, whole ones included, as floating-point number.
    Double,
    /// A text.
    String,
    /// Bytes in base64.
    Bytes,
    /// A text such as `1h30m`.
    Duration,
    /// A text in RFC 3339.
    Timestamp,
    /// A text such as `2024-02-29`, as the beginning of that day.
    Date,
    /// An array, and how it compares and merges.
    List(Arc<Shape>, ListKind),
    /// An object with any keys and values of one shape.
    Map(Arc<Shape>),
    /// An object with declared fields.
    Object(Arc<ObjectShape>),
}

/// How lists compare and what `+` makes of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListKind {
    /// Element by element in order; `+` appends.
    #[default]
    Ordered,
    /// Without order; `+` appends what is not there.
    Set,
    /// Without order, elements being objects known by these fields of the document; `+` replaces elements with the same values
    /// there and appends the others.
    Keyed(Vec<Box<str>>),
}

/// The fields of an object type.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectShape {
    name: Arc<str>,
    fields: BTreeMap<Box<str>, FieldShape>,
}

/// A field of an object type.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldShape {
    /// The name in the document, which may be none that expressions can write.
    pub key: Box<str>,
    /// How the value presents itself.
    pub shape: Shape,
}

impl ObjectShape {
    /// An object type with fields by the names that expressions use.
    #[must_use]
    pub fn new(name: &str, fields: impl IntoIterator<Item = (Box<str>, FieldShape)>) -> Self {
        Self { name: Arc::from(name), fields: fields.into_iter().collect() }
    }

    /// The name of the type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A field by the name that expressions use.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&FieldShape> {
        self.fields.get(name)
    }

    /// The fields by the names that expressions use.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &FieldShape)> {
        self.fields.iter().map(|(name, field)| (&**name, field))
    }

    /// The field whose name in the document is `key`.
    pub(super) fn field_of_key(&self, key: &str) -> Option<&FieldShape> {
        let same = self.fields.get(key).filter(|field| &*field.key == key);
        same.or_else(|| self.fields.values().find(|field| &*field.key == key))
    }

    pub(super) fn field_value<'a>(
        &'a self,
        map: &'a serde_json::Map<String, Json>,
        name: &str,
    ) -> Option<Result<Val<'a>, EvalError>> {
        let field = self.fields.get(name)?;
        let value = map.get(&*field.key).filter(|value| !value.is_null())?;
        Some(field.shape.value(value))
    }

    /// The names of the declared fields that the document has.
    pub(super) fn present<'a>(
        &'a self,
        map: &'a serde_json::Map<String, Json>,
    ) -> impl Iterator<Item = &'a str> {
        let there = |field: &FieldShape| map.get(&*field.key).is_some_and(|value| !value.is_null());
        self.fields.iter().filter(move |(_, field)| there(field)).map(|(name, _)| &**name)
    }
}

impl Shape {
    /// The type that expressions see.
    #[must_use]
    pub fn ty(&self) -> Type {
        match self {
            Self::Dyn => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Double => Type::Double,
            Self::String => Type::String,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp | Self::Date => Type::Timestamp,
            Self::List(items, _) => Type::list(items.ty()),
            Self::Map(values) => Type::map(Type::String, values.ty()),
            Self::Object(shape) => Type::Object(shape.name.clone()),
        }
    }

    /// The value that a part of a document is. A `null` is `null` in every shape.
    ///
    /// # Errors
    /// If the part is of another type than the shape says.
    pub fn value<'a>(&'a self, json: &'a Json) -> Result<Val<'a>, EvalError> {
        let mismatch = || {
            let (found, wanted) = (kind(json), self.wanted());
            EvalError::other(format!("invalid data, expected {wanted}, got {found}"))
        };
        let text = || json.as_str().ok_or_else(mismatch);
        Ok(match (self, json) {
            (_, Json::Null) => Val::Null,
            (Self::Dyn, _) => dynamic(json),
            (Self::Bool, Json::Bool(value)) => Val::Bool(*value),
            (Self::Int, _) => Val::Int(json.as_i64().ok_or_else(mismatch)?),
            (Self::Double, _) => Val::Double(json.as_f64().ok_or_else(mismatch)?),
            (Self::String, Json::String(text)) => Val::str(text),
            (Self::Bytes, _) => Val::Bytes(Arc::from(base64(text()?).ok_or_else(mismatch)?)),
            (Self::Duration, _) => Val::Duration(time::parse_duration(text()?).ok_or_else(mismatch)?),
            (Self::Timestamp, _) => Val::Timestamp(time::parse_timestamp(text()?).ok_or_else(mismatch)?),
            (Self::Date, _) => {
                let midnight = format!("{}T00:00:00Z", text()?);
                Val::Timestamp(time::parse_timestamp(&midnight).ok_or_else(mismatch)?)
            }
            (Self::List(items, kind), Json::Array(array)) => Val::List(List::Json(array, items, kind)),
            (Self::Map(values), Json::Object(map)) => Val::Map(Map::Json(map, values)),
            (Self::Object(shape), Json::Object(map)) => Val::Object(Object::Json(map, shape)),
            _ => return Err(mismatch()),
        })
    }
}

impl Shape {
    /// What a document should have, as errors name it.
    fn wanted(&self) -> &'static str {
        match self {
            Self::Dyn => "any",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "float",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp | Self::Date => "timestamp",
            Self::List(..) => "list",
            Self::Map(_) | Self::Object(_) => "map",
        }
    }
}

/// What a document has, as errors name it: by the types that Go decodes JSON into.
fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "nil",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

static DYN: Shape = Shape::Dyn;
static ORDERED: ListKind = ListKind::Ordered;

fn dynamic(json: &Json) -> Val<'_> {
    match json {
        Json::Null => Val::Null,
        Json::Bool(value) => Val::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(value) => Val::Int(value),
            None => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Val::str(text),
        Json::Array(items) => Val::List(List::Json(items, &DYN, &ORDERED)),
        Json::Object(map) => Val::Map(Map::Json(map, &DYN)),
    }
}

/// The digits of base64.
pub(super) const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes of base64 with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0);
    for digit in digits.bytes() {
        bits = bits << 6 | BASE64.iter().position(|known| *known == digit)? as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0).then_some(bytes)
}
