//! Values as JSON documents.

use super::{List, Map, Object, Val, text_of, time};
use crate::error::EvalError;
use crate::limits::VALUE_DEPTH;
use serde_json::{Number, Value as Json};

impl Val<'_> {
    /// The value as a JSON document.
    ///
    /// Parts of documents are copied unchanged. Bytes become base64. Timestamps, durations and keys of maps become strings. An optional
    /// becomes its value.
    ///
    /// # Errors
    /// If the value contains a type, an empty optional, an opaque value, an infinity or NaN.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        export(self, VALUE_DEPTH)
    }
}

fn export(value: &Val<'_>, depth: usize) -> Result<Json, EvalError> {
    let depth = depth.checked_sub(1).ok_or_else(|| EvalError::other("values are nested too deeply"))?;
    let unsupported = || EvalError::other(format!("a value of type '{}' is no JSON", value.type_name()));
    Ok(match value {
        Val::Null => Json::Null,
        Val::Bool(value) => Json::Bool(*value),
        Val::Int(value) => Json::from(*value),
        Val::Uint(value) => Json::from(*value),
        Val::Double(value) => Json::Number(Number::from_f64(*value).ok_or_else(unsupported)?),
        Val::String(text) => Json::from(&**text),
        Val::Bytes(bytes) => Json::from(base64(bytes)),
        Val::Timestamp(at) => Json::from(time::format_timestamp(*at)),
        Val::Duration(nanos) => Json::from(time::format_duration(*nanos)),
        Val::List(List::Json(items, ..)) => Json::Array(items.to_vec()),
        Val::List(list) => list.iter().map(|item| export(&item?, depth)).collect::<Result<_, _>>()?,
        Val::Map(Map::Json(map, _)) | Val::Object(Object::Json(map, _)) => Json::Object((*map).clone()),
        Val::Map(Map::Owned(entries) | Map::Defaulted(entries, _)) => {
            let entry = |(key, value): &(Val<'_>, Val<'_>)| Ok((text_of(key), export(value, depth)?));
            Json::Object(entries.values().map(entry).collect::<Result<_, EvalError>>()?)
        }
        Val::Object(Object::Owned(_, fields)) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.to_string(), export(value, depth)?)));
            Json::Object(fields.collect::<Result<_, EvalError>>()?)
        }
        Val::Optional(Some(value)) => export(value, depth)?,
        Val::Type(_) | Val::Optional(None) | Val::Opaque(_) => return Err(unsupported()),
    })
}

/// Encodes bytes as base64 with padding.
fn base64(bytes: &[u8]) -> String {
    let digit = |bits: u32| char::from(super::json::BASE64[(bits & 63) as usize]);
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for sextet in 0..4 {
            out.push(if sextet <= group.len() { digit(bits >> (18 - 6 * sextet)) } else { '=' });
        }
    }
    out
}
