//! The deserializer of lenient decoding. It is one type, and what it does is in functions without type parameters, because the compiler
//! generates the methods of a deserializer again for each visitor, and there are thousands.

use super::error::{Error, Member};
use super::text::{Form, Number, Text};
use crate::limits::JSON_DEPTH;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Position of a value in an object whose managed fields are skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
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

/// Name of the newtype, and of its one member, by which `serde_json::value::RawValue` asks for the text of a value.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Deserializer of one round: reads the values of a text in order.
pub(super) struct Reader<'de, 's> {
    text: Text<'de>,
    /// Members with the zero value where absent, by struct name.
    zeros: &'s BTreeSet<Member>,
    /// Level of the next value.
    level: Level,
    /// Whether the next value is an absent member, which is read as `null`.
    is_absent: bool,
    /// The lists and objects around the next value.
    open: Vec<Container>,
}

/// A list or an object whose items or members are being read.
struct Container {
    /// The bracket that ends it.
    end: u8,
    level: Level,
    /// Whether no item was read so far.
    is_first: bool,
    /// Whether the text has no further item.
    is_done: bool,
    /// Members that may be absent and were not stated so far.
    absent: Vec<&'static str>,
}

impl<'de, 's> Reader<'de, 's> {
    pub(super) fn new(json: &'de str, zeros: &'s BTreeSet<Member>, level: Level) -> Self {
        Self { text: Text::new(json), zeros, level, is_absent: false, open: Vec::new() }
    }

    /// Bytes that were read.
    pub(super) fn position(&self) -> usize {
        self.text.position()
    }

    /// Checks that only white space follows.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.text.end()
    }

    fn form(&mut self) -> Result<Form, Error> {
        match self.is_absent {
            true => Ok(Form::Null),
            false => self.text.form(),
        }
    }

    /// Reads the next value if it is `null` or absent.
    fn take_null(&mut self) -> Result<bool, Error> {
        if self.form()? != Form::Null {
            return Ok(false);
        }
        match self.is_absent {
            true => self.is_absent = false,
            false => self.text.null()?,
        }
        Ok(true)
    }

    /// Checks the form of the next value. Returns false for `null`, which is read, and is a zero value.
    fn is_stated(&mut self, wanted: Form, expected: &dyn Expected) -> Result<bool, Error> {
        match self.form()? {
            Form::Null => self.take_null().map(|_| false),
            form if form == wanted => Ok(true),
            form => Err(self.wrong_type(form, expected)),
        }
    }

    fn wrong_type(&mut self, form: Form, expected: &dyn Expected) -> Error {
        let found = match form {
            Form::Null => Ok(Error::wrong_type(Unexpected::Unit, expected)),
            Form::Bool => {
                self.text.boolean().map(|found| Error::wrong_type(Unexpected::Bool(found), expected))
            }
            Form::Number => self.text.number().map(|found| Error::wrong_type(unexpected(found), expected)),
            Form::String => {
                self.text.string().map(|found| Error::wrong_type(Unexpected::Str(&found), expected))
            }
            Form::List => Ok(Error::wrong_type(Unexpected::Seq, expected)),
            Form::Object => Ok(Error::wrong_type(Unexpected::Map, expected)),
        };
        found.unwrap_or_else(|malformed| malformed)
    }

    fn boolean(&mut self, expected: &dyn Expected) -> Result<bool, Error> {
        match self.is_stated(Form::Bool, expected)? {
            true => self.text.boolean(),
            false => Ok(false),
        }
    }

    fn number(&mut self, expected: &dyn Expected) -> Result<Number, Error> {
        match self.is_stated(Form::Number, expected)? {
            true => self.text.number(),
            false => Ok(Number::Unsigned(0)),
        }
    }

    fn string(&mut self, expected: &dyn Expected) -> Result<Cow<'de, str>, Error> {
        match self.is_stated(Form::String, expected)? {
            true => self.text.string(),
            false => Ok(Cow::Borrowed("")),
        }
    }

    /// Begins a list; `null` is an empty one.
    fn open_list(&mut self, expected: &dyn Expected) -> Result<(), Error> {
        let is_stated = self.is_stated(Form::List, expected)?;
        self.push(is_stated, b']', Vec::new())
    }

    /// Begins an object; `null` is an empty one. `owner` is the name of the struct, empty for maps. A list is an error where a struct is
    /// expected, as in Go, although the structs that serde derives take one.
    fn open_object(&mut self, owner: &'static str, expected: &dyn Expected) -> Result<(), Error> {
        let is_stated = self.is_stated(Form::Object, expected)?;
        let absent = self.absent(owner);
        self.push(is_stated, b'}', absent)
    }

    fn push(&mut self, is_stated: bool, end: u8, absent: Vec<&'static str>) -> Result<(), Error> {
        if self.open.len() >= JSON_DEPTH {
            return Err(Error::new("recursion limit exceeded"));
        }
        if is_stated {
            self.text.open();
        }
        let level = std::mem::replace(&mut self.level, Level::Inner);
        self.open.push(Container { end, level, is_first: true, is_done: !is_stated, absent });
        Ok(())
    }

    /// The members of a struct that may be absent.
    fn absent(&self, owner: &'static str) -> Vec<&'static str> {
        if self.zeros.is_empty() || owner.is_empty() {
            return Vec::new();
        }
        let members = self.zeros.range((owner, "")..).take_while(|(struct_name, _)| *struct_name == owner);
        members.map(|(_, member)| *member).collect()
    }

    /// Whether the innermost list or object has another item in the text, which is the next value, or name.
    fn has_next(&mut self) -> Result<bool, Error> {
        let container = self.open.last_mut().expect("items are read of a container that is open");
        if container.is_done {
            return Ok(false);
        }
        let is_first = std::mem::replace(&mut container.is_first, false);
        let has_next = self.text.next_item(is_first, container.end)?;
        container.is_done = !has_next;
        Ok(has_next)
    }

    /// The name of the next member that is not skipped. Absent members that count as `null` follow the stated ones.
    fn next_name(&mut self) -> Result<Option<Cow<'de, str>>, Error> {
        while self.has_next()? {
            let name = self.text.member_name()?;
            let container = self.open.last_mut().expect("members are read of an object that is open");
            self.level = match (container.level, &*name) {
                (Level::Metadata, "managedFields") => {
                    self.text.skip()?;
                    continue;
                }
                (Level::Object, "metadata") => Level::Metadata,
                _ => Level::Inner,
            };
            if !container.absent.is_empty() {
                container.absent.retain(|absent| *absent != name);
            }
            return Ok(Some(name));
        }
        let absent = self.open.last_mut().and_then(|container| container.absent.pop());
        self.is_absent = absent.is_some();
        Ok(absent.map(Cow::Borrowed))
    }

    /// Ends the innermost list or object, of which a visitor has read as much as it takes.
    fn close(&mut self) -> Result<(), Error> {
        let is_read = !self.has_next()?;
        self.open.pop();
        match is_read {
            true => Ok(()),
            false => Err(Error::new("trailing characters")),
        }
    }

    /// The text of the next value, which is skipped.
    fn raw(&mut self) -> Result<&'de str, Error> {
        match std::mem::take(&mut self.is_absent) {
            true => Ok("null"),
            false => self.text.skip(),
        }
    }

    /// Reads `null` for a value of no content.
    fn unit(&mut self, expected: &dyn Expected) -> Result<(), Error> {
        match self.form()? {
            Form::Null => self.take_null().map(|_| ()),
            form => Err(self.wrong_type(form, expected)),
        }
    }

    /// Begins an enum: the name of the variant, and whether it has content, which is the next value.
    fn variant(&mut self, expected: &dyn Expected) -> Result<(Cow<'de, str>, bool), Error> {
        match self.form()? {
            Form::String => Ok((self.text.string()?, false)),
            Form::Object => {
                self.push(true, b'}', Vec::new())?;
                let name = self.next_name()?;
                Ok((name.ok_or_else(|| Error::new("an object without the name of a variant"))?, true))
            }
            form => Err(self.wrong_type(form, expected)),
        }
    }
}

fn unexpected(number: Number) -> Unexpected<'static> {
    match number {
        Number::Unsigned(number) => Unexpected::Unsigned(number),
        Number::Signed(number) => Unexpected::Signed(number),
        Number::Float(number) => Unexpected::Float(number),
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: Number, visitor: V) -> Result<V::Value, Error> {
    match number {
        Number::Unsigned(number) => visitor.visit_u64(number),
        Number::Signed(number) => visitor.visit_i64(number),
        Number::Float(number) => visitor.visit_f64(number),
    }
}

fn visit_string<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Error> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

macro_rules! numbers {
    ($($deserialize:ident)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = self.number(&visitor)?;
            visit_number(number, visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de, '_> {
    type Error = Error;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.form()? {
            Form::Null => {
                self.take_null()?;
                visitor.visit_unit()
            }
            Form::Bool => visitor.visit_bool(self.text.boolean()?),
            Form::Number => visit_number(self.text.number()?, visitor),
            Form::String => visit_string(self.text.string()?, visitor),
            Form::List => self.deserialize_seq(visitor),
            Form::Object => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.boolean(&visitor)?;
        visitor.visit_bool(value)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = self.string(&visitor)?;
        visit_string(text, visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.form()? {
            Form::List => self.deserialize_seq(visitor),
            _ => {
                let text = self.string(&visitor)?;
                visitor.visit_bytes(text.as_bytes())
            }
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.take_null()? {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.unit(&visitor)?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == RAW_VALUE {
            return visitor.visit_map(RawText(self.raw()?));
        }
        match zero_of_newtype(name) {
            Some(zero) if self.take_null()? => {
                visitor.visit_newtype_struct(&mut Reader::new(zero, self.zeros, Level::Inner))
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.open_list(&visitor)?;
        let value = visitor.visit_seq(Items(self))?;
        self.close()?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.open_object(name, &visitor)?;
        match visitor.visit_map(Members(self)) {
            Ok(value) => self.close().map(|()| value),
            Err(error) => Err(error.within(name, fields)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (name, has_content) = self.variant(&visitor)?;
        let value = visitor.visit_enum(Variant { reader: self, name: &name, has_content })?;
        if has_content {
            self.close()?;
        }
        Ok(value)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.raw()?;
        visitor.visit_unit()
    }
}

/// Access to the items of the innermost list.
struct Items<'r, 'de, 's>(&'r mut Reader<'de, 's>);

impl<'de> SeqAccess<'de> for Items<'_, 'de, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.0.has_next()? {
            true => seed.deserialize(&mut *self.0).map(Some),
            false => Ok(None),
        }
    }
}

/// Access to the members of the innermost object.
struct Members<'r, 'de, 's>(&'r mut Reader<'de, 's>);

impl<'de> MapAccess<'de> for Members<'_, 'de, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.0.next_name()? {
            Some(name) => seed.deserialize(of_text(&name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(&mut *self.0)
    }
}

fn of_text(text: &str) -> StrDeserializer<'_, Error> {
    text.into_deserializer()
}

/// The one member of a raw value.
struct RawText<'de>(&'de str);

impl<'de> MapAccess<'de> for RawText<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        seed.deserialize(of_text(RAW_VALUE)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(BorrowedStrDeserializer::new(self.0))
    }
}

/// A variant of an enum: its name alone, or an object with one member.
struct Variant<'r, 'de, 's> {
    reader: &'r mut Reader<'de, 's>,
    name: &'r str,
    /// Whether it is an object, of which the member's value is next.
    has_content: bool,
}

impl Variant<'_, '_, '_> {
    fn content(&self) -> Result<(), Error> {
        match self.has_content {
            true => Ok(()),
            false => Err(Error::invalid_type(Unexpected::UnitVariant, &"a variant with content")),
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de, '_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        let variant = seed.deserialize(of_text(self.name))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de, '_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.has_content {
            true => self.reader.unit(&"unit variant"),
            false => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        self.content()?;
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.content()?;
        self.reader.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content()?;
        self.reader.deserialize_struct("", fields, visitor)
    }
}
