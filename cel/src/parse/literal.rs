//! Literals: computes the values of number, string and bytes tokens.

use crate::ast::Literal;
use std::borrow::Cow;
use std::sync::Arc;

/// The value of an integer token with its sign.
pub(super) fn int(text: &str) -> Result<Literal, &'static str> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (digits, radix) = radix(digits);
    i64::from_str_radix(&format!("{sign}{digits}"), radix)
        .map(Literal::Int)
        .map_err(|_| "invalid int literal")
}

/// The value of an unsigned token, with its `u`.
pub(super) fn uint(text: &str) -> Result<Literal, &'static str> {
    let (digits, radix) = radix(text.trim_end_matches(['u', 'U']));
    u64::from_str_radix(digits, radix).map(Literal::Uint).map_err(|_| "invalid uint literal")
}

fn radix(digits: &str) -> (&str, u32) {
    digits.strip_prefix("0x").map_or((digits, 10), |hex| (hex, 16))
}

/// The value of a floating-point token with its sign.
pub(super) fn double(text: &str) -> Result<Literal, &'static str> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Literal::Double(value)),
        _ => Err("invalid double literal"),
    }
}

/// The value of a string token.
pub(super) fn string(text: &str) -> Result<Literal, &'static str> {
    let (body, raw) = body(text);
    if raw {
        return Ok(Literal::String(Arc::from(body)));
    }
    let mut value = String::with_capacity(body.len());
    unescape(&body, |unit| match unit {
        StringUnit::Char(c) | StringUnit::Code(c) => {
            value.push(char::from_u32(c).ok_or(STRING)?);
            Ok(())
        }
    })?;
    Ok(Literal::String(Arc::from(value)))
}

const STRING: &str = "unable to unescape string";
const BYTES: &str = "unable to unescape bytes";

/// The value of a bytes token; escapes of code points are not allowed in bytes.
pub(super) fn bytes(text: &str) -> Result<Literal, &'static str> {
    let (body, raw) = body(&text[1..]);
    if raw {
        return Ok(Literal::Bytes(Arc::from(body.as_bytes())));
    }
    if body.contains("\\u") || body.contains("\\U") {
        return Err(BYTES);
    }
    let mut value = Vec::with_capacity(body.len());
    unescape(&body, |unit| match unit {
        StringUnit::Code(byte) => {
            value.push(u8::try_from(byte).map_err(|_| BYTES)?);
            Ok(())
        }
        StringUnit::Char(c) => {
            let c = char::from_u32(c).ok_or(BYTES)?;
            value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            Ok(())
        }
    })?;
    Ok(Literal::Bytes(Arc::from(value)))
}

/// The text between the quotes with line ends as `\n`, and whether it is raw.
fn body(text: &str) -> (Cow<'_, str>, bool) {
    let (body, raw) = between_quotes(text);
    if !body.contains('\r') {
        return (Cow::Borrowed(body), raw);
    }
    (Cow::Owned(body.replace("\r\n", "\n").replace('\r', "\n")), raw)
}

fn between_quotes(text: &str) -> (&str, bool) {
    let raw = text.starts_with(['r', 'R']);
    let quoted = if raw { &text[1..] } else { text };
    let triple = quoted.len() >= 6 && (quoted.starts_with("\"\"\"") || quoted.starts_with("'''"));
    let quote = if triple { 3 } else { 1 };
    (&quoted[quote..quoted.len() - quote], raw)
}

/// One unit of a string token: a literal character, or the number of an escape.
enum StringUnit {
    Char(u32),
    Code(u32),
}

fn unescape(
    body: &str,
    mut push: impl FnMut(StringUnit) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(StringUnit::Char(c as u32))?;
            continue;
        }
        let unit = match chars.next().ok_or(STRING)? {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            'x' | 'X' => digits(&mut chars, String::new(), 2, 16)?,
            'u' => digits(&mut chars, String::new(), 4, 16)?,
            'U' => digits(&mut chars, String::new(), 8, 16)?,
            digit @ '0'..='3' => digits(&mut chars, digit.to_string(), 2, 8)?,
            other => other as u32,
        };
        push(StringUnit::Code(unit))?;
    }
    Ok(())
}

/// The number of an escape: the digits in `text`, and the next `count` characters as further digits.
fn digits(
    chars: &mut std::str::Chars<'_>,
    mut text: String,
    count: usize,
    radix: u32,
) -> Result<u32, &'static str> {
    text.extend(chars.by_ref().take(count));
    u32::from_str_radix(&text, radix).map_err(|_| STRING)
}
