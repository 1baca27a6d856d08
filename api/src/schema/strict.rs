//! Finds duplicate members of a JSON text, and sorts its field problems in document order. A parsed value
//! keeps neither duplicates nor order, so this module reads the text.

use super::decode::FieldProblem;
use super::limits::{MAX_FIELD_PROBLEMS, MAX_SPELLED_BYTES};
use super::path::{Path, PathStep};
use super::{Elem, Shape, Type};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// Most problems reported for one body.
pub const MAX_PROBLEMS: usize = MAX_FIELD_PROBLEMS;

/// Members that occur more than once in their object, in document order. A text that is not JSON has none;
/// the parser that runs next refuses it.
#[must_use]
pub fn duplicate_fields(json: &[u8]) -> Vec<FieldProblem> {
    in_document_order(json, Vec::new(), None)
}

/// The given unknown fields of a JSON text and its duplicate fields, each once and in document order.
/// Problems below an unknown field are not reported, and a repeated unknown field counts as unknown. `ty` is the type of the whole:
/// members below fields whose types have decoders of their own in Go, such as raw JSON, are not checked.
#[must_use]
pub fn in_document_order(
    json: &[u8],
    unknown: Vec<FieldProblem>,
    ty: Option<&'static Type>,
) -> Vec<FieldProblem> {
    let unknown: BTreeSet<FieldProblem> = unknown.into_iter().collect();
    let mut walk = Walk { path: Path::default(), unknown, found: Vec::new(), spelled: 0 };
    let mut reader = serde_json::Deserializer::from_slice(json);
    // An error ends the walk; problems found before it are kept.
    let _ = Seed(&mut walk, ty.map_or(ExpectedType::Untyped, ExpectedType::Struct)).deserialize(&mut reader);
    // Unknown fields that the walk did not reach, because of an error or the bound, are reported too.
    for problem in std::mem::take(&mut walk.unknown) {
        walk.report(problem);
    }
    walk.found
}

struct Walk {
    path: Path,
    unknown: BTreeSet<FieldProblem>,
    found: Vec<FieldProblem>,
    /// Total length of the path texts built so far; bounded by [`MAX_SPELLED_BYTES`].
    spelled: usize,
}

impl Walk {
    /// Reports the member if it is one of the unknown fields, and says whether it was.
    fn is_unknown(&mut self, name: &str) -> bool {
        if self.unknown.is_empty() || self.spelled > MAX_SPELLED_BYTES {
            return false;
        }
        let path = self.path.strict(name);
        self.spelled += path.len();
        let problem = FieldProblem::Unknown(path);
        let is_unknown = self.unknown.contains(&problem);
        if is_unknown {
            self.report(problem);
        }
        is_unknown
    }

    fn report(&mut self, problem: FieldProblem) {
        if self.found.len() < MAX_FIELD_PROBLEMS && !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }
}

/// What a type says about the values at a place of the text.
#[derive(Clone, Copy)]
enum ExpectedType {
    /// Any value; the rest of the text below it is checked.
    Untyped,
    /// A value of a struct.
    Struct(&'static Type),
    /// A list or map of values of one type.
    Values(Elem),
    /// A value whose type has a decoder of its own.
    Opaque,
}

impl ExpectedType {
    fn of_value(elem: Elem) -> Self {
        match elem {
            Elem::Struct(id) => Self::Struct(id.get()),
            Elem::Raw | Elem::Json | Elem::FieldsV1 => Self::Opaque,
            Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => Self::Opaque,
            Elem::String | Elem::Bool | Elem::Int32 | Elem::Int64 | Elem::Float64 | Elem::Bytes => {
                Self::Untyped
            }
            Elem::Time | Elem::MicroTime | Elem::Quantity | Elem::IntOrString | Elem::Items => Self::Untyped,
        }
    }

    /// The place of a member.
    fn member(self, name: &str) -> Self {
        match self {
            Self::Struct(ty) => match ty.field(name) {
                Some(field) if field.shape == Shape::One => Self::of_value(field.elem),
                Some(field) => Self::Values(field.elem),
                None => Self::Untyped,
            },
            Self::Values(elem) => Self::of_value(elem),
            other => other,
        }
    }

    /// The place of an item.
    fn item(self) -> Self {
        match self {
            Self::Values(elem) => Self::of_value(elem),
            Self::Struct(_) => Self::Untyped,
            other => other,
        }
    }
}

struct Seed<'a>(&'a mut Walk, ExpectedType);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.0.is_unknown(&name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if seen.contains(&name) && self.0.found.len() < MAX_FIELD_PROBLEMS {
                let problem = FieldProblem::Duplicate(self.0.path.strict(&name));
                self.0.report(problem);
            }
            match self.1.member(&name) {
                ExpectedType::Opaque => drop(map.next_value::<IgnoredAny>()?),
                expected => {
                    self.0.path.push(PathStep::Key(name.clone()));
                    map.next_value_seed(Seed(self.0, expected))?;
                    self.0.path.pop();
                }
            }
            seen.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for at in 0.. {
            let is_last = match self.1.item() {
                ExpectedType::Opaque => seq.next_element::<IgnoredAny>()?.is_none(),
                expected => {
                    self.0.path.push(PathStep::Index(at));
                    let item = seq.next_element_seed(Seed(self.0, expected))?;
                    self.0.path.pop();
                    item.is_none()
                }
            };
            if is_last {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
