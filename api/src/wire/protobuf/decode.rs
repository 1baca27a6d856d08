//! Protobuf decoding of objects into JSON in the canonical form of [`crate::schema::decode::normalize`].

use super::reader::{Payload, Reader, WireField};
use super::{MAGIC, TypeMeta, WireError};
use crate::group_version::split_api_version;
use crate::schema::decode::{Mode, normalize};
use crate::schema::limits::{MAX_DEPTH, MAX_WIRE_BYTES, MAX_WIRE_VALUES};
use crate::schema::{self, Elem, Field, Member, Shape, Type, fill, json_schema_props, scalar};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Decodes an enveloped object of a built-in kind. The result has apiVersion and kind of the envelope.
///
/// # Errors
/// The bytes are malformed or exceed a bound, or the kind is not in the table.
pub fn decode(body: &[u8]) -> Result<(TypeMeta, Value), WireError> {
    decode_as(body, default_type)
}

/// Decodes an enveloped object as a message of the type that `type_of` finds for its apiVersion and kind. The result has these.
///
/// # Errors
/// As [`decode`]; [`WireError::UnknownKind`] if `type_of` finds none.
pub fn decode_as(
    body: &[u8],
    type_of: impl Fn(&TypeMeta) -> Option<&'static Type>,
) -> Result<(TypeMeta, Value), WireError> {
    if body.len() > MAX_WIRE_BYTES {
        return Err(WireError::TooLarge);
    }
    Decoder { values: 0 }.envelope(body, &type_of, 0)
}

fn default_type(meta: &TypeMeta) -> Option<&'static Type> {
    let (group, version) = split_api_version(&meta.api_version);
    schema::of(group, version, &meta.kind)
}

/// Decodes a message without an envelope, for tests.
#[cfg(test)]
pub(super) fn message(bytes: &[u8], ty: &'static Type) -> Result<Map<String, Value>, WireError> {
    Decoder { values: 0 }.message(bytes, ty, 0)
}

struct Decoder {
    /// JSON values created so far, bounded by [`MAX_WIRE_VALUES`].
    values: usize,
}

impl Decoder {
    fn envelope(
        &mut self,
        body: &[u8],
        type_of: &dyn Fn(&TypeMeta) -> Option<&'static Type>,
        depth: usize,
    ) -> Result<(TypeMeta, Value), WireError> {
        let mut reader = Reader(body.strip_prefix(&MAGIC).ok_or(WireError::NotEnveloped)?);
        let mut meta = TypeMeta { api_version: String::new(), kind: String::new() };
        let mut raw: &[u8] = &[];
        while let Some(entry) = reader.next()? {
            match entry.number {
                1 => type_meta(entry.bytes()?, &mut meta)?,
                2 => raw = entry.bytes()?,
                3 => plain(entry.text()?, &[""])?,
                4 => plain(entry.text()?, &["", super::MEDIA_TYPE])?,
                _ => {}
            }
        }
        let ty = type_of(&meta).ok_or_else(|| WireError::UnknownKind {
            api_version: meta.api_version.clone(),
            kind: meta.kind.clone(),
        })?;
        let mut object = Value::Object(self.message(raw, ty, depth)?);
        normalize(&mut object, ty, Mode::Whole)?;
        object["apiVersion"] = Value::from(meta.api_version.as_str());
        object["kind"] = Value::from(meta.kind.as_str());
        Ok((meta, object))
    }

    fn message(
        &mut self,
        bytes: &[u8],
        ty: &'static Type,
        depth: usize,
    ) -> Result<Map<String, Value>, WireError> {
        let mut map = Map::new();
        self.message_into(&mut map, bytes, ty, depth)?;
        Ok(map)
    }

    /// Decodes a message into an object that may have members from an earlier part of the same message.
    fn message_into(
        &mut self,
        map: &mut Map<String, Value>,
        bytes: &[u8],
        ty: &'static Type,
        depth: usize,
    ) -> Result<(), WireError> {
        if depth > MAX_DEPTH {
            return Err(WireError::TooLarge);
        }
        let mut reader = Reader(bytes);
        while let Some(entry) = reader.next()? {
            match ty.member(entry.number) {
                None => {} // A field of a newer client.
                Some(Member::Inline(inline)) => {
                    self.message_into(map, entry.bytes()?, inline.get(), depth + 1)?;
                }
                Some(Member::Field(at)) => self.field(map, entry, &ty.fields[usize::from(at)], depth + 1)?,
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        map: &mut Map<String, Value>,
        entry: WireField<'_>,
        field: &'static Field,
        depth: usize,
    ) -> Result<(), WireError> {
        let name = field.name;
        match (field.shape, field.elem) {
            (Shape::One, Elem::Struct(ty)) => {
                // A message split over several fields is one message.
                let slot = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(nested) = slot else { return Err(entry.mismatch()) };
                self.count()?;
                self.message_into(nested, entry.bytes()?, ty.get(), depth)
            }
            (Shape::One, elem) => {
                let value = self.elem(entry, elem, depth)?;
                map.insert(name.to_owned(), value);
                Ok(())
            }
            (Shape::List, elem) => {
                let slot = map.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(items) = slot else { return Err(entry.mismatch()) };
                self.list(items, entry, elem, depth)
            }
            (Shape::Map, elem) => {
                let (key, value) = self.map_entry(entry.bytes()?, elem, depth)?;
                let slot = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(members) = slot else { return Err(entry.mismatch()) };
                members.insert(key, value);
                Ok(())
            }
        }
    }

    /// Decodes one element, or several if numbers are packed.
    fn list(
        &mut self,
        items: &mut Vec<Value>,
        entry: WireField<'_>,
        elem: Elem,
        depth: usize,
    ) -> Result<(), WireError> {
        let number = matches!(elem, Elem::Int32 | Elem::Int64 | Elem::Bool);
        let Payload::Bytes(packed) = entry.payload else {
            items.push(self.elem(entry, elem, depth)?);
            return Ok(());
        };
        if !number {
            items.push(self.elem(entry, elem, depth)?);
            return Ok(());
        }
        let mut reader = Reader(packed);
        while !reader.0.is_empty() {
            let payload = Payload::Varint(reader.varint()?);
            items.push(self.elem(WireField { number: entry.number, payload }, elem, depth)?);
        }
        Ok(())
    }

    fn map_entry(&mut self, bytes: &[u8], elem: Elem, depth: usize) -> Result<(String, Value), WireError> {
        let (mut key, mut value) = (String::new(), fill::zero(elem));
        let mut reader = Reader(bytes);
        while let Some(entry) = reader.next()? {
            match entry.number {
                1 => key = entry.text()?.to_owned(),
                2 => value = self.elem(entry, elem, depth)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn elem(&mut self, entry: WireField<'_>, elem: Elem, depth: usize) -> Result<Value, WireError> {
        self.count()?;
        Ok(match elem {
            Elem::String => Value::from(entry.text()?),
            Elem::Bool => Value::from(entry.varint()? != 0),
            Elem::Int32 => Value::from(entry.varint()? as i32),
            Elem::Int64 => Value::from(entry.varint()? as i64),
            Elem::Float64 => match entry.payload {
                Payload::Fixed64(bits) => Value::from(f64::from_bits(bits)),
                _ => return Err(entry.mismatch()),
            },
            Elem::Bytes => Value::from(scalar::base64(entry.bytes()?)),
            Elem::Time => {
                timestamp(entry.bytes()?)?.and_then(scalar::format_time).map_or(Value::Null, Value::from)
            }
            Elem::MicroTime => timestamp(entry.bytes()?)?
                .and_then(scalar::format_micro_time)
                .map_or(Value::Null, Value::from),
            Elem::Quantity => Value::from(first(entry.bytes()?, WireField::text)?.unwrap_or("0")),
            Elem::IntOrString => int_or_string(entry.bytes()?)?,
            Elem::Raw | Elem::FieldsV1 | Elem::Json => self.embedded(entry.bytes()?, depth)?,
            Elem::Items => self.strings(entry.bytes()?, 1)?,
            Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => {
                self.schema(entry.bytes()?, elem, depth)?
            }
            Elem::Struct(ty) => Value::Object(self.message(entry.bytes()?, ty.get(), depth)?),
        })
    }

    /// Decodes an embedded value: JSON text or another envelope.
    fn embedded(&mut self, message: &[u8], depth: usize) -> Result<Value, WireError> {
        match first(message, WireField::bytes)?.unwrap_or_default() {
            [] => Ok(Value::Null),
            raw if raw.starts_with(&MAGIC) => {
                if depth > MAX_DEPTH {
                    return Err(WireError::TooLarge);
                }
                Ok(self.envelope(raw, &default_type, depth + 1)?.1)
            }
            raw => serde_json::from_slice(raw).map_err(|e| WireError::Json(e.to_string())),
        }
    }

    /// Decodes the strings of a repeated field.
    fn strings(&mut self, message: &[u8], number: u32) -> Result<Value, WireError> {
        let mut items = Vec::new();
        let mut reader = Reader(message);
        while let Some(entry) = reader.next()? {
            if entry.number == number {
                self.count()?;
                items.push(Value::from(entry.text()?));
            }
        }
        Ok(Value::Array(items))
    }

    /// Decodes a JSON schema or its alternative; their field numbers depend on the type.
    fn schema(&mut self, message: &[u8], elem: Elem, depth: usize) -> Result<Value, WireError> {
        let schema_number = if elem == Elem::SchemaOrBool { 2 } else { 1 };
        let (mut schema, mut allows, mut list) = (None, false, Vec::new());
        let mut reader = Reader(message);
        while let Some(entry) = reader.next()? {
            match (elem, entry.number) {
                (_, number) if number == schema_number => {
                    schema = Some(Value::Object(self.message(entry.bytes()?, json_schema_props(), depth)?));
                }
                (Elem::SchemaOrBool, 1) => allows = entry.varint()? != 0,
                (Elem::SchemaOrList, 2) => {
                    self.count()?;
                    list.push(Value::Object(self.message(entry.bytes()?, json_schema_props(), depth)?));
                }
                (_, 2) => {
                    self.count()?;
                    list.push(Value::from(entry.text()?));
                }
                _ => {}
            }
        }
        let fallback = if elem == Elem::SchemaOrBool { Value::from(allows) } else { Value::Null };
        Ok(if list.is_empty() { schema.unwrap_or(fallback) } else { Value::Array(list) })
    }

    fn count(&mut self) -> Result<(), WireError> {
        self.values += 1;
        if self.values > MAX_WIRE_VALUES { Err(WireError::TooLarge) } else { Ok(()) }
    }
}

fn type_meta(bytes: &[u8], into: &mut TypeMeta) -> Result<(), WireError> {
    let mut reader = Reader(bytes);
    while let Some(entry) = reader.next()? {
        match entry.number {
            1 => entry.text()?.clone_into(&mut into.api_version),
            2 => entry.text()?.clone_into(&mut into.kind),
            _ => {}
        }
    }
    Ok(())
}

fn plain(found: &str, allowed: &[&str]) -> Result<(), WireError> {
    if allowed.contains(&found) { Ok(()) } else { Err(WireError::Content(found.to_owned())) }
}

/// Field 1 of a message that has no other field.
fn first<'a, T>(
    message: &'a [u8],
    read: impl Fn(WireField<'a>) -> Result<T, WireError>,
) -> Result<Option<T>, WireError> {
    let mut found = None;
    let mut reader = Reader(message);
    while let Some(entry) = reader.next()? {
        if entry.number == 1 {
            found = Some(read(entry)?);
        }
    }
    Ok(found)
}

/// Decodes a time. `None` if seconds and nanoseconds are zero, which is the encoding of the zero time.
fn timestamp(message: &[u8]) -> Result<Option<Timestamp>, WireError> {
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut reader = Reader(message);
    while let Some(entry) = reader.next()? {
        match entry.number {
            1 => seconds = entry.varint()? as i64,
            2 => nanos = entry.varint()? as i32,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(None);
    }
    Timestamp::new(seconds, nanos).map(Some).map_err(|_| WireError::Overflow)
}

fn int_or_string(message: &[u8]) -> Result<Value, WireError> {
    let (mut kind, mut number, mut text) = (0, 0, "");
    let mut reader = Reader(message);
    while let Some(entry) = reader.next()? {
        match entry.number {
            1 => kind = entry.varint()?,
            2 => number = entry.varint()? as i32,
            3 => text = entry.text()?,
            _ => {}
        }
    }
    Ok(if kind == 1 { json!(text) } else { json!(number) })
}
