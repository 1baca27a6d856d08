//! Canonical forms of scalars that JSON carries as text: times, bytes, int-or-string, quantities.

use super::decode::DecodeError;
use crate::time::parse_utc;
use crate::{json, quantity};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use jiff::civil::{self, DateTime};
use serde_json::Value;

/// Unix time of Go's zero time, the first second of year one, which Go prints as null.
const GO_ZERO_SECONDS: i64 = -62_135_596_800;

/// Canonical text of a Time (whole seconds, UTC); `None` for the zero time.
pub(crate) fn time(text: &str) -> Result<Option<String>, DecodeError> {
    let at = parse_utc(text).ok_or_else(|| wrong_time(text, "2006-01-02T15:04:05Z07:00"))?;
    Ok(format_utc(at, "%Y-%m-%dT%H:%M:%SZ"))
}

/// Canonical text of a MicroTime (UTC); `None` for the zero time. It has exactly six fractional digits, as Go's layout demands.
pub(crate) fn micro_time(text: &str) -> Result<Option<String>, DecodeError> {
    const FRACTION: usize = "2006-01-02T15:04:05".len();
    let digits = text.get(FRACTION..).and_then(|rest| rest.strip_prefix(['.', ','])).unwrap_or_default();
    let is_micro = digits.bytes().take_while(u8::is_ascii_digit).count() == 6;
    let at = parse_utc(text).filter(|_| is_micro);
    let at = at.ok_or_else(|| wrong_time(text, "2006-01-02T15:04:05.000000Z07:00"))?;
    Ok(format_utc(at, "%Y-%m-%dT%H:%M:%S%.6fZ"))
}

fn wrong_time(text: &str, layout: &'static str) -> DecodeError {
    DecodeError::Time { text: text.to_owned(), layout }
}

/// Seconds since 1970 and nanoseconds of a time, for protobuf.
pub(crate) fn seconds_and_nanos(text: &str) -> Result<(i64, i32), DecodeError> {
    let at = parse_utc(text).ok_or_else(|| wrong_time(text, "2006-01-02T15:04:05Z07:00"))?;
    let since = at.duration_since(UNIX_EPOCH);
    // Fractions count up from the whole second, also before 1970.
    let nanos = since.subsec_nanos();
    Ok(if nanos < 0 { (since.as_secs() - 1, nanos + 1_000_000_000) } else { (since.as_secs(), nanos) })
}

const UNIX_EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);

fn format_utc(at: DateTime, form: &str) -> Option<String> {
    let is_zero = at.duration_since(UNIX_EPOCH).as_secs() == GO_ZERO_SECONDS;
    (!is_zero).then(|| at.strftime(form).to_string())
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
