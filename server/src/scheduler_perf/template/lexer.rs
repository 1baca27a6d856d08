//! Divides a template into texts and actions, and an action into words. Pure.

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// A text that is copied.
    Text(String),
    /// The words between `{{` and `}}`, with their line.
    Action(usize, Vec<Word>),
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// A name: a keyword, a function, `true` or `false`.
    Name(String),
    /// `.Name`
    Field(String),
    /// `$name`
    Variable(String),
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
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, (usize, String)> {
    let (mut pieces, mut rest, mut line, mut trims) = (Vec::new(), text, 1, false);
    while let Some(begin) = rest.find("{{") {
        let (before, action) = (&rest[..begin], &rest[begin + 2..]);
        line += before.matches('\n').count();
        let (trims_before, action) = match action.strip_prefix('-') {
            Some(action) if action.starts_with(char::is_whitespace) => (true, action),
            _ => (false, action),
        };
        let unclosed = || (line, "\"{{\" has no \"}}\"".to_owned());
        let is_comment = action.trim_start().starts_with("/*");
        let from = if is_comment { action.find("*/").ok_or_else(unclosed)? } else { 0 };
        let end = from + action[from..].find("}}").ok_or_else(unclosed)?;
        let (inner, trims_after) = match action[..end].strip_suffix('-') {
            Some(inner) if inner.ends_with(char::is_whitespace) || is_comment => (inner, true),
            _ => (&action[..end], false),
        };
        push(&mut pieces, if trims { before.trim_start() } else { before }, trims_before);
        if !is_comment {
            pieces.push(Piece::Action(line, words(inner).map_err(|problem| (line, problem))?));
        }
        line += action[..end].matches('\n').count();
        (rest, trims) = (&action[end + 2..], trims_after);
    }
    push(&mut pieces, if trims { rest.trim_start() } else { rest }, false);
    Ok(pieces)
}

fn push(pieces: &mut Vec<Piece>, text: &str, trims: bool) {
    let text = if trims { text.trim_end() } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

fn words(action: &str) -> Result<Vec<Word>, String> {
    let (mut words, mut rest) = (Vec::new(), action.trim_start());
    while let Some(first) = rest.chars().next() {
        let (word, length) = match first {
            '.' => named(rest, 1, Word::Field)?,
            '$' => named(rest, 1, Word::Variable)?,
            '"' => quoted(rest)?,
            '`' => {
                let end = rest[1..].find('`').ok_or("a text in ` has no end")?;
                (Word::Text(rest[1..=end].to_owned()), end + 2)
            }
            '0'..='9' | '-' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
                let length = 1 + rest[1..].find(|c| !is_part(c)).unwrap_or(rest.len() - 1);
                (Word::Number(rest[..length].to_owned()), length)
            }
            'a'..='z' | 'A'..='Z' | '_' => named(rest, 0, Word::Name)?,
            other => {
                let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                let sign = sign.ok_or_else(|| format!("unexpected {other:?}"))?;
                (Word::Sign(sign), sign.len())
            }
        };
        words.push(word);
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

/// A name after `skipped` bytes.
fn named(rest: &str, skipped: usize, make: fn(String) -> Word) -> Result<(Word, usize), String> {
    let name = &rest[skipped..];
    let length = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    if length == 0 {
        return Err(format!("{:?} without a name is not supported", &rest[..skipped]));
    }
    Ok((make(name[..length].to_owned()), skipped + length))
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
                    '"' | '\\' => escaped,
                    other => return Err(format!("\"\\{other}\" in a text is not supported")),
                });
                escapes = false;
            }
        }
    }
    Err("a text in \" has no end".to_owned())
}
