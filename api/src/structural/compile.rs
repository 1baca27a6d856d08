//! Compiles the JSON of a schema into a [`Tree`]. Children are compiled before parents, and equal nodes are
//! stored once.

use super::DEPTH_MAX;
use super::check::{Bound, Checks, NamedFormat};
use super::node::{Additional, Flags, ListType, MapType, Name, Node, NodeId, SubtreeFlags, ValueType};
use super::pattern::Pattern;
use super::rule::Rule;
use super::tree::Tree;
use crate::format::Format;
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Error of a schema that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The schema is not a JSON object.
    #[error("must be a schema object")]
    NotAnObject,
    /// The schema nests deeper than [`DEPTH_MAX`].
    #[error("exceeded max depth")]
    TooDeep,
}

impl Tree {
    /// Compiles an `openAPIV3Schema`. Keywords with values of the wrong type count as absent, so that schemas
    /// stored under older rules still compile.
    ///
    /// # Errors
    /// The schema is not an object or nests too deeply.
    pub fn compile(schema: &Value) -> Result<Self, CompileError> {
        let schema = schema.as_object().ok_or(CompileError::NotAnObject)?;
        let mut compiler = Compiler::default();
        let root = compiler.node(schema, 0)?;
        // The root gets its own node even if an equal node exists, so that its id is unique.
        let root = compiler.add(root);
        Ok(Self { nodes: compiler.nodes.into(), root, rules: OnceLock::new() })
    }
}

#[derive(Default)]
struct Compiler {
    nodes: Vec<Node>,
    names: BTreeMap<String, Name>,
    patterns: BTreeMap<String, Arc<Pattern>>,
    /// Ids of all nodes except the root, by their contents with children as ids.
    known: BTreeMap<String, NodeId>,
}

impl Compiler {
    fn add(&mut self, node: Node) -> NodeId {
        let id =
            NodeId(u32::try_from(self.nodes.len()).expect("a schema of a few megabytes has fewer nodes"));
        self.nodes.push(node);
        id
    }

    /// Compiles a subtree and returns its id; an equal subtree keeps its id.
    fn intern(&mut self, schema: &Value, depth: usize) -> Result<NodeId, CompileError> {
        let node = schema.as_object().map(|schema| self.node(schema, depth)).transpose()?.unwrap_or_default();
        let key = format!("{node:?}");
        if let Some(id) = self.known.get(&key) {
            return Ok(*id);
        }
        let id = self.add(node);
        self.known.insert(key, id);
        Ok(id)
    }

    fn node(&mut self, schema: &Map<String, Value>, depth: usize) -> Result<Node, CompileError> {
        if depth >= DEPTH_MAX {
            return Err(CompileError::TooDeep);
        }
        let mut node = Node {
            value_type: text(schema, "type").and_then(ValueType::parse),
            flags: flags(schema),
            properties: self.properties(schema, depth)?,
            items: schema
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| self.intern(items, depth + 1))
                .transpose()?,
            additional: self.additional(schema, depth)?,
            list_type: self.list_type(schema),
            map_type: map_type(schema),
            default: schema.get("default").filter(|value| !value.is_null()).cloned().map(Box::new),
            checks: self.checks(schema, depth)?,
            rules: list(schema, "x-kubernetes-validations").iter().map(Rule::read).collect(),
            below: SubtreeFlags::default(),
        };
        node.below = self.below(&node);
        Ok(node)
    }

    fn properties(
        &mut self,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> Result<Box<[(Name, NodeId)]>, CompileError> {
        let members = schema.get("properties").and_then(Value::as_object);
        let mut properties = members
            .into_iter()
            .flatten()
            .map(|(name, schema)| Ok((self.name(name), self.intern(schema, depth + 1)?)))
            .collect::<Result<Box<[_]>, CompileError>>()?;
        properties.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(properties)
    }

    fn additional(&mut self, schema: &Map<String, Value>, depth: usize) -> Result<Additional, CompileError> {
        Ok(match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Additional::Any,
            Some(values @ Value::Object(_)) => Additional::Schema(self.intern(values, depth + 1)?),
            _ => Additional::Denied,
        })
    }

    fn list_type(&mut self, schema: &Map<String, Value>) -> ListType {
        match text(schema, "x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(self.names(list(schema, "x-kubernetes-list-map-keys"))),
            _ => ListType::Atomic,
        }
    }

    fn checks(
        &mut self,
        schema: &Map<String, Value>,
        depth: usize,
    ) -> Result<Option<Box<Checks>>, CompileError> {
        let count = |name: &str| schema.get(name).and_then(integer);
        let checks = Checks {
            required: self.names(list(schema, "required")),
            values: list(schema, "enum").into(),
            minimum: bound(schema, "minimum", "exclusiveMinimum"),
            maximum: bound(schema, "maximum", "exclusiveMaximum"),
            multiple_of: number(schema, "multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: text(schema, "pattern").filter(|text| !text.is_empty()).map(|text| self.pattern(text)),
            format: text(schema, "format").and_then(|name| self.format(name)),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: self.nested(schema, "allOf", depth)?,
            any_of: self.nested(schema, "anyOf", depth)?,
            one_of: self.nested(schema, "oneOf", depth)?,
            not: schema
                .get("not")
                .filter(|not| not.is_object())
                .map(|not| self.intern(not, depth + 1))
                .transpose()?,
        };
        Ok((checks != Checks::default()).then(|| Box::new(checks)))
    }

    fn nested(
        &mut self,
        schema: &Map<String, Value>,
        keyword: &str,
        depth: usize,
    ) -> Result<Box<[NodeId]>, CompileError> {
        list(schema, keyword).iter().map(|schema| self.intern(schema, depth + 1)).collect()
    }

    fn name(&mut self, name: &str) -> Name {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let new = Name::from(name);
        self.names.insert(name.to_owned(), new.clone());
        new
    }

    fn names(&mut self, names: &[Value]) -> Box<[Name]> {
        names.iter().filter_map(Value::as_str).map(|name| self.name(name)).collect()
    }

    fn format(&mut self, name: &str) -> Option<NamedFormat> {
        Format::parse(name).map(|format| NamedFormat { format, name: self.name(name) })
    }

    fn pattern(&mut self, text: &str) -> Arc<Pattern> {
        let new = || Arc::new(Pattern::new(text));
        self.patterns.entry(text.to_owned()).or_insert_with(new).clone()
    }

    /// Flags of the subtree of this node.
    fn below(&self, node: &Node) -> SubtreeFlags {
        let values = match node.additional {
            Additional::Schema(id) => Some(id),
            Additional::Denied | Additional::Any => None,
        };
        let own = SubtreeFlags {
            defaults: node.default.is_some(),
            rules: !node.rules.is_empty(),
            keyed_lists: node.list_type != ListType::Atomic,
            embedded: node.flags.embedded,
        };
        let children = node.properties.iter().map(|(_, id)| *id).chain(node.items).chain(values);
        children.map(|id| self.nodes[id.0 as usize].below).fold(own, SubtreeFlags::or)
    }
}

fn flags(schema: &Map<String, Value>) -> Flags {
    let is_set = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    Flags {
        nullable: is_set("nullable"),
        preserve_unknown: is_set("x-kubernetes-preserve-unknown-fields"),
        embedded: is_set("x-kubernetes-embedded-resource"),
        int_or_string: is_set("x-kubernetes-int-or-string"),
    }
}

fn map_type(schema: &Map<String, Value>) -> MapType {
    match text(schema, "x-kubernetes-map-type") {
        Some("atomic") => MapType::Atomic,
        _ => MapType::Granular,
    }
}

fn bound(schema: &Map<String, Value>, keyword: &str, exclusive: &str) -> Option<Bound> {
    let exclusive = schema.get(exclusive) == Some(&Value::Bool(true));
    number(schema, keyword).map(|value| Bound { value, exclusive })
}

fn number(schema: &Map<String, Value>, keyword: &str) -> Option<Number> {
    schema.get(keyword).and_then(Value::as_number).cloned()
}

fn integer(value: &Value) -> Option<i64> {
    value.as_i64()
}

fn text<'s>(schema: &'s Map<String, Value>, keyword: &str) -> Option<&'s str> {
    schema.get(keyword).and_then(Value::as_str)
}

fn list<'s>(schema: &'s Map<String, Value>, keyword: &str) -> &'s [Value] {
    schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
