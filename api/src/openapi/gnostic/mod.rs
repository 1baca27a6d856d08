//! Protobuf encoding of OpenAPI documents, in which `kubectl` reads `/openapi/v2`. Messages are those of
//! Google's gnostic, as tables of member names and field numbers (`v2`, `v3`). This file encodes a JSON
//! document by these tables. The tables cover only members that this server's documents have; other members
//! are omitted, unless they are extensions (`x-…`).

#[cfg(test)]
mod tests;
mod v2;
mod v3;

use serde_json::{Map, Value};

/// Protobuf type of a member.
enum ProtoType {
    /// `string`.
    Text,
    /// `repeated string`.
    Texts,
    /// `bool`.
    Flag,
    /// `double`.
    Number,
    /// `int64`.
    Integer,
    /// `Any`: the value as YAML.
    Any,
    /// `repeated Any`.
    Anys,
    /// A message.
    One(&'static Message),
    /// `repeated` messages.
    Many(&'static Message),
    /// A message whose field 1 is the message, or the list of strings.
    Wrapped(&'static Message),
    /// A message whose field 1 repeats pairs of name (1) and message (2).
    Named(&'static Message),
    /// A message with the message in field 1 or a boolean in field 2.
    OneOrFlag(&'static Message),
    /// A message with a number (1), a boolean (2) or a string (3). Other values make it empty.
    Scalar,
}

/// Encoding of a JSON object as a message.
enum Message {
    /// Each member has its own field.
    Members {
        /// Member name, field number and type.
        members: &'static [(&'static str, u32, ProtoType)],
        /// Field of extensions `x-…`; 0 if there is none.
        extensions: u32,
        /// Field of all other members, as pairs of name (1) and message (2).
        others: Option<(u32, &'static Message)>,
    },
    /// One of several messages, in nested fields; field numbers are outermost first.
    Choice(fn(&Value) -> (&'static [u32], &'static Message)),
    /// A list of strings in field 1.
    Strings,
}

/// Media type of an OpenAPI v2 document in protobuf.
pub const V2_MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Media type of an OpenAPI v3 document in protobuf.
pub const V3_MEDIA: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// Encodes an OpenAPI v2 document as [`V2_MEDIA`].
#[must_use]
pub fn v2(document: &Value) -> Vec<u8> {
    encoded(document, &v2::DOCUMENT)
}

/// Encodes an OpenAPI v3 document as [`V3_MEDIA`].
#[must_use]
pub fn v3(document: &Value) -> Vec<u8> {
    encoded(document, &v3::DOCUMENT)
}

fn encoded(value: &Value, message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, value, message);
    out
}

fn put(out: &mut Vec<u8>, value: &Value, message: &Message) {
    match message {
        Message::Strings => strings(out, 1, value),
        Message::Choice(choose) => {
            let (fields, message) = choose(value);
            let inner = encoded(value, message);
            let wrapped = fields.iter().rev().fold(inner, |inner, field| {
                let mut outer = Vec::with_capacity(inner.len() + 6);
                bytes(&mut outer, *field, &inner);
                outer
            });
            out.extend(wrapped);
        }
        Message::Members { members, extensions, others } => {
            let Some(map) = value.as_object() else { return };
            for (name, number, shape) in *members {
                map.get(*name).into_iter().for_each(|value| member(out, *number, shape, value));
            }
            let rest = |name: &str| !members.iter().any(|(known, ..)| known == &name);
            further(out, map.iter().filter(|(name, _)| rest(name)), *extensions, *others);
        }
    }
}

fn further<'v>(
    out: &mut Vec<u8>,
    rest: impl Iterator<Item = (&'v String, &'v Value)>,
    extensions: u32,
    others: Option<(u32, &'static Message)>,
) {
    for (name, value) in rest {
        if name.starts_with("x-") {
            if extensions > 0 {
                pair(out, extensions, name, &any(value));
            }
        } else if let Some((number, message)) = others {
            pair(out, number, name, &encoded(value, message));
        }
    }
}

fn member(out: &mut Vec<u8>, number: u32, shape: &ProtoType, value: &Value) {
    match shape {
        ProtoType::Text => bytes_if_any(out, number, value.as_str().unwrap_or_default().as_bytes()),
        ProtoType::Texts => strings(out, number, value),
        ProtoType::Flag => integer(out, number, u64::from(value.as_bool() == Some(true))),
        ProtoType::Number => double(out, number, value.as_f64().unwrap_or_default()),
        ProtoType::Integer => integer(out, number, value.as_i64().unwrap_or_default().cast_unsigned()),
        ProtoType::Any => bytes(out, number, &any(value)),
        ProtoType::Anys => list(value).for_each(|value| bytes(out, number, &any(value))),
        ProtoType::One(message) => bytes(out, number, &encoded(value, message)),
        ProtoType::Many(message) => {
            list(value).for_each(|value| bytes(out, number, &encoded(value, message)));
        }
        ProtoType::Wrapped(message) => {
            let mut inner = Vec::new();
            match message {
                Message::Strings => strings(&mut inner, 1, value),
                Message::Members { .. } | Message::Choice(_) => {
                    bytes(&mut inner, 1, &encoded(value, message));
                }
            }
            bytes(out, number, &inner);
        }
        ProtoType::Named(message) => {
            let mut inner = Vec::new();
            let none = Map::new();
            for (name, value) in value.as_object().unwrap_or(&none) {
                pair(&mut inner, 1, name, &encoded(value, message));
            }
            bytes(out, number, &inner);
        }
        ProtoType::OneOrFlag(message) => {
            let mut inner = Vec::new();
            match value {
                Value::Bool(flag) => varint_field(&mut inner, 2, u64::from(*flag)),
                _ => bytes(&mut inner, 1, &encoded(value, message)),
            }
            bytes(out, number, &inner);
        }
        ProtoType::Scalar => bytes(out, number, &scalar(value)),
    }
}

fn scalar(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Number(number) => double_field(&mut out, 1, number.as_f64().unwrap_or_default()),
        Value::Bool(flag) => varint_field(&mut out, 2, u64::from(*flag)),
        Value::String(text) => bytes(&mut out, 3, text.as_bytes()),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
    out
}

/// Encodes an `Any`: YAML text in field 2. Readers do not use field 1, a typed message.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let text = serde_yaml_ng::to_string(value).expect("a JSON value is YAML");
    bytes(&mut out, 2, text.as_bytes());
    out
}

/// Appends field `number` with a name (1) and a message (2).
fn pair(out: &mut Vec<u8>, number: u32, name: &str, message: &[u8]) {
    let mut inner = Vec::with_capacity(name.len() + message.len() + 8);
    bytes(&mut inner, 1, name.as_bytes());
    bytes(&mut inner, 2, message);
    bytes(out, number, &inner);
}

/// Appends a list of strings. A single string counts as a list of one, since `type` allows both.
fn strings(out: &mut Vec<u8>, number: u32, value: &Value) {
    let one = std::slice::from_ref(value);
    let items = value.as_array().map_or(one, Vec::as_slice);
    items.iter().filter_map(Value::as_str).for_each(|text| bytes(out, number, text.as_bytes()));
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn bytes_if_any(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    if !content.is_empty() {
        bytes(out, number, content);
    }
}

fn integer(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        varint_field(out, number, value);
    }
}

fn double(out: &mut Vec<u8>, number: u32, value: f64) {
    if value != 0.0 {
        double_field(out, number, value);
    }
}

fn bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    varint(out, u64::from(number << 3 | 2));
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    varint(out, u64::from(number << 3));
    varint(out, value);
}

fn double_field(out: &mut Vec<u8>, number: u32, value: f64) {
    varint(out, u64::from(number << 3 | 1));
    out.extend_from_slice(&value.to_le_bytes());
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
