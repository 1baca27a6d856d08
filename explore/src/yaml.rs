//! YAML with the line and column of each value, so that every mistake in a scenario can be shown where it is. One document, without
//! anchors, aliases and tags. Plain scalars mean what they mean to Kubernetes (`kstore_api::yaml`).

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, options};
use serde_json::{Map, Value};
use std::fmt;

/// Deepest nesting of a document: scenarios contain patches of objects, which may be deep.
const DEPTH: usize = 64;

/// Position in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is.
    pub position: Position,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.problem)
    }
}

/// A value with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub position: Position,
    /// The value.
    pub content: Content,
}

/// The value of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A scalar; a plain one may be a number, a boolean or null.
    Scalar {
        /// Text without quotes.
        text: String,
        /// Whether it has no quotes.
        is_plain: bool,
    },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the text, without repeated keys.
    Map(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where it is.
    pub position: Position,
    /// Its text.
    pub text: String,
}

impl Node {
    /// What the value is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.content {
            Content::Scalar { text, is_plain: true } if text.is_empty() || text == "null" || text == "~" => {
                "nothing"
            }
            Content::Scalar { is_plain, text } => match kstore_api::yaml::plain_scalar(text) {
                Ok(Value::Number(_)) if *is_plain => "a number",
                Ok(Value::Bool(_)) if *is_plain => "true or false",
                _ => "a text",
            },
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }

    /// The value as JSON.
    pub fn json(&self) -> Value {
        json(self, DEPTH)
    }
}

fn json(node: &Node, depth: usize) -> Value {
    match &node.content {
        _ if depth == 0 => Value::Null,
        Content::Scalar { text, is_plain: true } => {
            kstore_api::yaml::plain_scalar(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Content::Scalar { text, is_plain: false } => Value::String(text.clone()),
        Content::List(items) => items.iter().map(|item| json(item, depth - 1)).collect(),
        Content::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.text.clone(), json(value, depth - 1)));
            Value::Object(entries.collect::<Map<String, Value>>())
        }
    }
}

/// A collection that is being read.
enum Open {
    List(Position, Vec<Node>),
    /// The entries, and the key whose value comes next.
    Map(Position, Vec<(Key, Node)>, Option<Key>),
}

/// Reads a text, which is one document.
///
/// # Errors
/// The first mistake in the syntax, or the first anchor, alias, tag, repeated key, key that is no text, or second document.
pub fn parse(text: &str) -> Result<Node, Mistake> {
    let limits = options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str_with_options(text, limits) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        let position = begin(&span);
        let node = match event {
            Event::StreamEnd => break,
            Event::DocumentStart(..) if root.is_some() => {
                let problem = "a second document begins here: write one file for each".to_owned();
                return Err(Mistake { position, problem });
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => return Err(unsupported(position, "aliases")),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(_, anchor, _)
            | Event::MappingStart(_, anchor, _)
                if anchor != 0 =>
            {
                return Err(unsupported(position, "anchors"));
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, _, Some(_))
            | Event::MappingStart(_, _, Some(_)) => return Err(unsupported(position, "tags")),
            Event::SequenceStart(..) => {
                open.push(Open::List(position, Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(position, Vec::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(position, items)) => Node { position, content: Content::List(items) },
                Some(Open::Map(position, entries, _)) => Node { position, content: Content::Map(entries) },
                None => continue,
            },
            Event::Scalar(value, style, ..) => {
                let is_plain = style == ScalarStyle::Plain;
                Node { position, content: Content::Scalar { text: value.into_owned(), is_plain } }
            }
            // Stream and document events, and events without content.
            _ => continue,
        };
        match open.last_mut() {
            None => root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, key)) => match key.take() {
                Some(key) => entries.push((key, node)),
                None => *key = Some(new_key(node, entries)?),
            },
        }
    }
    let position = Position { line: 1, column: 1 };
    root.ok_or(Mistake { position, problem: "the text is empty".to_owned() })
}

fn new_key(node: Node, entries: &[(Key, Node)]) -> Result<Key, Mistake> {
    let position = node.position;
    let Content::Scalar { text, .. } = node.content else {
        return Err(Mistake { position, problem: "a key must be a text".to_owned() });
    };
    if entries.iter().any(|(key, _)| key.text == text) {
        return Err(Mistake { position, problem: format!("{text:?} is there twice") });
    }
    Ok(Key { position, text })
}

fn begin(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

fn unsupported(position: Position, what: &str) -> Mistake {
    Mistake { position, problem: format!("{what} of YAML are not supported here: write the value itself") }
}

fn syntax(error: &ScanError) -> Mistake {
    let position = Position { line: error.marker().line(), column: error.marker().col() + 1 };
    let problem = match error.kind() {
        ErrorKind::RecursionLimitExceeded => format!("nested deeper than {DEPTH} levels"),
        kind => kind.to_string(),
    };
    Mistake { position, problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_have_their_positions_and_kubernetes_meaning() {
        let node = parse("a: 1\nb:\n  - yes\n  - {c: 'no', d: ~}\n").unwrap();
        assert_eq!(node.json(), json!({"a": 1, "b": [true, {"c": "no", "d": null}]}));
        let Content::Map(entries) = &node.content else { panic!("{node:?}") };
        assert_eq!(entries[1].0.position.to_string(), "2:1");
        let Content::List(items) = &entries[1].1.content else { panic!("{node:?}") };
        assert_eq!(items[1].position.to_string(), "4:5");
    }

    #[test]
    fn mistakes_have_line_and_column() {
        for (text, expected) in [
            ("", "1:1: the text is empty"),
            ("a: 1\na: 2\n", "2:1: \"a\" is there twice"),
            ("a: &x 1\n", "1:7: anchors of YAML are not supported here: write the value itself"),
            ("a:\n  - !!int 1\n", "2:11: tags of YAML are not supported here: write the value itself"),
            ("[a]: 1\n", "1:1: a key must be a text"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text:?}");
        }
        assert_eq!(parse("a: 1\n---\nb: 2\n").unwrap_err().position.line, 2);
        assert!(parse("a: 1\n]\n").is_err() && parse("{a: 1} b\n").is_err());
        assert!(parse("a: [1\nb: 2\n").unwrap_err().position.line >= 1);
    }
}
