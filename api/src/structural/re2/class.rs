//! Translation of characters and character classes in patterns: escapes and brackets.

use super::fault;
use regex::Regex;
use std::fmt::Write as _;

/// Translated fragment of a pattern, with the number of bytes it replaces.
type Piece = (String, usize);

/// Translates an escape for one character or a class, also inside brackets. The text begins with the
/// backslash.
pub(super) fn class_escape(text: &str) -> Result<Piece, String> {
    let Some(kind) = text[1..].chars().next() else {
        return Err(fault("trailing backslash at end of expression", ""));
    };
    let class = match kind {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0C\r ]",
        'S' => r"[^\t\n\x0C\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'p' | 'P' => return unicode(text),
        _ => {
            let (c, length) = character(text)?;
            return Ok((literal(c), length));
        }
    };
    Ok((class.to_owned(), 2))
}

/// A character in a form that the `regex` crate accepts everywhere.
fn literal(c: char) -> String {
    let mut out = String::new();
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        write!(out, "\\x{{{:X}}}", u32::from(c)).expect("writing to a String succeeds");
    }
    out
}

/// Translates a class by general category or script: `\pL`, `\p{Greek}`, `\P{^Greek}`.
fn unicode(text: &str) -> Result<Piece, String> {
    let refused = |end: usize| fault("invalid character class range", &text[..end]);
    let is_negated = text.starts_with("\\P");
    let Some(first) = text[2..].chars().next() else { return Err(refused(text.len())) };
    let (name, length) = if first == '{' {
        let end = text.find('}').ok_or_else(|| refused(text.len()))?;
        (&text[3..end], end + 1)
    } else {
        let end = 2 + first.len_utf8();
        (&text[2..end], end)
    };
    let (is_negated, name) = match name.strip_prefix('^') {
        Some(name) => (!is_negated, name),
        None => (is_negated, name),
    };
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let kind = ["gc", "sc"].into_iter().find(|kind| Regex::new(&format!("\\p{{{kind}={name}}}")).is_ok());
    let kind = kind.filter(|_| is_word && !name.is_empty()).ok_or_else(|| refused(length))?;
    let letter = if is_negated { 'P' } else { 'p' };
    Ok((format!("\\{letter}{{{kind}={name}}}"), length))
}

/// Parses an escaped character and the length of its escape.
fn character(text: &str) -> Result<(char, usize), String> {
    let mut chars = text.char_indices().skip(1);
    let Some((at, kind)) = chars.next() else {
        return Err(fault("trailing backslash at end of expression", ""));
    };
    let after = at + kind.len_utf8();
    let simple = match kind {
        '0'..='7' => return octal(text, kind),
        'x' => return hexadecimal(text),
        'a' => '\u{7}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => c,
        _ => return Err(fault("invalid escape sequence", &text[..after])),
    };
    Ok((simple, after))
}

/// Parses up to three octal digits. A single digit other than zero would be a backreference, which RE2 does
/// not have.
fn octal(text: &str, first: char) -> Result<(char, usize), String> {
    let digits = text[1..].bytes().take(3).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
    if first != '0' && digits == 1 {
        return Err(fault("invalid escape sequence", &text[..2]));
    }
    let code = u32::from_str_radix(&text[1..=digits], 8).ok().and_then(char::from_u32);
    let c = code.ok_or_else(|| fault("invalid escape sequence", &text[..=digits]))?;
    Ok((c, 1 + digits))
}

/// Parses `\x7F` or `\x{10FFFF}`.
fn hexadecimal(text: &str) -> Result<(char, usize), String> {
    let (digits, length) = match text.strip_prefix("\\x{") {
        Some(rest) => {
            let digits = rest.split('}').next().unwrap_or_default();
            (digits, digits.len() + 4)
        }
        None => (text.get(2..4).unwrap_or_default(), 4),
    };
    let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex && text.len() >= length);
    let refused = || fault("invalid escape sequence", text.get(..length).unwrap_or(text));
    Ok((code.and_then(char::from_u32).ok_or_else(refused)?, length))
}

/// Translates a class in brackets; the text begins with the bracket.
pub(super) fn bracketed(text: &str) -> Result<Piece, String> {
    let is_negated = text.starts_with("[^");
    let mut out = String::from(if is_negated { "[^" } else { "[" });
    let start = out.len();
    let mut at = start;
    loop {
        let rest = &text[at..];
        if rest.is_empty() {
            return Err(fault("missing closing ]", text));
        }
        if rest.starts_with(']') && at > start {
            out.push(']');
            return Ok((out, at + 1));
        }
        let (piece, length) = member(rest, text)?;
        out.push_str(&piece);
        at += length;
    }
}

/// Translates one member of a class in brackets: a named class, an escape, a character or a range.
fn member(rest: &str, class: &str) -> Result<Piece, String> {
    if let Some(piece) = posix(rest)? {
        return Ok(piece);
    }
    let is_class = ["\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\p", "\\P"];
    if is_class.into_iter().any(|escape| rest.starts_with(escape)) {
        return class_escape(rest);
    }
    let (low, length) = single(rest, class)?;
    let Some(high) = rest[length..].strip_prefix('-').filter(|high| !high.starts_with(']')) else {
        return Ok((literal(low), length));
    };
    let (high, high_length) = single(high, class)?;
    let length = length + 1 + high_length;
    if high < low {
        return Err(fault("invalid character class range", &rest[..length]));
    }
    Ok((format!("{}-{}", literal(low), literal(high)), length))
}

fn single(rest: &str, class: &str) -> Result<(char, usize), String> {
    match rest.chars().next() {
        Some('\\') => character(rest),
        Some(c) => Ok((c, c.len_utf8())),
        None => Err(fault("missing closing ]", class)),
    }
}

/// Translates `[:alpha:]` and `[:^alpha:]`.
fn posix(rest: &str) -> Result<Option<Piece>, String> {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
        "upper", "word", "xdigit",
    ];
    let Some(end) = rest.strip_prefix("[:").and_then(|rest| rest.find(":]")) else { return Ok(None) };
    let text = &rest[..end + 4];
    let name = &rest[2..end + 2];
    if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(fault("invalid character class range", text));
    }
    Ok(Some((text.to_owned(), text.len())))
}
