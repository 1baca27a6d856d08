//! Values that expressions read, compute and return.
//!
//! A value borrows strings from constants and JSON documents instead of copying them.

mod compare;
mod export;
mod json;
mod map;
mod text;
pub(crate) mod time;

use crate::error::EvalError;
pub(crate) use compare::{compare, equal};
use jiff::Timestamp;
pub(crate) use json::FieldName;
pub use json::{FieldShape, ListKind, ObjectShape, Shape};
pub(crate) use map::insert_new;
pub use map::{Key, Map, MapValue};
use serde_json::Value as Json;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
pub(crate) use text::text_of;

/// A value of an expression.
#[derive(Debug, Clone)]
pub enum Val<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// An object with declared fields.
    Object(Object<'a>),
    /// A type, by the name that `type()` gives.
    Type(Text<'a>),
    /// An optional value.
    Optional(Option<Arc<Val<'a>>>),
    /// A value that only functions of the environment can read.
    Opaque(Arc<dyn Opaque>),
}

/// A string: borrowed from a document or a program, or shared.
#[derive(Clone)]
pub enum Text<'a> {
    /// A string of the document or the program.
    Borrowed(&'a str),
    /// A string that the evaluation made.
    Shared(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<'a> From<Cow<'a, str>> for Text<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Borrowed(text),
            Cow::Owned(text) => Self::Shared(Arc::from(text)),
        }
    }
}

/// A value of an opaque type.
pub trait Opaque: fmt::Debug + Send + Sync {
    /// The name of the type.
    fn type_name(&self) -> &str;

    /// Whether the value equals another value, which may be of another opaque type.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// The value for a downcast to its Rust type.
    fn as_any(&self) -> &dyn Any;

    /// The size that costs count. The default is 1.
    fn size(&self) -> u64 {
        1
    }
}

/// A list: elements that the evaluation made, or a JSON array with the shape of its items.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// Elements in order.
    Owned(Arc<Vec<Val<'a>>>),
    /// A JSON array, the shape of its items, and the kind of list.
    Json(&'a [Json], &'a Shape, &'a ListKind),
}

impl<'a> List<'a> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(items) => items.len(),
            Self::Json(items, ..) => items.len(),
        }
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index.
    ///
    /// # Errors
    /// If the index is out of bounds, or if the item does not fit the shape.
    pub fn get(&self, index: usize) -> Result<Val<'a>, EvalError> {
        let missing = || EvalError::IndexOutOfBounds(i64::try_from(index).unwrap_or(i64::MAX));
        match self {
            Self::Owned(items) => items.get(index).cloned().ok_or_else(missing),
            Self::Json(items, shape, _) => shape.value(items.get(index).ok_or_else(missing)?),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Val<'a>, EvalError>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Copies of the elements.
    pub(crate) fn to_vec(&self) -> Result<Vec<Val<'a>>, EvalError> {
        match self {
            Self::Owned(items) => Ok(items.to_vec()),
            Self::Json(..) => self.iter().collect(),
        }
    }
}

/// An object with declared fields.
#[derive(Debug, Clone)]
pub enum Object<'a> {
    /// An object that the evaluation made: the name of its type, and the fields that are set.
    Owned(Arc<str>, Arc<std::collections::BTreeMap<Arc<str>, Val<'a>>>),
    /// A JSON object and its shape.
    Json(&'a serde_json::Map<String, Json>, &'a ObjectShape),
}

impl<'a> Object<'a> {
    /// The name of the type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Owned(name, _) => name,
            Self::Json(_, shape) => shape.name(),
        }
    }

    /// The value of the field with this name in expressions; none if the field is absent or `null`.
    ///
    /// # Errors
    /// If the field does not fit its shape.
    pub fn get(&self, field: &str) -> Result<Option<Val<'a>>, EvalError> {
        match self {
            Self::Owned(_, fields) => Ok(fields.get(field).cloned()),
            Self::Json(map, shape) => shape.field_value(map, field).transpose(),
        }
    }

    /// The names in expressions of the fields that are set, ascending.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Owned(_, fields) => fields.keys().map(|name| &**name).collect(),
            Self::Json(map, shape) => shape.present(map).collect(),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Owned(_, fields) => fields.len() as u64,
            Self::Json(map, _) => map.len() as u64,
        }
    }
}

impl<'a> Val<'a> {
    /// A string that the value owns.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// A borrowed string.
    #[must_use]
    pub fn str(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    /// A list of elements.
    #[must_use]
    pub fn list(items: Vec<Val<'a>>) -> Self {
        Self::List(List::Owned(Arc::new(items)))
    }

    /// An optional with a value.
    #[must_use]
    pub fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// An optional without a value.
    #[must_use]
    pub fn none() -> Self {
        Self::Optional(None)
    }

    /// A value of an opaque type.
    #[must_use]
    pub fn opaque(value: impl Opaque + 'static) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// The name that `type()` gives for the value.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Object(object) => object.type_name(),
            Self::Type(_) => "type",
            Self::Optional(_) => crate::types::OPTIONAL,
            Self::Opaque(value) => value.type_name(),
        }
    }

    /// The size that costs count: code points, bytes, elements or entries; 1 for other values.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Object(object) => object.size(),
            Self::Optional(Some(value)) => value.size(),
            Self::Opaque(value) => value.size(),
            _ => 1,
        }
    }

    /// The string, if the value is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The value as the Rust type `T`, if it is an opaque value of this type.
    #[must_use]
    pub fn as_opaque<T: 'static>(&self) -> Option<&T> {
        if let Self::Opaque(value) = self { value.as_any().downcast_ref() } else { None }
    }

    /// Whether the value is the zero value of its type: false, 0, empty or null.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Duration(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Object(object) => object.names().is_empty(),
            Self::Optional(value) => value.is_none(),
            Self::Timestamp(_) | Self::Type(_) | Self::Opaque(_) => false,
        }
    }
}

/// Equality of `==`. Values that do not fit their shape are not equal.
impl PartialEq for Val<'_> {
    fn eq(&self, other: &Self) -> bool {
        equal(self, other).unwrap_or(false)
    }
}

impl From<bool> for Val<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Val<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Val<'a> {
    fn from(text: &'a str) -> Self {
        Self::str(text)
    }
}
