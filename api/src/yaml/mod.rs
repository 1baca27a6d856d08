//! YAML encoding, and decoding into JSON values by the rules of Kubernetes' parser (sigs.k8s.io/yaml on go-yaml 2): YAML
//! 1.1, only the first document, merge keys in the order in which they occur. Aliases are expanded up to a
//! memory limit of the caller. Errors have go-yaml's messages, except syntax errors, which have those of this
//! crate's parser.

mod encode;
mod scalar;
#[cfg(test)]
mod tests;

pub use self::encode::encode;
pub use self::scalar::needs_no_quotes;
use self::scalar::{Scalar, ScalarForm};
use crate::limits::{YAML_ALIASED_VALUES, YAML_DEPTH, YAML_REPEATED_KEYS, YAML_VALUES};
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag, options};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// YAML document as a JSON value.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The value; the last value of a repeated key counts.
    pub value: Value,
    /// Repeated keys, as go-yaml names them: `line 10: key "replicas" already set in map`. At most
    /// [`YAML_REPEATED_KEYS`].
    pub repeated: Vec<String>,
}

/// Decodes the first document of a text; an empty document is null. `max_bytes` bounds the keys and scalars
/// of the value, since aliases can expand a short text.
///
/// # Errors
/// The text is not YAML, has no JSON equivalent, or expands to more than `max_bytes` or
/// [`YAML_VALUES`], or to [`YAML_ALIASED_VALUES`] more values than it has bytes.
pub fn parse(text: &[u8], max_bytes: usize) -> Result<Document, String> {
    let text = std::str::from_utf8(text).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let tree = Tree::read(text)?;
    let mut reader = Reader {
        tree: &tree,
        max_values: max_values(text),
        max_bytes,
        values: 0,
        bytes: 0,
        aliases: Vec::new(),
        repeated: Vec::new(),
    };
    let value = if tree.nodes.is_empty() { Value::Null } else { reader.value(0, 0)? };
    Ok(Document { value, repeated: reader.repeated })
}

/// Value of a plain (unquoted, untagged) scalar.
///
/// # Errors
/// The scalar is a number that JSON does not have.
pub fn plain_scalar(text: &str) -> Result<Value, String> {
    scalar::plain(text).into_json(text)
}

/// Parsed document before aliases are expanded. The first node is the root.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
}

struct Node {
    content: Content,
    /// Line of its start, from 1.
    line: usize,
}

enum Content {
    Scalar {
        text: String,
        form: ScalarForm,
    },
    List(Vec<usize>),
    /// Alternating keys and values.
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
                // Stream and document events, and events without content.
                _ => continue,
            };
            let holds = matches!(content, Content::List(_) | Content::Map(_));
            let id = tree.add(open.last().copied(), Node { content, line: span.start.line() })?;
            // Id 0 means no anchor.
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

/// The most values of a text. No text has more of them than bytes, except by aliases: those of a short text must not cost
/// more than those of a long one.
fn max_values(text: &str) -> usize {
    YAML_VALUES.min(YAML_ALIASED_VALUES + text.len())
}

fn too_deep() -> String {
    format!("yaml: exceeded max depth of {YAML_DEPTH}")
}

fn too_much() -> String {
    "yaml: document contains excessive aliasing".to_owned()
}

/// Error message with the line of a syntax error.
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

/// Removes the final line break that the parser adds to a block scalar at the end of a text; Kubernetes'
/// parser adds none.
fn without_added_end<'a>(value: &'a str, style: ScalarStyle, span: &Span, text: &str) -> &'a str {
    let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    let is_last = span.end.byte_offset() == Some(text.len());
    if !is_block || !is_last {
        // Only the last scalar of a text can end there, so the text is searched once.
        return value;
    }
    let last_line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    // A last line with no more than the indentation is not part of the block; a block of blanks has no
    // indentation.
    let is_open = span.indent.is_some_and(|indent| last_line.chars().count() > indent);
    if is_open { value.strip_suffix('\n').unwrap_or(value) } else { value }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Content {
    let form = match tag {
        None if style == ScalarStyle::Plain => ScalarForm::Plain,
        None => ScalarForm::Text,
        Some(tag) => tag
            .suffix_in_namespace(YAMLS_TAGS)
            .map_or(ScalarForm::Text, |name| ScalarForm::Tagged(name.into_owned())),
    };
    Content::Scalar { text: text.to_owned(), form }
}

/// Prefix of YAML's own tags, which documents write as `!!int` and the like.
const YAMLS_TAGS: &str = "tag:yaml.org,2002:";

/// Conversion of nodes to values.
struct Reader<'a> {
    tree: &'a Tree,
    max_values: usize,
    max_bytes: usize,
    values: usize,
    bytes: usize,
    /// Aliases being expanded, for the detection of cycles.
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

    /// Adds the entries of a map to another map.
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
            Content::Scalar { text, form: ScalarForm::Plain } => text == "<<",
            Content::Scalar { text, form: ScalarForm::Tagged(tag) } => text == "<<" && tag == "merge",
            Content::Scalar { form: ScalarForm::Text, .. } => false,
            Content::List(_) | Content::Map(_) | Content::Alias { .. } => false,
        }
    }

    /// Merges the maps of a merge key. They override earlier entries, and later entries override them. Of
    /// several maps the first takes precedence.
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

    /// Text of a key, and its form in messages.
    fn key(&mut self, id: usize) -> Result<(String, String), String> {
        match &self.tree.nodes[id].content {
            Content::Scalar { text, .. } => {
                self.count(text.len())?;
                self.scalar(id)?.into_key(text)
            }
            // The target of an alias is never an alias.
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
        if self.values > self.max_values || self.bytes > self.max_bytes {
            return Err(too_much());
        }
        Ok(())
    }
}
