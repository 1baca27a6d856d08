//! JSON documents as values. A shape gives each part of a document its type; expressions read the document in place.

use super::{List, Map, Object, Val, time};
use crate::error::EvalError;
use crate::types::Type;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type JsonObject = serde_json::Map<String, Json>;

/// The type of a part of a JSON document, and the way to read a value from it.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Any JSON, typed by its content. Integers are signed; those beyond 64 signed bits are floating-point numbers.
    Dyn,
    /// A boolean.
    Bool,
    /// A signed integer, written without a fraction.
    Int,
    /// A floating-point number, also if it is written without a fraction.
    Double,
    /// A string.
    String,
    /// Bytes, as a base64 string.
    Bytes,
    /// A duration, as a string such as `1h30m` or `3 days`.
    Duration,
    /// A timestamp, as a string in RFC 3339.
    Timestamp,
    /// A date, as a string such as `2024-02-29`; the value is the timestamp of its midnight in UTC.
    Date,
    /// An array of items of one shape.
    List(Arc<Shape>, ListKind),
    /// An object with any keys and values of one shape.
    Map(Arc<Shape>),
    /// An object with declared fields.
    Object(Arc<ObjectShape>),
}

/// The kind of a list, which determines equality and `+`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListKind {
    /// Equal if all elements are equal in order; `+` appends.
    #[default]
    Ordered,
    /// Equal without order; `+` appends the elements that the list lacks.
    Set,
    /// Equal without order. Elements are objects with these members of the document as keys: `+` replaces elements with equal keys and
    /// appends the others.
    Keyed(Vec<Box<str>>),
}

/// The fields of an object type.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectShape {
    name: Arc<str>,
    /// Fields by the names that expressions use, ascending.
    fields: Box<[(Box<str>, FieldShape)]>,
}

/// A field of an object type.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldShape {
    /// The field's name in the document. It may be a name that expressions cannot write.
    pub key: Box<str>,
    /// The shape of the field's value.
    pub shape: Shape,
}

/// Members up to which a JSON object finds a member by its index at least as fast as by its name.
const GUESSED_MEMBERS: usize = 11;

/// The field name of a selection such as `a.b`, with guesses where objects have the field.
///
/// One selection meets objects of one shape in nearly all evaluations, and most of them have the same members. The indices that the
/// last evaluation found then save two searches. Threads that evaluate one program may overwrite each other's guesses: every use
/// compares the name.
#[derive(Debug)]
pub(crate) struct FieldName {
    name: Arc<str>,
    /// The index among the fields of a shape.
    field: AtomicUsize,
    /// The index among the members of a JSON object.
    member: AtomicUsize,
}

impl FieldName {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self { name, field: AtomicUsize::new(0), member: AtomicUsize::new(0) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }
}

impl ObjectShape {
    /// An object type with fields by the names that expressions use. A later field replaces an earlier one of the same name.
    #[must_use]
    pub fn new(name: &str, fields: impl IntoIterator<Item = (Box<str>, FieldShape)>) -> Self {
        let sorted: BTreeMap<_, _> = fields.into_iter().collect();
        Self { name: Arc::from(name), fields: sorted.into_iter().collect() }
    }

    /// The name of the type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The field with this name in expressions.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&FieldShape> {
        self.index_of(name).map(|index| &self.fields[index].1)
    }

    /// The fields with their names in expressions, ascending by name.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &FieldShape)> {
        self.fields.iter().map(|(name, field)| (&**name, field))
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.binary_search_by(|(known, _)| (**known).cmp(name)).ok()
    }

    /// The field with this name in the document.
    pub(super) fn field_of_key(&self, key: &str) -> Option<&FieldShape> {
        let same = self.field(key).filter(|field| &*field.key == key);
        same.or_else(|| self.fields.iter().map(|(_, field)| field).find(|field| &*field.key == key))
    }

    pub(super) fn field_value<'a>(
        &'a self,
        map: &'a JsonObject,
        name: &str,
    ) -> Option<Result<Val<'a>, EvalError>> {
        let field = self.field(name)?;
        let value = map.get(&*field.key).filter(|value| !value.is_null())?;
        Some(field.shape.value(value))
    }

    /// A field's part of a document, with the part's shape; none if the field is undeclared, absent or `null`.
    #[inline]
    pub(crate) fn select<'a>(
        &'a self,
        map: &'a JsonObject,
        name: &FieldName,
    ) -> Option<(&'a Json, &'a Shape)> {
        let field = match self.fields.get(name.field.load(Ordering::Relaxed)) {
            Some((known, field)) if **known == *name.name => field,
            _ => self.search_field(name)?,
        };
        let guess = name.member.load(Ordering::Relaxed);
        let value = match map.iter().nth(guess) {
            Some((key, value)) if **key == *field.key => value,
            _ => search_member(map, &field.key, name)?,
        };
        if value.is_null() { None } else { Some((value, &field.shape)) }
    }

    #[inline(never)]
    fn search_field(&self, name: &FieldName) -> Option<&FieldShape> {
        let index = self.index_of(&name.name)?;
        name.field.store(index, Ordering::Relaxed);
        Some(&self.fields[index].1)
    }

    /// The names of the declared fields that the document has.
    pub(super) fn present<'a>(&'a self, map: &'a JsonObject) -> impl Iterator<Item = &'a str> {
        let is_set = |field: &FieldShape| map.get(&*field.key).is_some_and(|value| !value.is_null());
        self.fields.iter().filter(move |(_, field)| is_set(field)).map(|(name, _)| &**name)
    }
}

/// The member of a JSON object with this name. Its index becomes the guess of `name` if the object is small enough.
#[inline(never)]
fn search_member<'a>(map: &'a JsonObject, key: &str, name: &FieldName) -> Option<&'a Json> {
    if map.len() > GUESSED_MEMBERS {
        return map.get(key);
    }
    let index = map.keys().position(|known| *known == *key)?;
    name.member.store(index, Ordering::Relaxed);
    map.values().nth(index)
}

impl Shape {
    /// The type of values of this shape.
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

    /// Whether making a value of this shape parses or copies the document.
    pub(crate) fn is_parsed(&self) -> bool {
        matches!(self, Self::Bytes | Self::Duration | Self::Timestamp | Self::Date)
    }

    /// The value of a part of a document. `null` is `null` in every shape.
    ///
    /// # Errors
    /// If the part is of another type than the shape says.
    pub fn value<'a>(&'a self, json: &'a Json) -> Result<Val<'a>, EvalError> {
        match (self, json) {
            (Self::String, Json::String(text)) => Ok(Val::str(text)),
            (Self::Int, Json::Number(number)) => match number.as_i64() {
                Some(value) => Ok(Val::Int(value)),
                None => self.converted(json),
            },
            _ => self.converted(json),
        }
    }

    /// The value of a part of a document in any shape.
    #[inline(never)]
    fn converted<'a>(&'a self, json: &'a Json) -> Result<Val<'a>, EvalError> {
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
            (Self::Duration, _) => {
                Val::Duration(kstore_go_duration::parse_format(text()?).ok_or_else(mismatch)?)
            }
            (Self::Timestamp, _) => {
                Val::Timestamp(time::parse_format_timestamp(text()?).ok_or_else(mismatch)?)
            }
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
    /// The name of the expected type in errors.
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

/// The name of a document's type in errors: the Go type that encoding/json decodes to.
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

/// The alphabet of base64.
pub(super) const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes base64 with padding.
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
    // Go takes any bits behind the last byte.
    Some(bytes)
}
