//! Canonical forms of scalars that JSON carries as text: times, bytes, int-or-string, quantities.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::civil::{self, DateTime};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::decode::DecodeError;
use crate::{json, quantity};

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

/// Parses a time in RFC 3339 as Go's `time.Parse` does: capital `T` and `Z`, no leap seconds, any number of fractional digits. The
/// result is in UTC. It has the years 0 to 9999, some hours more than a [`Timestamp`].
pub(crate) fn parse_utc(text: &str) -> Option<DateTime> {
    let bytes = text.as_bytes();
    let number = |from: usize, length: usize| -> Option<i16> {
        let digits = text.get(from..from + length)?;
        if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
    };
    let small = |from: usize| number(from, 2).and_then(|number| i8::try_from(number).ok());
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
        return None;
    }
    let date = civil::Date::new(number(0, 4)?, small(5)?, small(8)?).ok()?;
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("0", rest),
    };
    if fraction.is_empty() {
        return None;
    }
    let nanos: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let time = civil::Time::new(small(11)?, small(14)?, small(17)?, nanos.parse().ok()?).ok()?;
    date.to_datetime(time).checked_sub(offset(zone)?).ok()
}

/// Parses the offset of a zone: `Z`, or hours and minutes with a sign.
fn offset(zone: &str) -> Option<SignedDuration> {
    if zone == "Z" {
        return Some(SignedDuration::ZERO);
    }
    let is_form = zone.len() == 6 && zone.is_ascii() && zone.as_bytes()[3] == b':';
    let number = |at: std::ops::Range<usize>| {
        let digits = zone.get(at)?;
        if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<i64>().ok() } else { None }
    };
    let (hours, minutes) = (number(1..3)?, number(4..6)?);
    // Go takes offsets of 24 hours and of 60 minutes.
    let seconds = (is_form && hours <= 24 && minutes <= 60).then_some(hours * 3600 + minutes * 60)?;
    match zone.as_bytes()[0] {
        b'+' => Some(SignedDuration::from_secs(seconds)),
        b'-' => Some(SignedDuration::from_secs(-seconds)),
        _ => None,
    }
}

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
