//! Regular expressions: translates RE2 syntax for the `regex` crate, and declares the functions that match.
//!
//! As in RE2, classes such as `\d` and the boundary `\b` match ASCII only.

use super::{Outcome, int, string};
use crate::cost::{SizeEstimate, rows};
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::limits::REGEX_BYTES;
use crate::types::Type;
use crate::value::{Opaque, Val};
use regex::{Regex, RegexBuilder};
use std::any::Any;
use std::borrow::Cow;

/// Declares `matches`.
pub(super) fn add_standard(d: &mut Declarations) {
    let two = [Type::String, Type::String];
    d.add("matches", Overload::function("matches", two.clone(), Type::Bool, matches));
    let method = Overload::method("matches_string", two, Type::Bool, matches);
    d.add("matches", method.cost(rows::pattern_match(|_| None)));
    d.pattern_function("matches");
}

/// Declares `find` and `findAll`.
pub(super) fn add(d: &mut Declarations) {
    let two = [Type::String, Type::String];
    let three = [Type::String, Type::String, Type::Int];
    let texts = Type::list(Type::String);
    d.add("find", Overload::method("string_find_string", two.clone(), Type::String, find));
    d.add("findAll", Overload::method("string_find_all_string", two, texts.clone(), find_all));
    d.add("findAll", Overload::method("string_find_all_string_int", three, texts, find_all));
    for name in ["find", "findAll"] {
        d.pattern_function(name);
        let result = |target: SizeEstimate| Some(SizeEstimate { min: 0, max: target.max });
        d.cost_all(name, rows::pattern_match(result));
    }
}

/// A compiled pattern, the argument of a call in place of its string.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    size: u64,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, EvalError> {
        Ok(Self { regex: compile(text)?, size: text.chars().count() as u64 })
    }
}

impl Opaque for Pattern {
    fn type_name(&self) -> &str {
        "pattern"
    }

    fn equals(&self, _other: &dyn Opaque) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn size(&self) -> u64 {
        self.size
    }
}

fn pattern<'v>(args: &'v [Val<'_>]) -> Result<Cow<'v, Regex>, EvalError> {
    match args.get(1).and_then(Val::as_opaque::<Pattern>) {
        Some(pattern) => Ok(Cow::Borrowed(&pattern.regex)),
        None => compile(string(args, 1)?).map(Cow::Owned),
    }
}

fn matches<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    Ok(Val::Bool(pattern(args)?.is_match(string(args, 0)?)))
}

fn find<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let found = pattern(args)?.find(string(args, 0)?).map_or("", |found| found.as_str());
    Ok(Val::string(found))
}

fn find_all<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let count = if args.len() == 3 { int(args, 2)? } else { -1 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let pattern = pattern(args)?;
    let found = pattern.find_iter(string(args, 0)?).take(count);
    Ok(Val::list(found.map(|found| Val::string(found.as_str())).collect()))
}

/// Compiles a pattern in RE2 syntax.
pub(crate) fn compile(text: &str) -> Result<Regex, EvalError> {
    let translated = translate(text).map_err(|why| invalid(text, why))?;
    let built = RegexBuilder::new(&translated).size_limit(REGEX_BYTES).dfa_size_limit(REGEX_BYTES).build();
    built.map_err(|_| invalid(text, "not a regular expression, or too large"))
}

fn invalid(text: &str, why: &str) -> EvalError {
    EvalError::other(format!("error parsing regexp: {why}: `{text}`"))
}

/// The most repetitions that RE2 accepts.
const REPETITIONS: u32 = 1000;

/// Translates a pattern to the syntax of the `regex` crate.
fn translate(text: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    let mut after_repetition = false;
    while let Some(c) = rest.chars().next() {
        let is_repetition = match c {
            '*' | '+' | '?' => true,
            '{' => repetition(rest)?.is_some(),
            _ => false,
        };
        if is_repetition {
            let length = if c == '{' { repetition(rest)?.unwrap_or(1) } else { 1 };
            let lazy = rest[length..].starts_with('?');
            if after_repetition {
                return Err("invalid nested repetition operator");
            }
            let end = length + usize::from(lazy);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            after_repetition = true;
            continue;
        }
        after_repetition = false;
        rest = match c {
            '\\' => escape(rest, &mut out, false)?,
            '[' => class(rest, &mut out)?,
            // A brace that begins no repetition is a literal.
            '{' | '}' => {
                out.push('\\');
                out.push(c);
                &rest[1..]
            }
            _ => {
                out.push(c);
                &rest[c.len_utf8()..]
            }
        };
    }
    Ok(out)
}

/// The length of the counted repetition at the start of a pattern; `None` if it does not start with one.
fn repetition(text: &str) -> Result<Option<usize>, &'static str> {
    let Some(end) = text.find('}') else { return Ok(None) };
    let (low, high) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if low.is_empty() || !digits(low) || !digits(high) {
        return Ok(None);
    }
    let number = |part: &str| part.parse::<u32>().unwrap_or(u32::MAX);
    if number(low) > REPETITIONS
        || (!high.is_empty() && (number(high) > REPETITIONS || number(high) < number(low)))
    {
        return Err("invalid repeat count");
    }
    Ok(Some(end + 1))
}

/// Translates the escape at the start of a pattern; returns the rest of the pattern.
fn escape<'t>(text: &'t str, out: &mut String, in_class: bool) -> Result<&'t str, &'static str> {
    let c = text[1..].chars().next().ok_or("trailing backslash at end of expression")?;
    let rest = &text[1 + c.len_utf8()..];
    let ascii = match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'b' if !in_class => r"(?-u:\b)",
        'B' if !in_class => return Err("invalid escape sequence"),
        'Q' if !in_class => {
            let (literal, rest) = rest.split_once("\\E").unwrap_or((rest, ""));
            out.push_str(&regex::escape(literal));
            return Ok(rest);
        }
        'C' | 'Z' | 'G' | 'K' | 'R' | 'X' | 'h' | 'H' | 'N' | 'u' | 'U' | 'e' | 'c' => {
            return Err("invalid escape sequence");
        }
        '1'..='9' => return Err("invalid escape sequence"),
        '0' => return octal(rest, out),
        _ => "",
    };
    if ascii.is_empty() {
        out.push('\\');
        out.push(c);
    } else {
        out.push_str(ascii);
    }
    Ok(rest)
}

/// Translates an octal escape: a zero and up to two digits.
fn octal<'t>(text: &'t str, out: &mut String) -> Result<&'t str, &'static str> {
    let digits = text.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    let number = u32::from_str_radix(&format!("0{}", &text[..digits]), 8);
    let number = number.map_err(|_| "invalid escape sequence")?;
    out.push_str(&format!("\\x{{{number:x}}}"));
    Ok(&text[digits..])
}

/// Translates the character class at the start of a pattern; returns the rest of the pattern.
fn class<'t>(text: &'t str, out: &mut String) -> Result<&'t str, &'static str> {
    out.push('[');
    let mut rest = &text[1..];
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let mut is_first = true;
    while let Some(c) = rest.chars().next() {
        match c {
            ']' if !is_first => {
                out.push(']');
                return Ok(&rest[1..]);
            }
            '[' if rest.starts_with("[:") && rest.contains(":]") => {
                let end = rest.find(":]").unwrap_or(0) + 2;
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            '\\' => rest = escape(rest, out, true)?,
            // Characters that are special in the `regex` crate only.
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                rest = &rest[1..];
            }
            '-' if rest.starts_with("--") => {
                out.push_str("\\-");
                rest = &rest[1..];
            }
            _ => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        is_first = false;
    }
    Err("missing closing ]")
}
