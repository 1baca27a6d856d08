//! Field paths in a schema, such as `.spec.x` and `['a.b']`, of selectable fields and CEL rules: splits them
//! into names. Callers look up the schema of each.

/// Whether `['name']` is allowed for a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrayNotation {
    Allowed,
    Refused,
}

/// Calls `step` for each name in a path, in order.
///
/// # Errors
/// Kubernetes' message for a malformed path, or the first error of `step`.
pub(crate) fn walk(
    path: &str,
    notation: ArrayNotation,
    mut step: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    const END: &str = "unexpected end of JSON path";
    let mut tokens = Tokens { rest: path };
    while let Some(token) = tokens.next() {
        match token {
            "[" if notation == ArrayNotation::Refused => {
                return Err("array notation is not allowed".to_owned());
            }
            "[" => {
                let token = tokens.next().ok_or(END)?;
                let inner = token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
                step(&unescape(inner)?)?;
                let token = tokens.next().ok_or(END)?;
                if token != "]" {
                    return Err(format!("expected ] but got {token}"));
                }
            }
            "." => step(tokens.next().ok_or(END)?)?,
            token => return Err(format!("expected [ or . but got: {token}")),
        }
    }
    Ok(())
}

/// Tokenizer: delimiters and the texts between them; a quoted text is one token.
struct Tokens<'p> {
    rest: &'p str,
}

impl<'p> Tokens<'p> {
    fn next(&mut self) -> Option<&'p str> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = self.rest.as_bytes();
        let end = if bytes[0] == b'\'' {
            let closing = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[*at - 1] != b'\\');
            closing.map_or(bytes.len(), |at| at + 1)
        } else {
            match self.rest.find(['.', '[', ']']) {
                Some(0) => 1,
                Some(at) => at,
                None => bytes.len(),
            }
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        out.push(match letters.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\'') => '\'',
            Some('\\') => '\\',
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(out)
}
