//! The function `format` with clauses such as `%s` and `%.2f`. The type checker checks constant formats.

use super::strings::quote;
use crate::error::EvalError;
use crate::limits::{FORMAT_PRECISION, STRING_BYTES, VALUE_DEPTH};
use crate::types::Type;
use crate::value::{List, Val, text_of};

/// Digits after the decimal point of a clause without a precision.
const PRECISION: usize = 6;

/// A part of a format.
enum FormatPiece<'t> {
    Text(&'t str),
    Clause { verb: char, precision: usize },
}

/// The pieces of a format. The error of an invalid piece is the last item.
fn pieces(text: &str) -> impl Iterator<Item = Result<FormatPiece<'_>, String>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find('%') else { return Some(Ok(FormatPiece::Text(std::mem::take(&mut rest)))) };
        if at > 0 {
            let (before, clause) = rest.split_at(at);
            rest = clause;
            return Some(Ok(FormatPiece::Text(before)));
        }
        if let Some(behind) = rest.strip_prefix("%%") {
            rest = behind;
            return Some(Ok(FormatPiece::Text("%")));
        }
        let read = clause(&rest[1..]);
        rest = read.as_ref().map_or("", |(_, behind)| behind);
        Some(read.map(|(piece, _)| piece))
    })
}

/// The clause after a `%`, and the rest of the format.
fn clause(text: &str) -> Result<(FormatPiece<'_>, &str), String> {
    let failed = |why: String| format!("could not parse formatting clause: {why}");
    if text.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    let (precision, rest) = match text.strip_prefix('.') {
        None => (PRECISION, text),
        Some(digits) => {
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if end == digits.len() {
                return Err(failed(
                    "error while parsing precision: could not find end of precision specifier".to_owned(),
                ));
            }
            let number = digits[..end].parse().ok().filter(|number| *number <= FORMAT_PRECISION);
            let number = number.ok_or_else(|| {
                failed(format!("error while parsing precision: invalid precision {:?}", &digits[..end]))
            })?;
            (number, &digits[end..])
        }
    };
    let verb = rest.chars().next().unwrap_or('%');
    if !"sdfebxXo".contains(verb) {
        return Err(failed(format!("unrecognized formatting clause \"{verb}\"")));
    }
    Ok((FormatPiece::Clause { verb, precision }, &rest[1..]))
}

/// The types that a verb takes, and their description in errors.
fn verb_error(verb: char, found: &str) -> String {
    let takes = match verb {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    };
    format!("error during formatting: {takes}, was given {found}")
}

/// Checks a constant format against the types of its arguments. An error has the index of its argument, if it concerns one.
pub(crate) fn check(text: &str, types: &[&Type]) -> Result<(), (Option<usize>, String)> {
    let mut next = 0;
    for piece in pieces(text) {
        let FormatPiece::Clause { verb, .. } = piece.map_err(|message| (None, message))? else { continue };
        let Some(ty) = types.get(next) else { return Err((None, format!("index {next} out of range"))) };
        if !accepts(verb, ty) {
            return Err((Some(next), verb_error(verb, ty.runtime_name())));
        }
        next += 1;
    }
    if next < types.len() {
        let given = types.len();
        let message = format!("too many arguments supplied to string.format (expected {next}, got {given})");
        return Err((None, message));
    }
    Ok(())
}

fn accepts(verb: char, ty: &Type) -> bool {
    match (verb, ty) {
        (_, Type::Dyn | Type::Error | Type::Param(_)) => true,
        ('s', Type::List(element)) => accepts('s', element),
        ('s', Type::Map(key, value)) => accepts('s', key) && accepts('s', value),
        ('s', Type::Object(_) | Type::Opaque(..)) => false,
        ('s', _) | ('d' | 'o' | 'b' | 'x' | 'X', Type::Int | Type::Uint) => true,
        ('b', Type::Bool) | ('f' | 'e', Type::Double | Type::String) => true,
        ('x' | 'X', Type::String | Type::Bytes) => true,
        _ => false,
    }
}

/// Replaces the clauses of a format by arguments.
pub(crate) fn format(text: &str, args: &List<'_>) -> Result<String, EvalError> {
    let mut out = String::new();
    let mut next = 0;
    for piece in pieces(text) {
        match piece.map_err(EvalError::other)? {
            FormatPiece::Text(text) => out.push_str(text),
            FormatPiece::Clause { verb, precision } => {
                if next >= args.len() {
                    return Err(EvalError::other(format!("index {next} out of range")));
                }
                out.push_str(&one(verb, precision, &args.get(next)?)?);
                next += 1;
            }
        }
        if out.len() > STRING_BYTES {
            return Err(EvalError::other("string is too long"));
        }
    }
    Ok(out)
}

fn one(verb: char, precision: usize, value: &Val<'_>) -> Result<String, EvalError> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = match (verb, value) {
        ('s', value) => plain(value, VALUE_DEPTH)?,
        ('d', Val::Int(_) | Val::Uint(_)) => text_of(value),
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('b', Val::Int(value)) => signed(*value, |magnitude| format!("{magnitude:b}")),
        ('b', Val::Uint(value)) => format!("{value:b}"),
        ('o', Val::Int(value)) => signed(*value, |magnitude| format!("{magnitude:o}")),
        ('o', Val::Uint(value)) => format!("{value:o}"),
        ('x' | 'X', Val::Int(value)) => signed(*value, |magnitude| format!("{magnitude:x}")),
        ('x' | 'X', Val::Uint(value)) => format!("{value:x}"),
        ('x' | 'X', Val::String(text)) => hex(text.as_bytes()),
        ('x' | 'X', Val::Bytes(bytes)) => hex(bytes),
        ('f', Val::Double(value)) => fixed(*value, precision),
        ('e', Val::Double(value)) => scientific(*value, precision),
        ('f' | 'e', Val::String(text)) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            special(text.parse().unwrap_or(f64::NAN))
        }
        _ => return Err(EvalError::other(verb_error(verb, value.type_name()))),
    };
    Ok(if verb == 'X' { text.to_ascii_uppercase() } else { text })
}

fn signed(value: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", digits(value.unsigned_abs()))
}

fn special(value: f64) -> String {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "∞"
    } else {
        "-∞"
    }
    .to_owned()
}

/// A decimal number with its thousands grouped.
fn fixed(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return special(value);
    }
    let text = format!("{value:.precision$}");
    let whole = text.find('.').unwrap_or(text.len());
    let start = usize::from(text.starts_with('-'));
    let mut out = String::with_capacity(text.len() + 4);
    for (at, c) in text.char_indices() {
        if at > start && at < whole && (whole - at) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A number in scientific notation, with the exponent in superscript digits.
fn scientific(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return special(value);
    }
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
    let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised: String = format!("{exponent:0>2}")
        .bytes()
        .map(|digit| raised[usize::from(digit.wrapping_sub(b'0')).min(9)])
        .collect();
    format!("{digits}\u{202f}×\u{202f}10{sign}{raised}")
}

/// The string that `%s` gives for a value.
fn plain(value: &Val<'_>, depth: usize) -> Result<String, EvalError> {
    match value {
        Val::List(_) | Val::Map(_) => literal(value, depth),
        Val::Null
        | Val::Bool(_)
        | Val::Int(_)
        | Val::Uint(_)
        | Val::Double(_)
        | Val::String(_)
        | Val::Bytes(_)
        | Val::Timestamp(_)
        | Val::Duration(_)
        | Val::Type(_) => Ok(text_of(value)),
        _ => Err(EvalError::other(verb_error('s', value.type_name()))),
    }
}

/// The value as a literal of the language, the form of values in lists and maps.
fn literal(value: &Val<'_>, depth: usize) -> Result<String, EvalError> {
    let depth = depth.checked_sub(1).ok_or_else(|| EvalError::other("values are nested too deeply"))?;
    Ok(match value {
        Val::List(list) => {
            let items = list.iter().map(|item| literal(&item?, depth)).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Val::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for key in map.keys() {
                let value = map.get(&key)?.unwrap_or(Val::Null);
                entries.push((literal(&key, depth)?, literal(&value, depth)?));
            }
            entries.sort();
            let entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Val::String(text) => quote(text),
        Val::Bytes(_) => format!("b{}", quote(&text_of(value))),
        Val::Timestamp(_) => format!("timestamp({})", quote(&text_of(value))),
        Val::Duration(_) => format!("duration({})", quote(&text_of(value))),
        Val::Double(number) if number.is_finite() => format!("{number:.PRECISION$}"),
        Val::Double(number) => quote(&special(*number)),
        other => plain(other, depth)?,
    })
}
