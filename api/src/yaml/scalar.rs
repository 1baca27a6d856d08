//! What a scalar of YAML means to Kubernetes' reader, go-yaml 2: YAML 1.1, but for its numbers to base 60. Pure.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};
use std::ops::RangeInclusive;

/// A scalar that has been understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// What is too large for the others.
    Large(u64),
    Float(f64),
    /// A time stays the text that it is.
    Time,
    Text(String),
}

/// What a scalar is by what stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing: it is what it looks like.
    Plain,
    /// Quotes, or the tag of somebody: it is a text.
    Text,
    /// A tag of YAML's own, by its name.
    Tagged(String),
}

/// Reads a scalar.
///
/// # Errors
/// It is not what its tag says.
pub(super) fn read(text: &str, form: &Form) -> Result<Scalar, String> {
    let tag = match form {
        Form::Plain => return Ok(plain(text)),
        Form::Text => return Ok(Scalar::Text(text.to_owned())),
        Form::Tagged(tag) => tag.as_str(),
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

/// What a text means that is not quoted.
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

/// An integer to one of four bases, or a float of digits.
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
    // A sign behind the base is an accident of the reader, and is read.
    let signed = text.strip_prefix("0b").and_then(|digits| i64::from_str_radix(digits, 2).ok());
    signed.map(Scalar::Int)
}

/// The digits of an integer without sign, and their base: a leading zero means 8.
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

/// Digits, a point somewhere, an exponent perhaps.
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

/// A number that is too large for a float is a text.
fn finite(text: &str) -> Option<Scalar> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(Scalar::Float)
}

/// A date, or a date with a time of day and a zone, or with a space between them and none.
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

/// One digit or two.
fn short(text: &str, range: RangeInclusive<u16>) -> bool {
    text.len() <= 2 && within(text, range)
}

fn within(text: &str, range: RangeInclusive<u16>) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse().is_ok_and(|number| range.contains(&number))
}

/// Whether a text reads as itself without quotes, also to those who know numbers to base 60.
pub fn needs_no_quotes(text: &str) -> bool {
    matches!(plain(text), Scalar::Text(_)) && text != "<<" && !is_sexagesimal(text)
}

/// `1:30:00` and the like.
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
    /// As JSON has it; a float without a fraction is written without one, and so is an integer.
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

    /// As the key of a map: the key, and how it is shown.
    ///
    /// # Errors
    /// It can be none.
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

/// Go writes floats below 10²¹ without an exponent, and whoever reads one without a point reads an integer.
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

/// The shortest form that tells floats of half the size apart, with an exponent below -4 and from 6 on. What is too large for them is
/// infinite.
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
