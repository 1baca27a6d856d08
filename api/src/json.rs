//! JSON text with the numbers of Go's `encoding/json`, for everything that is stored or sent.
//!
//! Kubernetes reads a number without point and exponent as an integer if it fits into 64 bits with a sign, and every other
//! number as a double. It writes a double with its shortest digits: in full from 10⁻⁶ up to 10²¹, else with an exponent.
//! So `1.0` is written `1`, `1e6` is written `1000000`, and Go clients can decode both into integers.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::borrow::Cow;
use std::io::{Result, Write};

/// The replacement character as the escape of a JSON string.
const REPLACEMENT_ESCAPE: &[u8] = b"\\ufffd";

/// Parses a JSON text that a client sent. Returns the value, and the text as it was read: see `repaired`.
///
/// # Errors
/// The text is not JSON, or nests 128 levels or deeper.
pub fn parse(json: &[u8]) -> std::result::Result<(Value, Cow<'_, [u8]>), serde_json::Error> {
    let error = match serde_json::from_slice(json) {
        Ok(value) => return Ok((value, Cow::Borrowed(json))),
        Err(error) => error,
    };
    // Few texts need a repair, so that only the refused ones are searched.
    match repaired(json) {
        Cow::Owned(text) => Ok((serde_json::from_slice(&text)?, Cow::Owned(text))),
        Cow::Borrowed(_) => Err(error),
    }
}

/// A JSON text with what no Unicode text has replaced by U+FFFD, as Go's decoder does: each byte that is not UTF-8, and each escape of
/// half a surrogate pair. Borrowed if there is none.
fn repaired(json: &[u8]) -> Cow<'_, [u8]> {
    let mut text = match std::str::from_utf8(json) {
        Ok(_) => Cow::Borrowed(json),
        Err(_) => Cow::Owned(with_valid_utf8(json)),
    };
    let mut at = 0;
    while let Some(found) = text[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        match escaped_unit(&text[at..]) {
            Some(0xd800..=0xdbff) => match text.get(at + ESCAPE_BYTES..).and_then(escaped_unit) {
                Some(0xdc00..=0xdfff) => at += 2 * ESCAPE_BYTES,
                _ => at = replace_escape(&mut text, at),
            },
            Some(0xdc00..=0xdfff) => at = replace_escape(&mut text, at),
            Some(_) => at += ESCAPE_BYTES,
            // An escaped character, which may be a backslash.
            None => at = (at + 2).min(text.len()),
        }
    }
    text
}

/// Length of an escape such as `\u00e9`.
const ESCAPE_BYTES: usize = REPLACEMENT_ESCAPE.len();

/// The UTF-16 unit of the escape at the start of a text.
fn escaped_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit: u16, digit| {
        Some(unit << 4 | u16::try_from(char::from(*digit).to_digit(16)?).ok()?)
    })
}

/// Overwrites the escape at an offset, and returns the offset behind it.
fn replace_escape(text: &mut Cow<'_, [u8]>, at: usize) -> usize {
    text.to_mut()[at..at + ESCAPE_BYTES].copy_from_slice(REPLACEMENT_ESCAPE);
    at + ESCAPE_BYTES
}

fn with_valid_utf8(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        chunk.invalid().iter().for_each(|_| out.extend_from_slice("\u{fffd}".as_bytes()));
    }
    out
}

/// Appends a value as compact JSON.
///
/// # Panics
/// If a map in the value has keys that are not strings.
pub fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let mut to = Serializer::with_formatter(out, GoNumbers(CompactFormatter));
    value.serialize(&mut to).expect("the value has string keys, and memory takes every write");
}

/// Appends a value as compact JSON: the bytes of [`write()`]. Plain strings are copied whole, and no serializer is between the value and
/// the text.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            write_members(out, members.iter());
            out.push(b'}');
        }
    }
}

/// A value as compact JSON; see [`write_value`].
#[must_use]
pub fn value_to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_value(&mut out, value);
    out
}

/// Appends the members of an object in compact JSON, without the braces around them.
pub fn write_members<'m>(out: &mut Vec<u8>, members: impl Iterator<Item = (&'m String, &'m Value)>) {
    let mut is_first = true;
    for (name, value) in members {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write_value(out, value);
    }
}

/// Appends a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    if plain_length(text.as_bytes()) < text.len() {
        return write(out, text);
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Number of bytes before the next quote, backslash or control character: those that a JSON string has as they are.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = special_bytes(u64::from_le_bytes(*word));
        if marks != 0 {
            return index * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let rest = words.len() * 8;
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    rest + bytes[rest..].iter().position(is_special).unwrap_or(bytes.len() - rest)
}

/// The highest bit of each byte that ends plain text. Only the lowest marked byte is exact: borrows of a subtraction may mark others above.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
    let quotes = below(word ^ (ONES * u64::from(b'"')), 1);
    let backslashes = below(word ^ (ONES * u64::from(b'\\')), 1);
    (quotes | backslashes | below(word, 0x20)) & (ONES << 7)
}

/// A value as compact JSON.
///
/// # Panics
/// If a map in the value has keys that are not strings.
#[must_use]
pub fn to_vec(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write(&mut out, value);
    out
}

/// A value as compact JSON.
///
/// # Panics
/// If a map in the value has keys that are not strings.
#[must_use]
pub fn to_string(value: &(impl Serialize + ?Sized)) -> String {
    text(to_vec(value))
}

/// A value as indented JSON.
///
/// # Panics
/// If a map in the value has keys that are not strings.
#[must_use]
pub fn to_string_pretty(value: &(impl Serialize + ?Sized)) -> String {
    let mut out = Vec::with_capacity(128);
    let mut to = Serializer::with_formatter(&mut out, GoNumbers(PrettyFormatter::new()));
    value.serialize(&mut to).expect("the value has string keys, and memory takes every write");
    text(out)
}

/// The value of a typed object, like `serde_json::to_value`. It goes through text: for a second kind of serializer the compiler would
/// generate the encoders of all types again.
///
/// # Errors
/// A map in the object has keys that are not strings.
pub fn value_of(object: &(impl Serialize + ?Sized)) -> std::result::Result<Value, serde_json::Error> {
    serde_json::from_slice(&serde_json::to_vec(object)?)
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON is UTF-8")
}

/// Text of a double as Go's `encoding/json` writes it. Negative zero is `0`: Kubernetes reads the `-0` that Go writes as the
/// integer zero, so clients never see it.
#[must_use]
pub fn double(number: f64) -> String {
    /// Doubles from here on have an exponent.
    const LARGE: f64 = 1e21;
    /// Doubles below have an exponent.
    const SMALL: f64 = 1e-6;
    let size = number.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if (SMALL..LARGE).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// Formatter that writes numbers like Go, and leaves the rest to another formatter.
struct GoNumbers<F>(F);

impl<F: Formatter> Formatter for GoNumbers<F> {
    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, value: f64) -> Result<()> {
        to.write_all(double(value).as_bytes())
    }

    /// Integers beyond 64 bits with a sign are doubles.
    fn write_u64<W: ?Sized + Write>(&mut self, to: &mut W, value: u64) -> Result<()> {
        match i64::try_from(value) {
            Ok(_) => self.0.write_u64(to, value),
            #[expect(clippy::cast_precision_loss, reason = "as Go reads it")]
            Err(_) => self.write_f64(to, value as f64),
        }
    }

    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> Result<()> {
        self.0.begin_array(to)
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_array(to)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> Result<()> {
        self.0.begin_array_value(to, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_array_value(to)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> Result<()> {
        self.0.begin_object(to)
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_object(to)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> Result<()> {
        self.0.begin_object_key(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> Result<()> {
        self.0.begin_object_value(to)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> Result<()> {
        self.0.end_object_value(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewritten(text: &str) -> String {
        to_string(&serde_json::from_str::<Value>(text).unwrap())
    }

    /// The answers of a kube-apiserver 1.36 to custom objects with these numbers, and of Go's encoder.
    #[test]
    fn numbers_are_written_like_kubernetes() {
        let cases = [
            ("221655076.18524837", "221655076.18524837"),
            ("1.0", "1"),
            ("1e6", "1000000"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("100000000000000000000", "100000000000000000000"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854776000"),
            ("18446744073709551615", "18446744073709552000"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-9223372036854775809", "-9223372036854776000"),
            ("1e21", "1e+21"),
            ("1.5e300", "1.5e+300"),
            ("999999999999999900000", "999999999999999900000"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("-2.5e-10", "-2.5e-10"),
            ("5e-324", "5e-324"),
            ("0.1", "0.1"),
        ];
        for (sent, want) in cases {
            assert_eq!(rewritten(sent), want, "{sent}");
        }
    }

    /// The strings that Go's `encoding/json` decodes from these texts.
    #[test]
    fn texts_that_are_not_unicode_are_repaired_like_go() {
        let cases: [(&[u8], &str); 10] = [
            (b"\"a\xffb\"", "a\u{fffd}b"),
            (b"\"\xe2\x82A\"", "\u{fffd}\u{fffd}A"),
            (b"\"\xf0\x9f\x98\"", "\u{fffd}\u{fffd}\u{fffd}"),
            (br#""\ud83d""#, "\u{fffd}"),
            (br#""\uDE00x""#, "\u{fffd}x"),
            (br#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (br#""\ud83d\n\u0041""#, "\u{fffd}\nA"),
            (br#""\\ud83d""#, "\\ud83d"),
            (br#""\ud83d\ude00\u00e9""#, "\u{1f600}\u{e9}"),
            ("\"\u{e9}\"".as_bytes(), "\u{e9}"),
        ];
        for (sent, want) in cases {
            let text = repaired(sent);
            assert_eq!(serde_json::from_slice::<String>(&text).unwrap(), want, "{sent:?}");
            let (read, read_text) = parse(sent).unwrap();
            assert_eq!((read, &read_text), (Value::from(want), &text));
            assert_eq!(matches!(text, Cow::Owned(_)), want.contains('\u{fffd}'), "{sent:?}");
        }
        for malformed in [&b"\"\\"[..], b"\"\\u12", b"\"\\ud8", b"\"\\ud83d\\u"] {
            assert!(parse(malformed).is_err(), "{malformed:?}");
        }
    }

    #[test]
    fn text_nested_128_levels_or_deeper_is_refused() {
        let nested = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
        assert!(parse(nested(127).as_bytes()).is_ok());
        for levels in [128, 10_000, 1_000_000] {
            let error = parse(nested(levels).as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("recursion limit exceeded"), "{error}");
        }
    }

    #[test]
    fn indented_text_has_the_same_numbers() {
        let value: Value = serde_json::from_str(r#"{"a":[1.0,{}],"b":{"c":1e20}}"#).unwrap();
        let want =
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {\n    \"c\": 100000000000000000000\n  }\n}";
        assert_eq!(to_string_pretty(&value), want);
    }

    /// Values of every form, with all characters that JSON escapes.
    fn values() -> impl Strategy<Value = Value> {
        let text = "[ -~\\x00-\\x1f\\x7f\u{e9}\u{2028}\u{1f600}]{0,20}";
        let number = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number,
            text.prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(text, inner, 0..6)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_are_written_as_the_serializer_writes_them(value in values()) {
            prop_assert_eq!(String::from_utf8(value_to_vec(&value)).unwrap(), to_string(&value));
        }

        #[test]
        fn doubles_keep_their_value(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            let text = double(number);
            prop_assert_eq!(text.parse::<f64>().unwrap(), number);
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.as_f64(), Some(number), "{}", text);
            prop_assert_eq!(to_string(&read), text);
        }

        /// 17 digits name any double; the reader must take the nearest.
        #[test]
        fn texts_of_doubles_are_read_as_the_nearest_double(mantissa in 1_u64..100_000_000_000_000_000, power in -40_i32..40) {
            let text = format!("{mantissa}e{power}");
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.as_f64().unwrap().to_bits(), text.parse::<f64>().unwrap().to_bits(), "{}", text);
        }
    }
}
