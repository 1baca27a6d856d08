//! Selections such as `a.b[c]`: their values, and the cost of each selection.

use super::eval::{Evaluation, Slot};
use super::node::{Attribute, Qualifier, QualifierKey, Root};
use crate::error::EvalError;
use crate::value::{Key, List, Object, ObjectShape, Shape, Text, Val};
use serde_json::Value as Json;

type JsonObject = serde_json::Map<String, Json>;

/// The outcome of selections that are followed in a document without making values.
pub(super) enum Selected<'a> {
    /// A part of the document and its shape.
    Part(&'a Json, &'a Shape),
    /// The last field is undeclared, absent or `null`.
    Absent,
    /// The selections leave the objects of the document, or a field before the last is missing.
    Unknown,
}

impl<'a> Evaluation<'a, '_> {
    /// The value of an attribute node.
    #[inline(never)]
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Result<Val<'a>, EvalError> {
        let reads_root = !attribute.test_only && !matches!(attribute.root, Root::Conditional(..));
        self.read(attribute, u64::from(reads_root))
    }

    /// The value of an attribute. Reading its root costs `root_cost`, spent last.
    #[inline]
    fn read(&mut self, attribute: &'a Attribute, root_cost: u64) -> Result<Val<'a>, EvalError> {
        let value = match (self.selected(attribute), attribute.test_only) {
            (Selected::Part(part, shape), false) => shape.value(part),
            (Selected::Part(part, shape), true) => shape.value(part).map(|_| Val::Bool(true)),
            (Selected::Absent, true) => Ok(Val::Bool(false)),
            _ => return self.resolve(attribute, root_cost),
        };
        if value.is_err() {
            return self.resolve(attribute, root_cost);
        }
        self.spend_units(attribute.qualifiers.len() as u64 + root_cost)?;
        value
    }

    /// The part of a document that an attribute reads, if it starts from a variable and selects fields. Spends nothing.
    #[inline]
    pub(super) fn selected(&mut self, attribute: &'a Attribute) -> Selected<'a> {
        let Root::Slot(slot) = attribute.root else { return Selected::Unknown };
        match self.loaded(slot) {
            Slot::Element(Json::Object(map), Shape::Object(shape)) => follow(map, shape, attribute),
            Slot::Element(item, shape) if attribute.qualifiers.is_empty() && !shape.is_parsed() => {
                Selected::Part(item, shape)
            }
            Slot::Value(Ok(Val::Object(Object::Json(map, shape)))) => follow(map, shape, attribute),
            _ => Selected::Unknown,
        }
    }

    /// The value of any attribute, with the cost that [`Self::read`] has.
    #[inline(never)]
    fn resolve(&mut self, attribute: &'a Attribute, root_cost: u64) -> Result<Val<'a>, EvalError> {
        let test_only = attribute.test_only;
        let root = match &attribute.root {
            Root::Slot(slot) => self.slot(*slot)?,
            Root::LazyField(name) => {
                self.spend(1)?;
                if test_only && attribute.qualifiers.is_empty() {
                    return Ok(Val::Bool((self.lookup)(name).is_some()));
                }
                (self.lookup)(name).unwrap_or_else(|| {
                    let field = name.rsplit('.').next().unwrap_or(name);
                    Err(EvalError::NoSuchKey(Box::from(field)))
                })?
            }
            Root::Relative(node) => self.eval(node)?,
            Root::Conditional(condition, yes, no) => {
                let chosen = if self.test(condition)? { yes } else { no };
                self.read(chosen, 0)?
            }
        };
        let value = if attribute.qualifiers.is_empty() { root } else { self.qualified(root, attribute)? };
        self.spend(root_cost)?;
        Ok(value)
    }

    /// The result of an attribute's selections from a value.
    #[inline(never)]
    fn qualified(&mut self, root: Val<'a>, attribute: &'a Attribute) -> Result<Val<'a>, EvalError> {
        let (mut value, mut is_optional) = match root {
            Val::Optional(None) if attribute.test_only => return Ok(Val::Bool(false)),
            Val::Optional(None) => return Ok(Val::none()),
            Val::Optional(Some(value)) => (Val::clone(&value), true),
            value => (value, false),
        };
        let last = attribute.qualifiers.len() - 1;
        for (index, qualifier) in attribute.qualifiers.iter().enumerate() {
            is_optional |= qualifier.optional;
            let key = self.key(qualifier)?;
            let found = select(&value, &key)?;
            if attribute.test_only && index == last {
                self.spend(1)?;
                return Ok(Val::Bool(found.is_some()));
            }
            if found.is_some() || !is_optional {
                self.spend(1)?;
            }
            match found {
                Some(found) => value = found,
                None if is_optional && attribute.test_only => return Ok(Val::Bool(false)),
                None if is_optional => return Ok(Val::none()),
                None => return Err(missing(&value, &key)),
            }
        }
        Ok(if is_optional { Val::some(value) } else { value })
    }

    fn key(&mut self, qualifier: &'a Qualifier) -> Result<Val<'a>, EvalError> {
        match &qualifier.key {
            QualifierKey::Field(name) => Ok(Val::str(name.as_str())),
            QualifierKey::Const(value) => Ok(value.clone()),
            QualifierKey::Attribute(attribute) => self.read(attribute, 0),
            QualifierKey::Node(node) => self.eval(node),
        }
    }
}

/// Follows the selections of an attribute from an object of a document.
fn follow<'a>(mut map: &'a JsonObject, mut shape: &'a ObjectShape, attribute: &'a Attribute) -> Selected<'a> {
    let Some((last, outer)) = attribute.qualifiers.split_last() else { return Selected::Unknown };
    for qualifier in outer {
        match qualifier.field().and_then(|name| shape.select(map, name)) {
            Some((Json::Object(inner), Shape::Object(inner_shape))) => (map, shape) = (inner, inner_shape),
            _ => return Selected::Unknown,
        }
    }
    match last.field().map(|name| shape.select(map, name)) {
        Some(Some((part, shape))) => Selected::Part(part, shape),
        Some(None) => Selected::Absent,
        None => Selected::Unknown,
    }
}

/// The part of a value with this key; none if the value has no such part.
fn select<'a>(value: &Val<'a>, key: &Val<'a>) -> Result<Option<Val<'a>>, EvalError> {
    match (value, key) {
        (Val::Object(object), Val::String(field)) => object.get(field),
        (Val::Map(map), Val::String(Text::Borrowed(name))) => {
            Ok(map.get_str(name)?.or_else(|| map.default_value()))
        }
        (Val::Map(map), key) => Ok(map.get(key)?.or_else(|| map.default_value())),
        (Val::List(list), key) => element(list, key),
        (Val::Optional(Some(inner)), key) => select(inner, key),
        _ => Ok(None),
    }
}

fn element<'a>(list: &List<'a>, key: &Val<'a>) -> Result<Option<Val<'a>>, EvalError> {
    match Key::of(key) {
        Some(Key::Int(index)) => match usize::try_from(index) {
            Ok(index) if index < list.len() => list.get(index).map(Some),
            _ => Ok(None),
        },
        Some(Key::Uint(_)) => Ok(None),
        _ => Err(EvalError::other(format!("unsupported index type '{}' in list", key.type_name()))),
    }
}

/// The error for a key that a value does not have.
fn missing(value: &Val<'_>, key: &Val<'_>) -> EvalError {
    match (value, Key::of(key)) {
        (Val::List(_), Some(Key::Int(index))) => EvalError::IndexOutOfBounds(index),
        (Val::List(_), _) => EvalError::IndexOutOfBounds(i64::MAX),
        _ => EvalError::NoSuchKey(crate::value::text_of(key).into_boxed_str()),
    }
}
