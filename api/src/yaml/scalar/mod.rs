//! Interpretation of YAML scalars by the rules of go-yaml 2: YAML 1.1 without sexagesimal numbers.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};
use std::ops::RangeInclusive;

/// Interpreted scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Integer too large for the other variants.
    Large(u64),
    Float(f64),
    /// Time, which stays text.
    Time,
    Text(String),
}

/// Syntactic form of a scalar, which determines its interpretation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScalarForm {
    /// Plain: the text decides.
    Plain,
    /// Quoted, or with a tag other than YAML's own: a text.
    Text,
    /// With one of YAML's own tags, by name.
    Tagged(String),
}

/// Interprets a scalar.
///
/// # Errors
/// The text does not fit its tag.
pub(super) fn read(text: &str, form: &ScalarForm) -> Result<Scalar, String> {
    let tag = match form {
        ScalarForm::Plain => return Ok(plain(text)),
        ScalarForm::Text => return Ok(Scalar::Text(text.to_owned())),
        ScalarForm::Tagged(tag) => tag.as_str(),
    };
    match tag {
        "bool" | "int" | "float" | "null" | "timestamp" => tagged(text, tag, plain(text)),
        "binary" => {
            let bytes = STANDARD.decode(text.replace(['\r', '\n'], ""));
            let bytes = bytes.map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
            Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        _ => Ok(Scalar::Text(text.to_owned())),
    }
}

fn tagged(text: &str, tag: &str, found: Scalar) -> Result<Scalar, String> {
    let is = match &found {
        Scalar::Null => "null",
        Scalar::Bool(_) => "bool",
        Scalar::Int(_) | Scalar::Large(_) => "int",
        Scalar::Float(_) => "float",
        Scalar::Time => "timestamp",
        Scalar::Text(_) => "str",
    };
    match found {
        #[expect(clippy::cast_precision_loss, reason = "who asks for a float gets the nearest one")]
        Scalar::Int(number) if tag == "float" => Ok(Scalar::Float(number as f64)),
        found if is == tag => Ok(found),
        _ => Err(format!("yaml: cannot decode !!{is} `{text}` as a !!{tag}")),
    }
}

/// Interprets an unquoted text.
pub(super) fn plain(text: &str) -> Scalar {
    let known = match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(Scalar::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(Scalar::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(Scalar::Bool(false))
        }
        ".nan" | ".NaN" | ".NAN" => Some(Scalar::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(Scalar::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => Some(Scalar::Float(f64::NEG_INFINITY)),
        _ => None,
    };
    let found = known.or_else(|| match text.as_bytes().first()? {
        b'.' => finite(text),
        b'0'..=b'9' | b'+' | b'-' if is_time(text) => Some(Scalar::Time),
        b'0'..=b'9' | b'+' | b'-' => number(&text.replace('_', "")),
        _ => None,
    });
    found.unwrap_or_else(|| Scalar::Text(text.to_owned()))
}

/// Parses an integer in one of four bases, or a decimal float.
fn number(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (digits, base) = based(unsigned);
    if digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        let sign = if text.starts_with('-') { "-" } else { "" };
        if let Ok(number) = i64::from_str_radix(&format!("{sign}{digits}"), base) {
            return Some(Scalar::Int(number));
        }
        if text == unsigned
            && let Ok(number) = u64::from_str_radix(digits, base)
        {
            return Some(Scalar::Large(number));
        }
    }
    if has_float_form(unsigned) {
        return finite(text);
    }
    // go-yaml accepts a sign after the base prefix.
    let signed = text.strip_prefix("0b").and_then(|digits| i64::from_str_radix(digits, 2).ok());
    signed.map(Scalar::Int)
}

/// Digits and base of an unsigned integer; a leading zero means base 8.
fn based(text: &str) -> (&str, u32) {
    let bytes = text.as_bytes();
    match bytes {
        [b'0', b'x' | b'X', _, ..] => (&text[2..], 16),
        [b'0', b'o' | b'O', _, ..] => (&text[2..], 8),
        [b'0', b'b' | b'B', _, ..] => (&text[2..], 2),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    }
}

/// Whether a text has the form of a float: digits with an optional point and exponent.
fn has_float_form(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

/// A number too large for a float is a text.
fn finite(text: &str) -> Option<Scalar> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(Scalar::Float)
}

/// Whether a text is a date, or a date and time with or without a zone.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else { return is_date(text) };
    let zoned = !text.contains(' ');
    is_date(date) && if zoned { without_zone(time).is_some_and(is_time_of_day) } else { is_time_of_day(time) }
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let [Some(year), Some(month), Some(day), None] = [parts.next(), parts.next(), parts.next(), parts.next()]
    else {
        return false;
    };
    year.len() == 4 && within(year, 0..=9999) && short(month, 1..=12) && short(day, 1..=31)
}

fn without_zone(time: &str) -> Option<&str> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some(time);
    }
    let (time, zone) = time.split_once(['+', '-'])?;
    let (hours, minutes) = zone.split_once(':')?;
    let full = hours.len() == 2 && minutes.len() == 2;
    (full && within(hours, 0..=24) && within(minutes, 0..=60)).then_some(time)
}

fn is_time_of_day(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = whole.split(':').collect();
    let [hour, minute, second] = parts[..] else { return false };
    let clock = hour.len() == 2 && within(hour, 0..=23) && short(minute, 0..=59) && short(second, 0..=59);
    clock && !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text has one or two digits within the range.
fn short(text: &str, range: RangeInclusive<u16>) -> bool {
    text.len() <= 2 && within(text, range)
}

fn within(text: &str, range: RangeInclusive<u16>) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse().is_ok_and(|number| range.contains(&number))
}

/// Whether a text keeps its meaning without quotes, also for parsers with sexagesimal numbers.
pub fn needs_no_quotes(text: &str) -> bool {
    matches!(plain(text), Scalar::Text(_)) && text != "<<" && !is_sexagesimal(text)
}

/// Whether a text looks like `1:30:00`.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = match unsigned.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|b| b.is_ascii_digit() || b == b'_') => whole,
        Some(_) => return false,
        None => unsigned,
    };
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let mut rest = parts.peekable();
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && rest.peek().is_some()
        && rest.all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}

impl Scalar {
    /// Converts to JSON; whole floats have no fraction.
    ///
    /// # Errors
    /// JSON has no such number.
    pub(super) fn into_json(self, text: &str) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(set) => set.into(),
            Self::Int(number) => number.into(),
            Self::Large(number) => number.into(),
            Self::Float(number) => Value::Number(float(number)?),
            Self::Time => text.into(),
            Self::Text(text) => text.into(),
        })
    }

    /// Converts to a map key, and its form in messages.
    ///
    /// # Errors
    /// The scalar cannot be a key.
    pub(super) fn into_key(self, text: &str) -> Result<(String, String), String> {
        let same = |key: String| (key.clone(), key);
        match self {
            Self::Null => Err("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned()),
            Self::Bool(set) => Ok(same(set.to_string())),
            Self::Int(number) => Ok(same(number.to_string())),
            Self::Large(number) => Err(format!("unsupported map key of type: uint64, key: {number:#x}")),
            Self::Float(number) => Ok(same(float_key(number))),
            Self::Time => Ok((text.to_owned(), format!("{text:?}"))),
            Self::Text(text) => {
                let shown = format!("{text:?}");
                Ok((text, shown))
            }
        }
    }
}

/// Go writes floats below 10²¹ without an exponent; a float without a point becomes an integer.
fn float(number: f64) -> Result<Number, String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the ranges are checked")]
    let whole = match number {
        n if n.fract() != 0.0 => None,
        n if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&n) => {
            Some(Number::from(n as i64))
        }
        n if (0.0..18_446_744_073_709_551_616.0).contains(&n) => Some(Number::from(n as u64)),
        _ => None,
    };
    let shown = || match number {
        n if n.is_nan() => "NaN",
        n if n > 0.0 => "+Inf",
        _ => "-Inf",
    };
    let number = whole.or_else(|| Number::from_f64(number));
    number.ok_or_else(|| format!("json: unsupported value: {}", shown()))
}

/// Formats a float with 32 bits: the shortest unique text, with an exponent below -4 and from 6 on. Values
/// beyond its range are infinite.
fn float_key(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "that is what the reader does")]
    let number = number as f32;
    if !number.is_finite() {
        let name = if number.is_nan() {
            ".nan"
        } else if number > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        return name.to_owned();
    }
    let written = format!("{number:e}");
    let (digits, exponent) = written.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
