//! Values as Go prints them, and `printf`. Pure.

use crate::limits::{BYTES, WIDTH};
use crate::value::{float, int};
use serde_json::Value;
use std::fmt::Write as _;

/// Appends a value as an action prints it. Nil is `<no value>`.
pub(crate) fn print(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<no value>"),
        other => verb_v(out, other),
    }
}

/// Appends a value as `%v` does.
fn verb_v(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (None, None, Some(number)) => out.push_str(&general(number)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => out.push_str(text),
        Value::Array(all) => {
            out.push('[');
            for (index, element) in all.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                verb_v(out, element);
            }
            out.push(']');
        }
        Value::Object(all) => {
            out.push_str("map[");
            let mut names: Vec<_> = all.iter().collect();
            names.sort_by_key(|(name, _)| *name);
            for (index, (name, value)) in names.into_iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                verb_v(out, value);
            }
            out.push(']');
        }
    }
}

/// A floating-point number as Go's `%v`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
fn general(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-4..1e6).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// The text of a value, as `%v` has it.
pub(crate) fn display(value: &Value) -> String {
    let mut out = String::new();
    verb_v(&mut out, value);
    out
}

/// A verb of a format: its flags, width, precision and letter.
#[derive(Default)]
struct Verb {
    is_left: bool,
    has_zeros: bool,
    has_sign: bool,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

/// `printf`: the verbs `%s %v %d %q %f %g %t %x %%` with width, precision and the flags `-`, `0`, `+`.
pub(crate) fn printf(format: &str, arguments: &[&Value]) -> Result<String, String> {
    let (mut out, mut rest, mut arguments) = (String::new(), format, arguments.iter());
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (verb, length) = verb(&rest[at + 1..])?;
        rest = &rest[at + 1 + length..];
        if verb.letter == '%' {
            out.push('%');
            continue;
        }
        let argument = arguments.next();
        let argument = argument.ok_or_else(|| format!("%{} has no argument", verb.letter))?;
        pad(&mut out, &verb, &formatted(&verb, argument)?);
        if out.len() > BYTES {
            return Err(format!("the text is larger than {BYTES} bytes"));
        }
    }
    out.push_str(rest);
    match arguments.next() {
        None => Ok(out),
        Some(_) => Err("printf has more arguments than verbs".to_owned()),
    }
}

/// The verb at the beginning of a text behind its `%`, and its length.
fn verb(text: &str) -> Result<(Verb, usize), String> {
    let mut verb = Verb::default();
    let mut precision = String::new();
    let (mut width, mut is_behind_point) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '-' => verb.is_left = true,
            '+' => verb.has_sign = true,
            '0' if width.is_empty() && !is_behind_point => verb.has_zeros = true,
            '0'..='9' if is_behind_point => precision.push(c),
            '0'..='9' => width.push(c),
            '.' => is_behind_point = true,
            letter => {
                let number = |digits: &str| match digits {
                    "" => Ok(0),
                    digits => digits
                        .parse()
                        .ok()
                        .filter(|number| *number <= WIDTH)
                        .ok_or_else(|| format!("a width or precision of printf is above {WIDTH}")),
                };
                verb.width = number(&width)?;
                verb.precision = is_behind_point.then(|| number(&precision)).transpose()?;
                verb.letter = letter;
                return Ok((verb, at + letter.len_utf8()));
            }
        }
    }
    Err("\"%\" at the end of a format has no verb".to_owned())
}

/// The value as a verb shows it, without padding.
fn formatted(verb: &Verb, value: &Value) -> Result<String, String> {
    let signed = |text: String, is_negative: bool| match verb.has_sign && !is_negative {
        true => format!("+{text}"),
        false => text,
    };
    let cut = |text: String| match verb.precision {
        Some(most) => text.chars().take(most).collect(),
        None => text,
    };
    Ok(match verb.letter {
        's' => cut(display(value)),
        'v' | 't' => display(value),
        'q' => Value::String(cut(display(value))).to_string(),
        'd' => {
            let whole = int(value)?;
            signed(whole.to_string(), whole < 0)
        }
        'x' => match value {
            Value::String(text) => text.bytes().fold(String::new(), |mut all, byte| {
                // Writing into a text does not fail.
                let _ = write!(all, "{byte:02x}");
                all
            }),
            number => format!("{:x}", int(number)?),
        },
        'f' => {
            let number = float(value)?;
            signed(format!("{number:.*}", verb.precision.unwrap_or(6)), number < 0.0)
        }
        'g' => general(float(value)?),
        other => return Err(format!("printf does not support %{other}")),
    })
}

fn pad(out: &mut String, verb: &Verb, text: &str) {
    let missing = verb.width.saturating_sub(text.chars().count());
    if verb.is_left {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else if verb.has_zeros && !matches!(verb.letter, 's' | 'v' | 'q' | 't') {
        let digits = text.trim_start_matches(['-', '+']);
        out.push_str(&text[..text.len() - digits.len()]);
        out.extend(std::iter::repeat_n('0', missing));
        out.push_str(digits);
    } else {
        out.extend(std::iter::repeat_n(' ', missing));
        out.push_str(text);
    }
}
