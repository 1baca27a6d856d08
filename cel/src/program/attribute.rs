//! Selections: what `a.b[c]` reads, and what each step costs.

use super::eval::{Evaluation, Slot};
use super::node::{Attribute, Qualifier, QualifierKey, Root};
use crate::error::EvalError;
use crate::value::{Key, List, Val};

impl<'a> Evaluation<'a, '_> {
    /// The value of an attribute that is an expression of its own.
    #[inline(never)]
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Result<Val<'a>, EvalError> {
        let value = self.resolve(attribute)?;
        if !attribute.test_only && !matches!(attribute.root, Root::Conditional(..)) {
            self.spend(1)?;
        }
        Ok(value)
    }

    /// The value of an attribute, without the cost of reading its root.
    fn resolve(&mut self, attribute: &'a Attribute) -> Result<Val<'a>, EvalError> {
        let test_only = attribute.test_only;
        if let Some(value) = self.field_of_element(attribute)? {
            return Ok(value);
        }
        let root = match &attribute.root {
            Root::Slot(slot) => self.slot(*slot)?,
            Root::Variable(name) => self.variable(name)?,
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
                self.resolve(chosen)?
            }
        };
        if attribute.qualifiers.is_empty() { Ok(root) } else { self.qualified(root, attribute) }
    }

    /// The field of an object in a variable of a loop, which is read in place; none for anything else, and if there is no such field.
    #[inline]
    fn field_of_element(&mut self, attribute: &'a Attribute) -> Result<Option<Val<'a>>, EvalError> {
        let (Root::Slot(slot), [qualifier], false) =
            (&attribute.root, &attribute.qualifiers[..], attribute.test_only)
        else {
            return Ok(None);
        };
        let (QualifierKey::Const(Val::String(field)), false) = (&qualifier.key, qualifier.optional) else {
            return Ok(None);
        };
        let Slot::Value(Ok(Val::Object(object))) = &self.slots[*slot] else { return Ok(None) };
        let found = object.get(field)?;
        if found.is_some() {
            self.spend(1)?;
        }
        Ok(found)
    }

    /// What the qualifiers of an attribute select from a value.
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
            let found = self.find(&value, &key)?;
            let tested = attribute.test_only && index == last;
            if tested {
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
            QualifierKey::Const(value) => Ok(match value {
                Val::String(text) => Val::str(text),
                other => other.clone(),
            }),
            QualifierKey::Attribute(attribute) => self.resolve(attribute),
            QualifierKey::Node(node) => self.eval(node),
        }
    }

    /// The part of a value that a key names, if it is there.
    fn find(&mut self, value: &Val<'a>, key: &Val<'a>) -> Result<Option<Val<'a>>, EvalError> {
        match (value, key) {
            (Val::Object(object), Val::String(field)) => object.get(field),
            (Val::Map(map), Val::String(crate::value::Text::Borrowed(name))) => map.get_str(name),
            (Val::Map(map), key) => map.get(key),
            (Val::List(list), key) => element(list, key),
            (Val::Optional(Some(inner)), key) => self.find(inner, key),
            // A value without parts has no part of any name.
            _ => Ok(None),
        }
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

fn missing(value: &Val<'_>, key: &Val<'_>) -> EvalError {
    match (value, Key::of(key)) {
        (Val::List(_), Some(Key::Int(index))) => EvalError::IndexOutOfBounds(index),
        (Val::List(_), _) => EvalError::IndexOutOfBounds(i64::MAX),
        _ => EvalError::NoSuchKey(crate::library::text_of(key).into_boxed_str()),
    }
}
