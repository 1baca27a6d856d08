//! Paths of fields in a schema, such as `.spec.x` and `['a.b']`, as selectable fields and CEL rules name them.

use serde_json::Value;

/// Whether `['name']` may be written for a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrayNotation {
    Allowed,
    Refused,
}

/// The steps of a path, and the schema that it leads to.
///
/// # Errors
/// Why the path is none, in Kubernetes' words.
pub(super) fn resolve<'s>(
    path: &str,
    schema: &'s Value,
    notation: ArrayNotation,
) -> Result<(Vec<String>, &'s Value), String> {
    const END: &str = "unexpected end of JSON path";
    let mut tokens = Tokens { rest: path };
    let mut steps = Vec::new();
    let mut at = schema;
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if notation == ArrayNotation::Refused => {
                return Err("array notation is not allowed".to_owned());
            }
            "[" => {
                let token = tokens.next().ok_or(END)?;
                let inner = token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
                let name = unescape(inner)?;
                at = child(at, &name)?;
                let token = tokens.next().ok_or(END)?;
                if token != "]" {
                    return Err(format!("expected ] but got {token}"));
                }
                name
            }
            "." => {
                let name = tokens.next().ok_or(END)?.to_owned();
                at = child(at, &name)?;
                name
            }
            token => return Err(format!("expected [ or . but got: {token}")),
        };
        steps.push(name);
    }
    Ok((steps, at))
}

/// The schema of a member: a property, or of additional properties where there are no properties.
fn child<'s>(schema: &'s Value, name: &str) -> Result<&'s Value, String> {
    const NO_FIELD: &str = "does not refer to a valid field";
    static NOTHING: Value = Value::Null;
    let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
    match (properties, &schema["additionalProperties"]) {
        (Some(properties), _) => properties.get(name).ok_or_else(|| NO_FIELD.to_owned()),
        (None, Value::Null) => Err(NO_FIELD.to_owned()),
        (None, values @ Value::Object(_)) => Ok(values),
        (None, _) => Ok(&NOTHING),
    }
}

/// Delimiters and the texts between them; a quoted text is one token.
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
