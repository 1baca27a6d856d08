//! `time.ParseDuration`.

use std::fmt::Write as _;
use std::time::Duration;
use thiserror::Error;

/// The largest absolute value of a duration, in nanoseconds: that of the most negative one.
const LARGEST: u64 = 1 << 63;

/// Why a text is no duration, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    /// The text is not a sum of decimal numbers with units, or its value exceeds 292 years.
    #[error("time: invalid duration {}", quoted(.0))]
    Invalid(String),
    /// A number is not followed by a unit.
    #[error("time: missing unit in duration {}", quoted(.0))]
    MissingUnit(String),
    /// A number is followed by a word that is not a unit.
    #[error("time: unknown unit {} in duration {}", quoted(.unit), quoted(.text))]
    UnknownUnit {
        /// The word.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// Parses a duration such as `-1h30m`, `1.5s` or `0` to nanoseconds, as Go's `time.ParseDuration` does.
///
/// # Errors
/// The text is no duration, or the duration is longer than 292 years.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (amount, after) = decimal(rest).ok_or_else(invalid)?;
        let end = after.find(is_of_number).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let unit = nanoseconds(unit)
            .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
        let part = amount.times(unit).ok_or_else(invalid)?;
        total = total.checked_add(part).filter(|total| *total <= LARGEST).ok_or_else(invalid)?;
        rest = after;
    }
    // The most negative duration has no positive counterpart.
    let nanos = if is_negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
    nanos.ok_or_else(invalid)
}

/// Parses a duration that is not below zero.
///
/// # Errors
/// As [`parse`]; a duration below zero is invalid.
pub fn parse_non_negative(text: &str) -> Result<Duration, DurationError> {
    let nanos = u64::try_from(parse(text)?).map_err(|_| DurationError::Invalid(text.to_owned()))?;
    Ok(Duration::from_nanos(nanos))
}

fn is_of_number(letter: char) -> bool {
    letter == '.' || letter.is_ascii_digit()
}

fn nanoseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign, and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A decimal number: `whole + fraction / scale`.
struct Decimal {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl Decimal {
    /// The number of nanoseconds in this many units, rounded down; none above [`LARGEST`]. Go computes the fraction in floating
    /// point too.
    fn times(&self, unit: u64) -> Option<u64> {
        let whole = self.whole.checked_mul(unit)?;
        let fraction = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        whole.checked_add(fraction).filter(|nanos| *nanos <= LARGEST)
    }
}

/// Reads a decimal number from the beginning of a text. Returns it and the rest.
fn decimal(text: &str) -> Option<(Decimal, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let after_whole = text.trim_start_matches(is_digit);
    let whole = &text[..text.len() - after_whole.len()];
    let (digits, rest) = match after_whole.strip_prefix('.') {
        None => ("", after_whole),
        Some(after) => {
            let rest = after.trim_start_matches(is_digit);
            (&after[..after.len() - rest.len()], rest)
        }
    };
    if whole.is_empty() && digits.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse().ok().filter(|whole| *whole <= LARGEST)? };
    let (fraction, scale) = fraction(digits);
    Some((Decimal { whole, fraction, scale }, rest))
}

/// The value of digits after the point, and the power of ten that divides it. Digits beyond the range of a duration do not count.
fn fraction(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes() {
        let longer = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        match longer.filter(|longer| value <= (LARGEST - 1) / 10 && *longer <= LARGEST) {
            Some(longer) => value = longer,
            None => break,
        }
        scale *= 10.0;
    }
    (value, scale)
}

/// Quotes a text as Go's package `time` does: bytes that are not printable ASCII become `\x` with two digits.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        if letter.is_ascii() && letter >= ' ' {
            if matches!(letter, '"' | '\\') {
                out.push('\\');
            }
            out.push(letter);
        } else {
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                write!(out, "\\x{byte:02x}").expect("a string takes everything");
            }
        }
    }
    out.push('"');
    out
}
