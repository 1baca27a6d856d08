//! Canonical forms of scalars that JSON carries as text: times, bytes, int-or-string, quantities.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::Value;

use super::decode::DecodeError;
use crate::{json, quantity};

/// Unix time of Go's zero time, the first second of year one, which Go prints as null.
const GO_ZERO_SECONDS: i64 = -62_135_596_800;

/// Canonical text of a Time (whole seconds, UTC); `None` for the zero time.
pub(crate) fn time(text: &str) -> Result<Option<String>, DecodeError> {
    Ok(format_time(parse_time(text, "2006-01-02T15:04:05Z07:00")?))
}

/// Canonical text of a MicroTime (six fractional digits, UTC); `None` for the zero time.
pub(crate) fn micro_time(text: &str) -> Result<Option<String>, DecodeError> {
    Ok(format_micro_time(parse_time(text, "2006-01-02T15:04:05.000000Z07:00")?))
}

pub(crate) fn parse_time(text: &str, layout: &'static str) -> Result<Timestamp, DecodeError> {
    text.parse().map_err(|_| DecodeError::Time { text: text.to_owned(), layout })
}

pub(crate) fn format_time(at: Timestamp) -> Option<String> {
    (at.as_second() != GO_ZERO_SECONDS).then(|| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

pub(crate) fn format_micro_time(at: Timestamp) -> Option<String> {
    (at.as_second() != GO_ZERO_SECONDS).then(|| at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

/// Decodes base64 text; line breaks are ignored as in Go.
pub(crate) fn bytes(text: &str) -> Result<Vec<u8>, DecodeError> {
    let joined;
    let text = if text.contains(['\r', '\n']) {
        joined = text.replace(['\r', '\n'], "");
        &joined
    } else {
        text
    };
    BASE64.decode(text).map_err(|error| {
        use base64::DecodeError as E;
        let at = match error {
            E::InvalidByte(at, _) | E::InvalidLastSymbol(at, _) => at,
            E::InvalidLength(_) | E::InvalidPadding => text.len() / 4 * 4,
        };
        DecodeError::Base64 { at }
    })
}

/// Base64 text of bytes.
pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Text in which Kubernetes writes the quantity of a JSON string or number.
pub(crate) fn quantity(value: &Value) -> Result<String, DecodeError> {
    quantity::canonicalize(&quantity_text(value)).map_err(DecodeError::Quantity)
}

/// Text in which Kubernetes writes a resource amount, rounded away from zero to thousandths.
pub(crate) fn amount(value: &Value) -> Result<String, DecodeError> {
    quantity::canonicalize_amount(&quantity_text(value)).map_err(DecodeError::Quantity)
}

fn quantity_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Null | Value::Number(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            json::to_string(value)
        }
    }
}

/// Checks that a value is an int-or-string; it stays as it is.
pub(crate) fn int_or_string(value: &Value) -> Result<(), DecodeError> {
    let ok = match value {
        Value::String(_) => true,
        Value::Number(number) => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    if ok {
        return Ok(());
    }
    let found = match value {
        Value::Number(number) => format!("number {number}"),
        other => json_kind(other).to_owned(),
    };
    Err(DecodeError::Root { found, go_type: "int32".to_owned() })
}

/// Name of a JSON value's type in Go's type errors.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
