//! Divides a template into texts and actions, and an action into words. Pure.

use crate::TemplateError;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// A text that is copied.
    Text(String),
    /// The words between `{{` and `}}`, with their line.
    Action(usize, Vec<Word>),
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// A name: a keyword, a function, `true`, `false` or `nil`.
    Name(String),
    /// `.`, or `.a.b` with its names.
    Field(Vec<String>),
    /// `$name`, or `$name.a.b` with its names.
    Variable(String, Vec<String>),
    /// `.a.b` directly after a parenthesis.
    Chain(Vec<String>),
    /// A number.
    Number(String),
    /// A quoted text.
    Text(String),
    /// One of `|`, `(`, `)`, `,`, `=` and `:=`.
    Sign(&'static str),
}

/// The signs of actions; a longer one comes before its beginning.
const SIGNS: [&str; 6] = [":=", "=", "|", "(", ")", ","];

/// Divides a template.
///
/// # Errors
/// The line and the reason.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let (mut pieces, mut rest, mut line, mut trims) = (Vec::new(), text, 1, false);
    while let Some(begin) = rest.find("{{") {
        let (before, action) = (&rest[..begin], &rest[begin + 2..]);
        line += before.matches('\n').count();
        let (trims_before, action) = match action.strip_prefix('-') {
            Some(action) if action.starts_with(char::is_whitespace) => (true, action),
            _ => (false, action),
        };
        let is_comment = action.trim_start().starts_with("/*");
        let end =
            end_of(action, is_comment).ok_or_else(|| TemplateError::new(line, "\"{{\" has no \"}}\""))?;
        let (inner, trims_after) = match action[..end].strip_suffix('-') {
            Some(inner) if inner.ends_with(char::is_whitespace) || is_comment => (inner, true),
            _ => (&action[..end], false),
        };
        push(&mut pieces, if trims { before.trim_start() } else { before }, trims_before);
        if !is_comment {
            let words = words(inner).map_err(|problem| TemplateError::new(line, problem))?;
            pieces.push(Piece::Action(line, words));
        }
        line += action[..end].matches('\n').count();
        (rest, trims) = (&action[end + 2..], trims_after);
    }
    push(&mut pieces, if trims { rest.trim_start() } else { rest }, false);
    Ok(pieces)
}

/// Where the `}}` of an action is. One in a quoted text does not end it.
fn end_of(action: &str, is_comment: bool) -> Option<usize> {
    if is_comment {
        let from = action.find("*/")?;
        return action[from..].find("}}").map(|at| from + at);
    }
    let (mut quote, mut escapes) = (None, false);
    for (at, c) in action.char_indices() {
        match quote {
            Some(_) if escapes => escapes = false,
            Some('"') if c == '\\' => escapes = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '`' => quote = Some(c),
            None if action[at..].starts_with("}}") => return Some(at),
            None => {}
        }
    }
    None
}

fn push(pieces: &mut Vec<Piece>, text: &str, trims: bool) {
    let text = if trims { text.trim_end() } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

fn words(action: &str) -> Result<Vec<Word>, String> {
    let (mut words, mut rest) = (Vec::new(), action.trim_start());
    let mut is_after_parenthesis = false;
    while let Some(first) = rest.chars().next() {
        let (word, length) = match first {
            '.' => {
                let (names, length) = path(rest)?;
                let is_chain = is_after_parenthesis && !names.is_empty();
                (if is_chain { Word::Chain(names) } else { Word::Field(names) }, length)
            }
            '$' => {
                let own = name(&rest[1..]);
                let (names, length) = match rest[1 + own.len()..].starts_with('.') {
                    true => path(&rest[1 + own.len()..])?,
                    false => (Vec::new(), 0),
                };
                (Word::Variable(own.to_owned(), names), 1 + own.len() + length)
            }
            '"' => quoted(rest)?,
            '`' => {
                let end = rest[1..].find('`').ok_or("a text in ` has no end")?;
                (Word::Text(rest[1..=end].to_owned()), end + 2)
            }
            '0'..='9' | '-' | '+' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
                let length = 1 + rest[1..].find(|c| !is_part(c)).unwrap_or(rest.len() - 1);
                (Word::Number(rest[..length].to_owned()), length)
            }
            letter if letter.is_alphabetic() || letter == '_' => {
                let name = name(rest);
                (Word::Name(name.to_owned()), name.len())
            }
            other => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| format!("unexpected {other:?}"))?;
                (Word::Sign(sign), sign.len())
            }
        };
        is_after_parenthesis = word == Word::Sign(")") && !rest[length..].starts_with(char::is_whitespace);
        words.push(word);
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

/// The name at the beginning of a text; empty if there is none.
fn name(text: &str) -> &str {
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..length]
}

/// The names of `.a.b`, and its length. None of `.` alone.
fn path(text: &str) -> Result<(Vec<String>, usize), String> {
    let (mut names, mut length) = (Vec::new(), 0);
    while text[length..].starts_with('.') {
        let next = name(&text[length + 1..]);
        if next.is_empty() {
            return match names.is_empty() && !text[length + 1..].starts_with('.') {
                true => Ok((names, 1)),
                false => Err("\".\" without a name behind it".to_owned()),
            };
        }
        names.push(next.to_owned());
        length += 1 + next.len();
    }
    Ok((names, length))
}

fn quoted(rest: &str) -> Result<(Word, usize), String> {
    let (mut text, mut escapes) = (String::new(), false);
    for (at, c) in rest.char_indices().skip(1) {
        match (escapes, c) {
            (false, '"') => return Ok((Word::Text(text), at + 1)),
            (false, '\\') => escapes = true,
            (false, other) => text.push(other),
            (true, escaped) => {
                text.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    '"' | '\\' => escaped,
                    other => return Err(format!("\"\\{other}\" in a text is not supported")),
                });
                escapes = false;
            }
        }
    }
    Err("a text in \" has no end".to_owned())
}
