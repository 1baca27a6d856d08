//! YAML texts → JSON values, as Kubernetes' reader (sigs.k8s.io/yaml on go-yaml 2) understands them: YAML 1.1, a text's first document
//! alone, merge keys in the order in which they stand. Aliases are followed, but not into more memory than the caller allows. What is
//! refused is refused with that reader's words, but for the syntax, whose faults are the parser's to tell. Pure.

mod scalar;
#[cfg(test)]
mod tests;

use self::scalar::{Form, Scalar};
use crate::limits::{YAML_DEPTH, YAML_REPEATED_KEYS, YAML_VALUES};
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag, options};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub use self::scalar::needs_no_quotes;

/// A YAML document as a JSON value.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What it says; of a key that is stated twice, the last value.
    pub value: Value,
    /// The keys that are stated again, as go-yaml names them: `line 10: key "replicas" already set in map`. Not all of many.
    pub repeated: Vec<String>,
}

/// Reads the first document of a text; an empty document is null. `max_bytes` bounds the keys and scalars of the value, into which
/// aliases can unfold a short text.
///
/// # Errors
/// The text is not YAML, or not JSON, or unfolds into more than `max_bytes` or [`YAML_VALUES`].
pub fn parse(text: &[u8], max_bytes: usize) -> Result<Document, String> {
    let text = std::str::from_utf8(text).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let tree = Tree::read(text)?;
    let mut reader =
        Reader { tree: &tree, max_bytes, values: 0, bytes: 0, aliases: Vec::new(), repeated: Vec::new() };
    let value = if tree.nodes.is_empty() { Value::Null } else { reader.value(0, 0)? };
    Ok(Document { value, repeated: reader.repeated })
}

/// The value of a plain (unquoted, untagged) scalar.
///
/// # Errors
/// The scalar is a number that JSON does not have.
pub fn plain_scalar(text: &str) -> Result<Value, String> {
    scalar::plain(text).into_json(text)
}

/// A document as it is written. The first node is the root.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
}

struct Node {
    content: Content,
    /// Where it begins, from 1.
    line: usize,
}

enum Content {
    Scalar {
        text: String,
        form: Form,
    },
    List(Vec<usize>),
    /// Keys and values by turns.
    Map(Vec<usize>),
    Alias {
        name: String,
        target: usize,
    },
}

impl Tree {
    fn read(text: &str) -> Result<Self, String> {
        let limits = options! {
            emit_comments: false,
            emit_unresolved_aliases: true,
            flow_nesting_limit: YAML_DEPTH,
            block_nesting_limit: YAML_DEPTH,
        };
        let mut tree = Self::default();
        let (mut open, mut anchors) = (Vec::new(), BTreeMap::new());
        for event in Parser::new_from_str_with_options(text, limits) {
            let (event, span) = event.map_err(|e| refused(&e))?;
            let (content, anchor) = match event {
                Event::DocumentEnd | Event::StreamEnd => break,
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop();
                    continue;
                }
                Event::UnresolvedAlias(name) => {
                    return Err(format!("yaml: unknown anchor '{name}' referenced"));
                }
                Event::Alias(anchor) => (alias(text, &span, anchors.get(&anchor).copied())?, 0),
                Event::Scalar(value, style, anchor, tag) => {
                    let value = without_added_end(&value, style, &span, text);
                    (scalar(value, style, tag.as_deref()), anchor)
                }
                Event::SequenceStart(_, anchor, _) => (Content::List(Vec::new()), anchor),
                Event::MappingStart(_, anchor, _) => (Content::Map(Vec::new()), anchor),
                // The stream, the document, and what says nothing of its content.
                _ => continue,
            };
            let holds = matches!(content, Content::List(_) | Content::Map(_));
            let id = tree.add(open.last().copied(), Node { content, line: span.start.line() })?;
            // 0 is none.
            anchors.insert(anchor, id);
            if holds {
                open.push(id);
            }
        }
        Ok(tree)
    }

    fn add(&mut self, parent: Option<usize>, node: Node) -> Result<usize, String> {
        let id = self.nodes.len();
        if id >= YAML_VALUES {
            return Err(too_much());
        }
        self.nodes.push(node);
        match parent.map(|parent| &mut self.nodes[parent].content) {
            Some(Content::List(children) | Content::Map(children)) => children.push(id),
            Some(Content::Scalar { .. } | Content::Alias { .. }) | None => {}
        }
        Ok(id)
    }
}

fn too_deep() -> String {
    format!("yaml: exceeded max depth of {YAML_DEPTH}")
}

fn too_much() -> String {
    "yaml: document contains excessive aliasing".to_owned()
}

/// Why a text is no YAML, and in which line.
fn refused(error: &ScanError) -> String {
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(),
        kind => format!("yaml: line {}: {kind}", error.marker().line()),
    }
}

fn alias(text: &str, span: &Span, target: Option<usize>) -> Result<Content, String> {
    let name = span.slice(text).unwrap_or_default().trim_start_matches('*').to_owned();
    let target = target.ok_or_else(|| format!("yaml: unknown anchor '{name}' referenced"))?;
    Ok(Content::Alias { name, target })
}

/// A block of lines as it is written: if its last line is the text's last and has no end, the parser gives it one, and Kubernetes'
/// reader does not.
fn without_added_end<'a>(value: &'a str, style: ScalarStyle, span: &Span, text: &str) -> &'a str {
    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    let is_last = span.end.byte_offset() == Some(text.len());
    if !is_block || !is_last {
        // Only one scalar can be, so that the text is looked through once.
        return value;
    }
    let last_line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    // No more than its indentation is no line of a block; a block of blanks has none.
    let is_open = span.indent.is_some_and(|indent| last_line.chars().count() > indent);
    if is_open { value.strip_suffix('\n').unwrap_or(value) } else { value }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Content {
    let form = match tag {
        None if style == ScalarStyle::Plain => Form::Plain,
        None => Form::Text,
        Some(tag) => {
            tag.suffix_in_namespace(YAMLS_TAGS).map_or(Form::Text, |name| Form::Tagged(name.into_owned()))
        }
    };
    Content::Scalar { text: text.to_owned(), form }
}

/// What the names of YAML's own tags begin with, which are written `!!int` and the like.
const YAMLS_TAGS: &str = "tag:yaml.org,2002:";

/// From nodes to values.
struct Reader<'a> {
    tree: &'a Tree,
    max_bytes: usize,
    values: usize,
    bytes: usize,
    /// The aliases that are being followed.
    aliases: Vec<usize>,
    repeated: Vec<String>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, id: usize, depth: usize) -> Result<Value, String> {
        self.count(0)?;
        if depth > YAML_DEPTH {
            return Err(too_deep());
        }
        match &self.tree.nodes[id].content {
            Content::Scalar { text, .. } => {
                self.count(text.len())?;
                self.scalar(id)?.into_json(text)
            }
            Content::List(items) => items
                .iter()
                .map(|item| self.value(*item, depth + 1))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            Content::Map(entries) => {
                let mut map = Map::new();
                self.entries(entries, &mut map, depth)?;
                Ok(Value::Object(map))
            }
            Content::Alias { target, .. } => self.follow(id, |reader| reader.value(*target, depth + 1)),
        }
    }

    /// Puts the entries of a map into one, which may have others already.
    fn entries(
        &mut self,
        entries: &[usize],
        map: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        for entry in entries.chunks_exact(2) {
            let (key, value) = (entry[0], entry[1]);
            if self.is_merge(key) {
                self.merge(value, map, depth + 1)?;
                continue;
            }
            let (name, shown) = self.key(key)?;
            let made = self.value(value, depth + 1)?;
            if map.insert(name, made).is_some() && self.repeated.len() < YAML_REPEATED_KEYS {
                let line = self.tree.nodes[value].line;
                self.repeated.push(format!("line {line}: key {shown} already set in map"));
            }
        }
        Ok(())
    }

    fn is_merge(&self, key: usize) -> bool {
        match &self.tree.nodes[key].content {
            Content::Scalar { text, form: Form::Plain } => text == "<<",
            Content::Scalar { text, form: Form::Tagged(tag) } => text == "<<" && tag == "merge",
            Content::Scalar { form: Form::Text, .. } => false,
            Content::List(_) | Content::Map(_) | Content::Alias { .. } => false,
        }
    }

    /// Puts what a merge key names into the map: over what stands before it, below what follows. Of several maps the first counts.
    fn merge(&mut self, id: usize, map: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
        self.count(0)?;
        if depth > YAML_DEPTH {
            return Err(too_deep());
        }
        match &self.tree.nodes[id].content {
            Content::List(maps) => maps.iter().rev().try_for_each(|one| self.merge_one(*one, map, depth)),
            _ => self.merge_one(id, map, depth),
        }
    }

    fn merge_one(&mut self, id: usize, map: &mut Map<String, Value>, depth: usize) -> Result<(), String> {
        let tree = self.tree;
        let no_map = || Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
        match &tree.nodes[id].content {
            Content::Map(entries) => self.entries(entries, map, depth),
            Content::Alias { target, .. } => match &tree.nodes[*target].content {
                Content::Map(entries) => self.follow(id, |reader| reader.entries(entries, map, depth + 1)),
                Content::Scalar { .. } | Content::List(_) | Content::Alias { .. } => no_map(),
            },
            Content::Scalar { .. } | Content::List(_) => no_map(),
        }
    }

    /// A key as a text, and as it is shown.
    fn key(&mut self, id: usize) -> Result<(String, String), String> {
        match &self.tree.nodes[id].content {
            Content::Scalar { text, .. } => {
                self.count(text.len())?;
                self.scalar(id)?.into_key(text)
            }
            // An alias names no alias.
            Content::Alias { target, .. } => self.key(*target),
            Content::List(_) | Content::Map(_) => Err("yaml: invalid map key: a map or a list".to_owned()),
        }
    }

    fn scalar(&self, id: usize) -> Result<Scalar, String> {
        match &self.tree.nodes[id].content {
            Content::Scalar { text, form } => scalar::read(text, form),
            Content::List(_) | Content::Map(_) | Content::Alias { .. } => {
                unreachable!("only asked of scalars")
            }
        }
    }

    fn follow<T>(
        &mut self,
        alias: usize,
        then: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if let Content::Alias { name, .. } = &self.tree.nodes[alias].content
            && self.aliases.contains(&alias)
        {
            return Err(format!("yaml: anchor '{name}' value contains itself"));
        }
        self.aliases.push(alias);
        let done = then(self);
        self.aliases.pop();
        done
    }

    fn count(&mut self, bytes: usize) -> Result<(), String> {
        self.values += 1;
        self.bytes += bytes;
        if self.values > YAML_VALUES || self.bytes > self.max_bytes {
            return Err(too_much());
        }
        Ok(())
    }
}
