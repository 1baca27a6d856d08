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

/// Whether a text is surely its own canonical text as a Time. Nearly all times are of this form; others, such as the 31st of a month, may
/// be canonical too.
pub(crate) fn is_canonical_time(text: &str) -> bool {
    is_canonical_to_seconds(text) && text.as_bytes()[SECONDS..] == *b"Z"
}

/// Whether a text is surely its own canonical text as a MicroTime, like [`is_canonical_time`].
pub(crate) fn is_canonical_micro_time(text: &str) -> bool {
    is_canonical_to_seconds(text)
        && match &text.as_bytes()[SECONDS..] {
            [b'.', digits @ .., b'Z'] => digits.len() == 6 && digits.iter().all(u8::is_ascii_digit),
            _ => false,
        }
}

/// Length of a time up to its seconds.
const SECONDS: usize = "2006-01-02T15:04:05".len();

/// Whether a text begins with date and time of the years 2000 to 9999, on a day that its month surely has.
fn is_canonical_to_seconds(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < SECONDS || [4, 7, 10, 13, 16].map(|at| bytes[at]) != *b"--T::" {
        return false;
    }
    let number = |at: usize| match (bytes[at], bytes[at + 1]) {
        (tens @ b'0'..=b'9', ones @ b'0'..=b'9') => (tens - b'0') * 10 + ones - b'0',
        _ => u8::MAX,
    };
    let (month, day) = (number(5), number(8));
    let days = if month == 2 { 28 } else { 30 };
    (20..=99).contains(&number(0))
        && number(2) <= 99
        && (1..=12).contains(&month)
        && (1..=days).contains(&day)
        && number(11) <= 23
        && number(14) <= 59
        && number(17) <= 59
}

/// Canonical text of a MicroTime (UTC); `None` for the zero time. It has exactly six fractional digits, as Go's layout demands.
pub(crate) fn micro_time(text: &str) -> Result<Option<String>, DecodeError> {
    let digits = text.get(SECONDS..).and_then(|rest| rest.strip_prefix(['.', ','])).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_that_kubernetes_writes_are_canonical_without_parsing() {
        for text in ["2000-01-01T00:00:00Z", "2026-11-30T23:59:59Z", "9999-12-30T12:00:00Z"] {
            assert!(is_canonical_time(text) && !is_canonical_micro_time(text), "{text}");
            let micro = text.replace('Z', ".012345Z");
            assert!(is_canonical_micro_time(&micro) && !is_canonical_time(&micro), "{micro}");
        }
    }

    proptest! {
        #[test]
        fn times_that_are_canonical_without_parsing_are_what_parsing_makes(
            (year, month, day) in (0..10_000, 0..14, 0..33),
            (hour, minute, second) in (0..26, 0..62, 0..62),
            rest in prop::sample::select(vec!["Z", ".000000Z", ".123456Z", ",123456Z", ".1Z", ".1234567Z", "+00:00", "z", ""]),
            (at, other) in (0_usize..40, prop::sample::select(vec!["0", "9", "-", ":", "T", "t", "Z", "\u{e9}"])),
        ) {
            let plain = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{rest}");
            let mut changed = plain.clone();
            if at < plain.len() {
                changed.replace_range(at..=at, other);
            }
            for text in [plain, changed] {
                if is_canonical_time(&text) {
                    prop_assert_eq!(time(&text), Ok(Some(text.clone())));
                }
                if is_canonical_micro_time(&text) {
                    prop_assert_eq!(micro_time(&text), Ok(Some(text.clone())));
                }
            }
        }
    }
}
