//! Protobuf encoding of JSON objects, byte for byte as Go's: members in order of their numbers, zero scalars
//! that are not pointers included, maps in key order.

use super::{MAGIC, WireError};
use crate::schema::{self, Elem, Field, Member, Shape, Type, json_schema_props, scalar};
use serde_json::{Map, Value};

/// Encodes an object of a built-in kind with its envelope. The object must state apiVersion and kind.
///
/// # Errors
/// The kind is not in the table, or a member has a type that its field cannot carry (never after
/// [`crate::schema::decode::normalize`]).
pub fn encode(object: &Value) -> Result<Vec<u8>, WireError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let raw = bare(object)?;
    let mut out = envelope_head(text("apiVersion"), text("kind"), raw.len());
    out.extend_from_slice(&raw);
    out.extend_from_slice(&ENVELOPE_TAIL);
    Ok(out)
}

/// Encodes an object of a built-in kind without an envelope: as an item of a list, or as the bytes between
/// [`envelope_head`] and [`ENVELOPE_TAIL`]. The object must state apiVersion and kind.
///
/// # Errors
/// Those of [`encode`].
pub fn bare(object: &Value) -> Result<Vec<u8>, WireError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let unknown = || WireError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let ty = type_of(api_version, kind).ok_or_else(unknown)?;
    let map = object.as_object().ok_or_else(unknown)?;
    let mut raw = Vec::with_capacity(1024);
    message(&mut raw, map, ty)?;
    Ok(raw)
}

fn type_of(api_version: &str, kind: &str) -> Option<&'static Type> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    schema::of(group, version, kind)
}

/// Bytes before a message of `length` bytes in an envelope: magic, apiVersion and kind, and the message's tag
/// and length.
pub fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut meta = Vec::new();
    put_bytes(&mut meta, 1, api_version.as_bytes());
    put_bytes(&mut meta, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    put_bytes(&mut out, 1, &meta);
    put_head(&mut out, 2, length);
    out
}

/// Bytes after the message in an envelope: no content encoding, no content type.
pub const ENVELOPE_TAIL: [u8; 4] = [0x1a, 0, 0x22, 0];

/// Encodes the metadata of a list, the first field of its message. Items follow, each after [`item_head`].
pub fn list_meta(resource_version: &str, continue_token: &str, remaining: Option<i64>) -> Vec<u8> {
    let mut out = Vec::new();
    nested(&mut out, 1, |out| {
        put_bytes(out, 1, b"");
        put_bytes(out, 2, resource_version.as_bytes());
        put_bytes(out, 3, continue_token.as_bytes());
        if let Some(remaining) = remaining {
            put_varint_field(out, 4, remaining.unsigned_abs());
        }
    });
    out
}

/// Tag and length of an item of `length` bytes in a list's message.
pub fn item_head(length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(6);
    put_head(&mut out, 2, length);
    out
}

/// Encodes one frame of a protobuf watch stream: the length, then the event. `object` are the enveloped bytes
/// of [`encode`].
#[must_use]
pub fn watch_frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(object.len() + 32);
    body.extend_from_slice(&[0; 4]);
    put_bytes(&mut body, 1, event.as_bytes());
    let mut raw = Vec::new();
    put_head(&mut raw, 1, object.len());
    put_head(&mut body, 2, raw.len() + object.len());
    body.extend_from_slice(&raw);
    body.extend_from_slice(object);
    let length = u32::try_from(body.len() - 4).expect("objects are far smaller than 4 GiB");
    body[..4].copy_from_slice(&length.to_be_bytes());
    body
}

fn message(out: &mut Vec<u8>, map: &Map<String, Value>, ty: &'static Type) -> Result<(), WireError> {
    for (number, member) in ty.members {
        match member {
            Member::Inline(inline) => nested(out, *number, |out| message(out, map, inline.get()))?,
            Member::Field(at) => {
                let field = &ty.fields[usize::from(*at)];
                match map.get(field.name) {
                    Some(Value::Null) | None => absent(out, field),
                    Some(value) => present(out, field, value, ty)?,
                }
            }
        }
    }
    Ok(())
}

/// Encodes an absent member; Go writes the zero value of a member that is not a pointer.
fn absent(out: &mut Vec<u8>, field: &Field) {
    if field.pointer || field.shape != Shape::One {
        return;
    }
    match field.elem {
        Elem::Int32 | Elem::Int64 | Elem::Bool => put_varint_field(out, field.number, 0),
        Elem::Float64 => put_fixed64(out, field.number, 0),
        Elem::Bytes | Elem::Items => {}
        Elem::Struct(ty) => {
            // Go writes messages of all-zero structs too.
            let _ = nested(out, field.number, |out| message(out, &Map::new(), ty.get()));
        }
        Elem::IntOrString => {
            let _ = nested(out, field.number, |out| int_or_string(out, &Value::from(0)));
        }
        Elem::Quantity => {
            nested(out, field.number, |out| put_bytes(out, 1, b"0"));
        }
        Elem::String | Elem::Time | Elem::MicroTime | Elem::Raw | Elem::FieldsV1 | Elem::Json => {
            put_bytes(out, field.number, b"");
        }
        Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => put_bytes(out, field.number, b""),
    }
}

fn present(
    out: &mut Vec<u8>,
    field: &'static Field,
    value: &Value,
    owner: &'static Type,
) -> Result<(), WireError> {
    let shape = || WireError::Shape { owner: owner.name, field: field.name };
    match (field.shape, value) {
        (Shape::One, value) => elem(out, field.number, field.elem, value, &shape),
        (Shape::List, Value::Array(items)) => {
            items.iter().try_for_each(|item| elem(out, field.number, field.elem, item, &shape))
        }
        (Shape::Map, Value::Object(map)) => map.iter().try_for_each(|(key, value)| {
            nested(out, field.number, |out| {
                put_bytes(out, 1, key.as_bytes());
                elem(out, 2, field.elem, value, &shape)
            })
        }),
        (Shape::List | Shape::Map, _) => Err(shape()),
    }
}

fn elem(
    out: &mut Vec<u8>,
    number: u32,
    elem: Elem,
    value: &Value,
    shape: &dyn Fn() -> WireError,
) -> Result<(), WireError> {
    let text = || value.as_str().ok_or_else(shape);
    match elem {
        Elem::String => put_bytes(out, number, text()?.as_bytes()),
        Elem::Bool => put_varint_field(out, number, u64::from(value.as_bool().ok_or_else(shape)?)),
        Elem::Int32 | Elem::Int64 => put_varint_field(out, number, value.as_i64().ok_or_else(shape)? as u64),
        Elem::Float64 => put_fixed64(out, number, value.as_f64().ok_or_else(shape)?.to_bits()),
        Elem::Bytes => put_bytes(out, number, &scalar::bytes(text()?)?),
        Elem::Time | Elem::MicroTime => {
            // Go drops the fraction of a Time.
            let (seconds, nanos) = scalar::seconds_and_nanos(text()?)?;
            let nanos = if elem == Elem::Time { 0 } else { nanos };
            nested(out, number, |out| {
                put_varint_field(out, 1, seconds as u64);
                put_varint_field(out, 2, i64::from(nanos) as u64);
            });
        }
        Elem::Quantity => {
            let quantity = scalar::quantity(value)?;
            nested(out, number, |out| put_bytes(out, 1, quantity.as_bytes()));
        }
        Elem::IntOrString => nested(out, number, |out| int_or_string(out, value)).ok_or_else(shape)?,
        Elem::Raw | Elem::FieldsV1 | Elem::Json => {
            let raw = if value.is_null() { String::new() } else { value.to_string() };
            nested(out, number, |out| put_bytes(out, 1, raw.as_bytes()));
        }
        Elem::Items => {
            let items = value.as_array().ok_or_else(shape)?;
            nested(out, number, |out| strings(out, 1, items)).ok_or_else(shape)?;
        }
        Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => {
            nested(out, number, |out| schema_or(out, elem, value, shape))?;
        }
        Elem::Struct(ty) => {
            let map = value.as_object().ok_or_else(shape)?;
            nested(out, number, |out| message(out, map, ty.get()))?;
        }
    }
    Ok(())
}

fn int_or_string(out: &mut Vec<u8>, value: &Value) -> Option<()> {
    let text = value.as_str();
    let number = if text.is_some() { 0 } else { value.as_i64()? };
    put_varint_field(out, 1, u64::from(text.is_some()));
    put_varint_field(out, 2, number as u64);
    put_bytes(out, 3, text.unwrap_or_default().as_bytes());
    Some(())
}

fn strings(out: &mut Vec<u8>, number: u32, items: &[Value]) -> Option<()> {
    for item in items {
        put_bytes(out, number, item.as_str()?.as_bytes());
    }
    Some(())
}

fn schema_or(
    out: &mut Vec<u8>,
    elem: Elem,
    value: &Value,
    shape: &dyn Fn() -> WireError,
) -> Result<(), WireError> {
    let schema = json_schema_props();
    match (elem, value) {
        (Elem::SchemaOrBool, Value::Bool(allows)) => put_varint_field(out, 1, u64::from(*allows)),
        (Elem::SchemaOrBool, Value::Object(map)) => {
            put_varint_field(out, 1, 1);
            nested(out, 2, |out| message(out, map, schema))?;
        }
        (_, Value::Object(map)) => nested(out, 1, |out| message(out, map, schema))?,
        (Elem::SchemaOrStrings, Value::Array(items)) => strings(out, 2, items).ok_or_else(shape)?,
        (Elem::SchemaOrList, Value::Array(items)) => {
            for item in items {
                let map = item.as_object().ok_or_else(shape)?;
                nested(out, 2, |out| message(out, map, schema))?;
            }
        }
        _ => return Err(shape()),
    }
    Ok(())
}

/// Appends a length-delimited field with the contents that `write` appends.
fn nested<R>(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut inner = Vec::new();
    let result = write(&mut inner);
    put_bytes(out, number, &inner);
    result
}

/// Appends tag and length of a length-delimited field.
fn put_head(out: &mut Vec<u8>, number: u32, length: usize) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, length as u64);
}

fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_head(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

fn put_fixed64(out: &mut Vec<u8>, number: u32, bits: u64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&bits.to_le_bytes());
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
