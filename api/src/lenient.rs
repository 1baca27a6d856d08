//! Lenient deserialization: decodes API JSON into Rust structs by the rules of Go, where `null` and absence
//! mean the zero value. Structs generated from the OpenAPI schema demand members that the schema calls
//! required, but the API accepts objects without them. For example, a condition without `lastTransitionTime`
//! is valid, and its time is printed as `null`.
//!
//! Only absence is tolerated. A member of the wrong type is an error, since the API stores no such object,
//! and acting on half a spec is worse than acting on its last state. The server's own objects are values with
//! a field table (`schema`) and do not use this module.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Display;

/// Zero time of Go, which prints it as `null`.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// Zero quantity of Go.
const ZERO_QUANTITY: &str = "0";

/// Decodes `json` into a `T`. The JSON is decoded a second time, with zero values for `null` and absence,
/// only if plain decoding fails.
///
/// # Errors
/// The text is not JSON, or a member has the wrong type.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    match serde_json::from_slice(json) {
        Ok(read) => Ok(read),
        Err(error) if error.is_data() => from_value(&serde_json::from_slice(json)?),
        Err(error) => Err(error),
    }
}

/// Decodes `value` into a `T`, with zero values for `null` and absence.
///
/// # Errors
/// A member has the wrong type.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    let mut zeros = Zeros::new();
    loop {
        match T::deserialize(Node { value, zeros: &zeros }) {
            Ok(read) => return Ok(read),
            // Each round adds a member to `zeros`, so the loop ends.
            Err(Failure { missing: Some((Some(owner), member)), .. }) if zeros.insert((owner, member)) => {}
            Err(failure) => return Err(serde_json::Error::custom(failure)),
        }
    }
}

/// Members with the zero value where absent, by struct name.
type Zeros = BTreeSet<(&'static str, &'static str)>;

/// Error of decoding.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Failure {
    text: String,
    /// The absent required member, and its struct once known.
    missing: Option<(Option<&'static str>, &'static str)>,
}

impl serde::de::Error for Failure {
    fn custom<T: Display>(text: T) -> Self {
        Self { text: text.to_string(), missing: None }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { text: format!("missing field `{field}`"), missing: Some((None, field)) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::custom(error)
    }
}

/// Error about a value that is neither an object nor a list where one of them is expected. The value's own
/// deserializer would say the same, but the compiler would then generate every type's decoder a second time, for it.
fn mismatch(value: &Value, expected: &dyn Expected) -> Failure {
    let found = match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), ..) => Unexpected::Unsigned(number),
            (None, Some(number), _) => Unexpected::Signed(number),
            (None, None, Some(number)) => Unexpected::Float(number),
            (None, None, None) => Unexpected::Other("number"),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    Failure::invalid_type(found, expected)
}

/// Deserializer of one value.
#[derive(Clone, Copy)]
struct Node<'a> {
    value: &'a Value,
    zeros: &'a Zeros,
}

impl<'a> Node<'a> {
    fn with(self, value: &'a Value) -> Self {
        Self { value, zeros: self.zeros }
    }

    /// Visits the members of an object; `null` has none.
    fn members<V: Visitor<'a>>(self, absent: Vec<&'static str>, visitor: V) -> Result<V::Value, Failure> {
        let left = self.value.as_object().map(Map::iter);
        visitor.visit_map(Members { node: self, left, value: None, absent: absent.into_iter() })
    }
}

/// Deserializes scalars: zero for `null`, otherwise like `serde_json`.
macro_rules! scalars {
    ($($deserialize:ident $visit:ident $zero:expr;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            match self.value {
                Value::Null => visitor.$visit($zero),
                value => Ok(value.$deserialize(visitor)?),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Failure;

    scalars! {
        deserialize_bool visit_bool false;
        deserialize_i8 visit_i64 0;
        deserialize_i16 visit_i64 0;
        deserialize_i32 visit_i64 0;
        deserialize_i64 visit_i64 0;
        deserialize_u8 visit_u64 0;
        deserialize_u16 visit_u64 0;
        deserialize_u32 visit_u64 0;
        deserialize_u64 visit_u64 0;
        deserialize_f32 visit_f64 0.0;
        deserialize_f64 visit_f64 0.0;
        deserialize_str visit_str "";
        deserialize_string visit_str "";
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.value {
            Value::Object(_) => self.members(Vec::new(), visitor),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => Ok(number.deserialize_any(visitor)?),
            Value::String(text) => visitor.visit_borrowed_str(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let zero = |text: &'static str| -> StrDeserializer<'static, Failure> { text.into_deserializer() };
        match (self.value, name) {
            (Value::Null, "Time" | "MicroTime") => visitor.visit_newtype_struct(zero(ZERO_TIME)),
            (Value::Null, "Quantity") => visitor.visit_newtype_struct(zero(ZERO_QUANTITY)),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.value {
            Value::Null => visitor.visit_seq(Items { node: self, left: [].iter() }),
            Value::Array(items) => visitor.visit_seq(Items { node: self, left: items.iter() }),
            value => Err(mismatch(value, &visitor)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.value {
            Value::Null | Value::Object(_) => self.members(Vec::new(), visitor),
            value => Err(mismatch(value, &visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let stated = |field: &str| self.value.get(field).is_some();
        let read = match self.value {
            Value::Null | Value::Object(_) => {
                let absent = self.zeros.range((name, "")..).take_while(|(owner, _)| *owner == name);
                self.members(
                    absent.map(|(_, field)| *field).filter(|field| !stated(field)).collect(),
                    visitor,
                )
            }
            value => Err(mismatch(value, &visitor)),
        };
        read.map_err(|failure| match failure.missing {
            Some((None, field)) => Failure { missing: Some((Some(name), field)), ..failure },
            _ => failure,
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        Ok(self.value.deserialize_enum(name, variants, visitor)?)
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// Sequence access to the items of a list.
struct Items<'a> {
    node: Node<'a>,
    left: std::slice::Iter<'a, Value>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Failure> {
        self.left.next().map(|value| seed.deserialize(self.node.with(value))).transpose()
    }
}

/// Map access to the members of an object; absent members that count as `null` follow.
struct Members<'a> {
    node: Node<'a>,
    left: Option<serde_json::map::Iter<'a>>,
    value: Option<&'a Value>,
    absent: std::vec::IntoIter<&'static str>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        let name = match self.left.as_mut().and_then(Iterator::next) {
            Some((name, value)) => {
                self.value = Some(value);
                name.as_str()
            }
            None => match self.absent.next() {
                Some(name) => name,
                None => return Ok(None),
            },
        };
        let name: StrDeserializer<'_, Failure> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failure> {
        let value = self.value.take().unwrap_or(&Value::Null);
        seed.deserialize(self.node.with(value))
    }
}
