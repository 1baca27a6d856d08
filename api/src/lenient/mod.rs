//! Lenient deserialization: decodes API JSON into Rust structs by the rules of Go, where `null` and absence
//! mean the zero value. Structs generated from the OpenAPI schema demand members that the schema calls
//! required, but the API accepts objects without them. For example, a condition without `lastTransitionTime`
//! is valid, and its time is printed as `null`.
//!
//! Only absence is tolerated. A member of the wrong type is an error, since the API stores no such object,
//! and acting on half a spec is worse than acting on its last state. The server's own objects are values with
//! a field table (`schema`) and do not use this module.
//!
//! Strict and lenient decoding are one deserializer, `Text`, which asks its `Decoding` what to tolerate: for each kind of deserializer
//! the compiler generates the decoders of all types again, and they are a good part of the program.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde_json::Value;
use serde_json::de::SliceRead;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

/// Decodes `json` into a `T`. Plain decoding is tried first; `null` and absence become zero values only if it fails.
///
/// # Errors
/// The text is not JSON, or a member has the wrong type.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    decode(json, Level::Inner)
}

/// Decodes an object like [`from_slice`], without `metadata.managedFields`: their text is skipped. Only programs that show field managers
/// need them, and they are a third of many objects.
///
/// # Errors
/// The text is not JSON, or a member has the wrong type.
pub fn without_managed_fields<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    decode(json, Level::Object)
}

/// Decodes `value` into a `T`, with zero values for `null` and absence.
///
/// # Errors
/// A member has the wrong type.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    from_slice(&serde_json::to_vec(value)?)
}

fn decode<T: DeserializeOwned>(json: &[u8], level: Level) -> Result<T, serde_json::Error> {
    let mut decoding = Decoding { is_lenient: false, zeros: BTreeSet::new(), missing: Cell::new(None) };
    loop {
        let mut text = serde_json::Deserializer::from_slice(json);
        let read = T::deserialize(Text { inner: &mut text, decoding: &decoding, level });
        let error = match read.and_then(|read| text.end().map(|()| read)) {
            Ok(read) => return Ok(read),
            Err(error) => error,
        };
        // Each round adds a member to `zeros`, or is the first lenient one, so the loop ends.
        let is_new = decoding.missing.take().is_some_and(|member| decoding.zeros.insert(member));
        if !error.is_data() || (decoding.is_lenient && !is_new) {
            return Err(error);
        }
        decoding.is_lenient = true;
    }
}

/// What one round of decoding tolerates, and what it failed at.
struct Decoding {
    /// Whether `null` is a zero value.
    is_lenient: bool,
    /// Members with the zero value where absent, by struct name.
    zeros: BTreeSet<(&'static str, &'static str)>,
    /// The absent required member that ended the round, with its struct.
    missing: Cell<Option<(&'static str, &'static str)>>,
}

impl Decoding {
    /// Remembers the member that an error calls missing, for the innermost struct.
    fn record_missing(&self, error: &dyn fmt::Display, owner: &'static str, fields: &'static [&'static str]) {
        if self.missing.get().is_some() {
            return;
        }
        let text = error.to_string();
        let name = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        let member = name.and_then(|name| fields.iter().find(|field| **field == name));
        self.missing.set(member.map(|member| (owner, *member)));
    }

    /// The members of a struct that may be absent.
    fn absent(&self, owner: &'static str) -> Vec<&'static str> {
        if self.zeros.is_empty() || owner.is_empty() {
            return Vec::new();
        }
        let members = self.zeros.range((owner, "")..).take_while(|(struct_name, _)| *struct_name == owner);
        members.map(|(_, member)| *member).collect()
    }
}

/// Position of a map in an object whose managed fields are skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Metadata,
    /// Anywhere else, or nothing is skipped.
    Inner,
}

/// JSON text of a newtype's zero value, where it is not that of its content.
fn zero_of_newtype(name: &str) -> Option<&'static str> {
    match name {
        // Zero time of Go, which prints it as `null`.
        "Time" | "MicroTime" => Some("\"0001-01-01T00:00:00Z\""),
        "Quantity" => Some("\"0\""),
        _ => None,
    }
}

/// Deserializer of one value, or a visitor or seed around it.
#[derive(Clone, Copy)]
struct Text<'s, D> {
    inner: D,
    decoding: &'s Decoding,
    level: Level,
}

/// Deserializes scalars; `null` is zero where that is tolerated.
macro_rules! scalars {
    ($($deserialize:ident $visit:ident $zero:expr;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            struct OrZero<V>(V);

            impl<'de, V: Visitor<'de>> Visitor<'de> for OrZero<V> {
                type Value = V::Value;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.expecting(f)
                }

                fn visit_none<E: Error>(self) -> Result<V::Value, E> {
                    self.0.$visit($zero)
                }

                fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
                    inner.$deserialize(self.0)
                }
            }

            match self.decoding.is_lenient {
                true => self.inner.deserialize_option(OrZero(visitor)),
                false => self.inner.$deserialize(visitor),
            }
        }
    )*};
}

/// Deserializes as the text's own deserializer does.
macro_rules! plain {
    ($($deserialize:ident)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$deserialize(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Text<'_, D> {
    type Error = D::Error;

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

    plain! {
        deserialize_any deserialize_i128 deserialize_u128 deserialize_char deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = Passed(Text { inner: visitor, decoding: self.decoding, level: self.level });
        self.inner.deserialize_option(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Text { inner: visitor, decoding: self.decoding, level: self.level };
        match zero_of_newtype(name) {
            Some(zero) if self.decoding.is_lenient => {
                self.inner.deserialize_option(NewtypeOrZero { visitor, name, zero })
            }
            _ => self.inner.deserialize_newtype_struct(name, Passed(visitor)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = SeqVisitor(Text { inner: visitor, decoding: self.decoding, level: Level::Inner });
        match self.decoding.is_lenient {
            true => self.inner.deserialize_option(SeqOrZero(visitor)),
            false => self.inner.deserialize_seq(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.members("", visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let decoding = self.decoding;
        self.members(name, visitor).inspect_err(|error| decoding.record_missing(error, name, fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }
}

impl<'de, D: Deserializer<'de>> Text<'_, D> {
    /// Visits the members of an object; `owner` is the name of the struct, empty for maps.
    fn members<V: Visitor<'de>>(self, owner: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        let text = Text { inner: visitor, decoding: self.decoding, level: self.level };
        let visitor = MapVisitor { text, owner };
        match self.decoding.is_lenient {
            true => self.inner.deserialize_option(MapOrZero(visitor)),
            false => self.inner.deserialize_map(visitor),
        }
    }
}

/// Deserializer of the text of a zero value.
fn zero<'de>(text: &'static str) -> serde_json::Deserializer<SliceRead<'de>> {
    serde_json::Deserializer::from_slice(text.as_bytes())
}

/// Implements a visitor that passes on what its inner one expects.
macro_rules! visitor {
    ($name:ident, $self:ident => $inner:expr, { $($methods:tt)* }) => {
        impl<'de, V: Visitor<'de>> Visitor<'de> for $name<'_, V> {
            type Value = V::Value;

            fn expecting(&$self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $inner.expecting(f)
            }

            $($methods)*
        }
    };
}

/// Visitor of an option or a newtype, whose content is decoded likewise.
struct Passed<'s, V>(Text<'s, V>);

visitor!(Passed, self => self.0.inner, {
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let content = Text { inner, decoding: self.0.decoding, level: self.0.level };
        self.0.inner.visit_some(content)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let content = Text { inner, decoding: self.0.decoding, level: self.0.level };
        self.0.inner.visit_newtype_struct(content)
    }

    // Only raw JSON, a newtype by name, is visited like this.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.inner.visit_map(map)
    }
});

/// Visitor of a newtype whose zero value is not that of its content.
struct NewtypeOrZero<'s, V> {
    visitor: Text<'s, V>,
    name: &'static str,
    zero: &'static str,
}

visitor!(NewtypeOrZero, self => self.visitor.inner, {
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        zero(self.zero).deserialize_newtype_struct(self.name, Passed(self.visitor)).map_err(E::custom)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        inner.deserialize_newtype_struct(self.name, Passed(self.visitor))
    }
});

/// Visitor of a list.
struct SeqVisitor<'s, V>(Text<'s, V>);

visitor!(SeqVisitor, self => self.0.inner, {
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        let items = Items(Text { inner: seq, decoding: self.0.decoding, level: Level::Inner });
        self.0.inner.visit_seq(items)
    }
});

/// Visitor of a list or `null`, which is an empty one.
struct SeqOrZero<'s, V>(SeqVisitor<'s, V>);

visitor!(SeqOrZero, self => self.0.0.inner, {
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        zero("[]").deserialize_seq(self.0).map_err(E::custom)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        inner.deserialize_seq(self.0)
    }
});

/// Visitor of an object. A list is an error where a struct is expected, as in Go, although the structs that serde derives take one.
struct MapVisitor<'s, V> {
    text: Text<'s, V>,
    owner: &'static str,
}

visitor!(MapVisitor, self => self.text.inner, {
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let Self { text, owner } = self;
        let absent = text.decoding.absent(owner);
        let access = Text { inner: map, decoding: text.decoding, level: text.level };
        text.inner.visit_map(Members { access, absent, value: MemberValue::Stated(Level::Inner) })
    }
});

/// Visitor of an object or `null`, which is an empty one.
struct MapOrZero<'s, V>(MapVisitor<'s, V>);

visitor!(MapOrZero, self => self.0.text.inner, {
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        zero("{}").deserialize_map(self.0).map_err(E::custom)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        inner.deserialize_map(self.0)
    }
});

/// Seed of a member or item.
impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Text<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let content = Text { inner, decoding: self.decoding, level: self.level };
        self.inner.deserialize(content)
    }
}

/// Sequence access to the items of a list.
struct Items<'s, A>(Text<'s, A>);

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let Text { inner, decoding, level } = &mut self.0;
        inner.next_element_seed(Text { inner: seed, decoding, level: *level })
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.inner.size_hint()
    }
}

/// Map access to the members of an object; absent members that count as `null` follow.
struct Members<'s, A> {
    access: Text<'s, A>,
    /// Members that may be absent and were not stated so far.
    absent: Vec<&'static str>,
    value: MemberValue,
}

/// Value of the member whose name was read last.
#[derive(Clone, Copy)]
enum MemberValue {
    /// The object states it, on this level.
    Stated(Level),
    Absent,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(name) = self.next_name()? else { return Ok(None) };
        let name: StrDeserializer<'_, A::Error> = name.as_str().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let decoding = self.access.decoding;
        match self.value {
            MemberValue::Stated(level) => {
                self.access.inner.next_value_seed(Text { inner: seed, decoding, level })
            }
            MemberValue::Absent => {
                let seed = Text { inner: seed, decoding, level: Level::Inner };
                seed.deserialize(&mut zero("null")).map_err(A::Error::custom)
            }
        }
    }
}

impl<'de, A: MapAccess<'de>> Members<'_, A> {
    /// The name of the next member that is not skipped.
    fn next_name(&mut self) -> Result<Option<Name<'de>>, A::Error> {
        while let Some(name) = self.access.inner.next_key_seed(NameSeed(PhantomData))? {
            let level = match (self.access.level, name.as_str()) {
                (Level::Metadata, "managedFields") => {
                    self.access.inner.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Level::Object, "metadata") => Level::Metadata,
                _ => Level::Inner,
            };
            if !self.absent.is_empty() {
                self.absent.retain(|absent| *absent != name.as_str());
            }
            self.value = MemberValue::Stated(level);
            return Ok(Some(name));
        }
        self.value = MemberValue::Absent;
        Ok(self.absent.pop().map(Name::Borrowed))
    }
}

/// Name of a member.
enum Name<'de> {
    Borrowed(&'de str),
    Owned(String),
}

impl Name<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(name) => name,
            Self::Owned(name) => name,
        }
    }
}

/// Seed and visitor of a member's name.
struct NameSeed<'de>(PhantomData<Name<'de>>);

impl<'de> DeserializeSeed<'de> for NameSeed<'de> {
    type Value = Name<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Name<'de>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameSeed<'de> {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name::Borrowed(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name::Owned(name.to_owned()))
    }
}
