//! The lexer: splits a text into tokens and reports the characters that fit no token.
//!
//! The longest token wins. If no token fits, the error quotes the text from the start of the attempt to the character that does not
//! fit, and the lexer continues after that character.

use crate::limits::SYNTAX_ERRORS;
use crate::source::{ErrorSink, Source};

/// Kinds of tokens, numbered in the order in which error messages list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum TokenKind {
    Eof,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclam,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

impl TokenKind {
    /// The set that contains only this kind.
    pub(super) const fn set(self) -> u64 {
        1 << self as u8
    }
}

/// The names of token kinds in error messages, by number.
const NAMES: [&str; 36] = [
    "<EOF>",
    "'=='",
    "'!='",
    "'in'",
    "'<'",
    "'<='",
    "'>='",
    "'>'",
    "'&&'",
    "'||'",
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'+'",
    "'*'",
    "'/'",
    "'%'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
];

/// A set of token kinds as error messages show it: one name, or names in braces.
pub(super) fn set_text(set: u64) -> String {
    let names: Vec<_> = (0..NAMES.len()).filter(|bit| set >> bit & 1 == 1).map(|bit| NAMES[bit]).collect();
    if let [one] = names[..] { one.to_owned() } else { format!("{{{}}}", names.join(", ")) }
}

/// A token: its kind and its range of code points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// The tokens of a text, with the end of the text as last token; none after too many errors.
pub(super) fn tokens(source: &Source, errors: &mut ErrorSink) -> Option<Vec<Token>> {
    let chars = source.chars();
    let mut found = Vec::new();
    let (mut at, mut failures) = (0, 0);
    while at < chars.len() {
        match scan(chars, at) {
            Scan::Hidden(end) => at = end,
            Scan::Token(kind, end) => {
                found.push(Token { kind, start: at as u32, end: end as u32 });
                at = end;
            }
            Scan::Failed(_) if failures == SYNTAX_ERRORS => {
                errors.report(at as u32, format!("Syntax error: More than {SYNTAX_ERRORS} syntax errors"));
                return None;
            }
            Scan::Failed(end) => {
                failures += 1;
                let text = source.slice(at as u32, end as u32 + 1);
                errors.report(at as u32, format!("Syntax error: token recognition error at: '{text}'"));
                at = end + 1;
            }
        }
    }
    let end = chars.len() as u32;
    found.push(Token { kind: TokenKind::Eof, start: end, end });
    Some(found)
}

/// The result of reading at a position, with the position after it.
enum Scan {
    /// White space or a comment.
    Hidden(usize),
    Token(TokenKind, usize),
    /// No token fits; the position of the first character that does not fit.
    Failed(usize),
}

fn scan(chars: &[char], at: usize) -> Scan {
    let c = chars[at];
    match c {
        '\t' | ' ' | '\r' | '\n' | '\u{c}' => Scan::Hidden(skip(chars, at, |c| "\t \r\n\u{c}".contains(c))),
        '/' if chars.get(at + 1) == Some(&'/') => Scan::Hidden(skip(chars, at, |c| c != '\n')),
        '0'..='9' => number(chars, at),
        '.' if chars.get(at + 1).is_some_and(char::is_ascii_digit) => number(chars, at),
        '"' | '\'' => string(chars, at, at, TokenKind::String),
        '`' => escaped_ident(chars, at),
        '_' | 'a'..='z' | 'A'..='Z' => word(chars, at),
        _ => symbol(chars, at),
    }
}

fn skip(chars: &[char], from: usize, fits: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|c| !fits(*c)).map_or(chars.len(), |length| from + length)
}

fn symbol(chars: &[char], at: usize) -> Scan {
    let next = chars.get(at + 1).copied();
    let double = |second: char, kind: TokenKind, single: Option<TokenKind>| match single {
        _ if next == Some(second) => Scan::Token(kind, at + 2),
        Some(single) => Scan::Token(single, at + 1),
        None => Scan::Failed(at + 1),
    };
    let single = |kind: TokenKind| Scan::Token(kind, at + 1);
    match chars[at] {
        '=' => double('=', TokenKind::Equals, None),
        '!' => double('=', TokenKind::NotEquals, Some(TokenKind::Exclam)),
        '<' => double('=', TokenKind::LessEquals, Some(TokenKind::Less)),
        '>' => double('=', TokenKind::GreaterEquals, Some(TokenKind::Greater)),
        '&' => double('&', TokenKind::And, None),
        '|' => double('|', TokenKind::Or, None),
        '[' => single(TokenKind::LeftBracket),
        ']' => single(TokenKind::RightBracket),
        '{' => single(TokenKind::LeftBrace),
        '}' => single(TokenKind::RightBrace),
        '(' => single(TokenKind::LeftParen),
        ')' => single(TokenKind::RightParen),
        '.' => single(TokenKind::Dot),
        ',' => single(TokenKind::Comma),
        '-' => single(TokenKind::Minus),
        '?' => single(TokenKind::Question),
        ':' => single(TokenKind::Colon),
        '+' => single(TokenKind::Plus),
        '*' => single(TokenKind::Star),
        '/' => single(TokenKind::Slash),
        '%' => single(TokenKind::Percent),
        _ => Scan::Failed(at),
    }
}

fn number(chars: &[char], at: usize) -> Scan {
    let digits = |from: usize| skip(chars, from, |c| c.is_ascii_digit());
    let unsigned = |end: usize| matches!(chars.get(end), Some('u' | 'U'));
    let int = |end: usize| {
        if unsigned(end) { Scan::Token(TokenKind::Uint, end + 1) } else { Scan::Token(TokenKind::Int, end) }
    };
    if chars[at] == '0' && chars.get(at + 1) == Some(&'x') {
        let end = skip(chars, at + 2, |c| c.is_ascii_hexdigit());
        if end > at + 2 {
            return int(end);
        }
    }
    let whole = digits(at);
    let fraction = match chars.get(whole) {
        Some('.') if digits(whole + 1) > whole + 1 => Some(digits(whole + 1)),
        _ => None,
    };
    let end = fraction.unwrap_or(whole);
    match exponent(chars, end).or(fraction) {
        Some(end) => Scan::Token(TokenKind::Float, end),
        None => int(whole),
    }
}

/// The end of an exponent that begins at `at`.
fn exponent(chars: &[char], at: usize) -> Option<usize> {
    if !matches!(chars.get(at), Some('e' | 'E')) {
        return None;
    }
    let digits = if matches!(chars.get(at + 1), Some('+' | '-')) { at + 2 } else { at + 1 };
    let end = if digits <= chars.len() { skip(chars, digits, |c| c.is_ascii_digit()) } else { digits };
    (end > digits).then_some(end)
}

fn word(chars: &[char], at: usize) -> Scan {
    let raw = |c: char| matches!(c, 'r' | 'R');
    let quote = |i: usize| matches!(chars.get(i), Some('"' | '\''));
    let literal = match chars[at] {
        c if raw(c) && quote(at + 1) => Some(string(chars, at, at + 1, TokenKind::String)),
        'b' | 'B' if quote(at + 1) => Some(string(chars, at, at + 1, TokenKind::Bytes)),
        'b' | 'B' if chars.get(at + 1).is_some_and(|c| raw(*c)) && quote(at + 2) => {
            Some(string(chars, at + 1, at + 2, TokenKind::Bytes))
        }
        _ => None,
    };
    if let Some(found @ Scan::Token(..)) = literal {
        return found;
    }
    let end = skip(chars, at, |c| c.is_ascii_alphanumeric() || c == '_');
    let text: String = chars[at..end].iter().collect();
    let kind = match text.as_str() {
        "in" => TokenKind::In,
        "true" => TokenKind::True,
        "false" => TokenKind::False,
        "null" => TokenKind::Null,
        _ => TokenKind::Ident,
    };
    Scan::Token(kind, end)
}

/// A string whose quote is at `open`; it is raw if the character at `prefix` is an `r`.
fn string(chars: &[char], prefix: usize, open: usize, kind: TokenKind) -> Scan {
    let raw = prefix < open && matches!(chars[prefix], 'r' | 'R');
    let quote = chars[open];
    let triple = chars.get(open + 1) == Some(&quote) && chars.get(open + 2) == Some(&quote);
    let found = quoted(chars, open + if triple { 3 } else { 1 }, quote, triple, raw);
    match found {
        Ok(end) => Scan::Token(kind, end),
        // Three quotes without an end are an empty string and a quote.
        Err(_) if triple => Scan::Token(kind, open + 2),
        Err(at) => Scan::Failed(at),
    }
}

/// The end of the string, or the position of the character that does not fit.
fn quoted(chars: &[char], from: usize, quote: char, triple: bool, raw: bool) -> Result<usize, usize> {
    let mut at = from;
    while let Some(c) = chars.get(at) {
        let closes = !triple || (chars.get(at + 1) == Some(&quote) && chars.get(at + 2) == Some(&quote));
        match c {
            c if *c == quote && closes => return Ok(at + if triple { 3 } else { 1 }),
            '\n' | '\r' if !triple => return Err(at),
            '\\' if !raw => at = escape(chars, at)?,
            _ => at += 1,
        }
    }
    Err(at)
}

/// The end of the escape sequence that begins at `at`.
fn escape(chars: &[char], at: usize) -> Result<usize, usize> {
    let digits = |count: usize, fits: fn(&char) -> bool| {
        let bad = (at + 2..at + 2 + count).find(|i| !chars.get(*i).is_some_and(fits));
        bad.map_or(Ok(at + 2 + count), |i| Err(i.min(chars.len())))
    };
    match chars.get(at + 1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(at + 2),
        Some('x' | 'X') => digits(2, char::is_ascii_hexdigit),
        Some('u') => digits(4, char::is_ascii_hexdigit),
        Some('U') => digits(8, char::is_ascii_hexdigit),
        Some('0'..='3') => digits(2, |c| ('0'..='7').contains(c)),
        _ => Err(at + 1),
    }
}

fn escaped_ident(chars: &[char], at: usize) -> Scan {
    let end = skip(chars, at + 1, |c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c));
    if end > at + 1 && chars.get(end) == Some(&'`') {
        Scan::Token(TokenKind::EscapedIdent, end + 1)
    } else {
        Scan::Failed(end)
    }
}
