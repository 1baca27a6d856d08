//! [`Reader`]: reads a JSON Schema as `schemars` makes it (draft 2020-12) into nodes. It inlines references
//! and replaces keywords that Kubernetes does not know.

use super::error::{SchemaError, SchemaProblem};
use super::merge::alternatives;
use super::node::{Node, ValueKind};
use super::numbers;
use kstore_api::format::Format;
use serde_json::{Map, Value};

type Read<T> = Result<T, SchemaError>;
type Keywords = Map<String, Value>;

/// Keywords with the same meaning in both.
const CHECKS: [&str; 9] = [
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
];

/// Keywords that a function of this file reads.
const READ: [&str; 26] = [
    "type",
    "const",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "properties",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "uniqueItems",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "description",
    "default",
    "nullable",
    "$defs",
    "definitions",
    "x-kubernetes-int-or-string",
];

/// Annotations, and checks that Kubernetes cannot make. A schema without them stays correct and only says
/// less.
const DROPPED: [&str; 14] = [
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "title",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "propertyNames",
    "unevaluatedProperties",
];

/// Reads one document.
pub(super) struct Reader<'s> {
    pub(super) root: &'s Value,
}

impl Reader<'_> {
    /// The node of a schema in the document. `within` is the chain of references to it.
    pub(super) fn read(&self, schema: &Value, within: &[&str]) -> Read<Node> {
        match schema {
            Value::Bool(true) => Ok(Node::default()),
            Value::Object(keywords) => self.keywords(keywords, within),
            Value::Bool(false) => Err(SchemaProblem::Never.into()),
            other => Err(SchemaProblem::Malformed(format!("{other} instead of an object")).into()),
        }
    }

    fn keywords(&self, keywords: &Keywords, within: &[&str]) -> Read<Node> {
        let mut node = self.own(keywords, within)?;
        if let Some(reference) = text(keywords, "$ref") {
            node = node.and(self.reference(reference, within)?)?;
        }
        for part in list(keywords, "allOf") {
            node = node.and(self.read(part, within)?)?;
        }
        for (keyword, is_exclusive) in [("oneOf", true), ("anyOf", false)] {
            let parts = list(keywords, keyword);
            if !parts.is_empty() {
                node = node.and(self.alternatives(parts, is_exclusive, within)?)?;
            }
        }
        Ok(node)
    }

    fn reference(&self, reference: &str, within: &[&str]) -> Read<Node> {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        if within.contains(&reference) || reference == "#" {
            let name =
                if reference == "#" { text_of(self.root, "title").unwrap_or("of the spec") } else { name };
            return Err(SchemaProblem::Recursive(name.to_owned()).into());
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let target = target.ok_or_else(|| SchemaProblem::Reference(reference.to_owned()))?;
        self.read(target, &[within, &[reference]].concat())
    }

    fn alternatives(&self, parts: &[Value], is_exclusive: bool, within: &[&str]) -> Read<Node> {
        let values = parts.iter().filter(|part| !is_null(part));
        let nodes = values.map(|part| self.read(part, within)).collect::<Read<Vec<_>>>()?;
        let mut node = alternatives(nodes, is_exclusive)?;
        node.is_nullable |= parts.iter().any(is_null);
        Ok(node)
    }

    /// The node from the keywords alone, without references and nested schemas of the same value.
    fn own(&self, keywords: &Keywords, within: &[&str]) -> Read<Node> {
        let mut node = Node {
            description: text(keywords, "description").map(str::to_owned),
            default: keywords.get("default").filter(|value| !value.is_null()).cloned(),
            is_nullable: keywords.get("nullable") == Some(&Value::Bool(true)),
            ..Node::default()
        };
        checks(keywords, &mut node)?;
        kind(keywords, &mut node)?;
        numbers::bounds(keywords, &mut node);
        text_format(keywords, &mut node);
        self.fields(keywords, &mut node, within)?;
        self.items(keywords, &mut node, within)?;
        if let Some(not) = keywords.get("not") {
            let not = self.read(not, within)?.into_checks();
            if not.is_empty() {
                return Err(SchemaProblem::Never.into());
            }
            node.checks.not = Some(Box::new(not));
        }
        Ok(node)
    }

    fn fields(&self, keywords: &Keywords, node: &mut Node, within: &[&str]) -> Read<()> {
        let fields = keywords.get("properties").and_then(Value::as_object);
        for (name, schema) in fields.into_iter().flatten() {
            let field = self.read(schema, within).map_err(|error| error.of_field(name))?;
            node.properties.insert(name.clone(), field);
        }
        // Patterns of names are dropped: they say which keys a map of numbers has.
        let patterns =
            keywords.get("patternProperties").and_then(Value::as_object).filter(|map| !map.is_empty());
        let values = match (patterns, keywords.get("additionalProperties")) {
            (Some(patterns), None | Some(Value::Bool(false))) => {
                let values =
                    patterns.values().map(|schema| self.read(schema, within)).collect::<Read<Vec<_>>>();
                values.and_then(|values| alternatives(values, false)).map(Some)
            }
            (_, None | Some(Value::Bool(false))) => Ok(None),
            (_, Some(schema)) => self.read(schema, within).map(Some),
        };
        match values.map_err(|error| error.of_field("{}"))? {
            // A structural schema has either named fields or one schema for all values, not both.
            Some(values) if values.is_any() || !node.properties.is_empty() => node.is_open = true,
            values => node.additional = values.map(Box::new),
        }
        let has_values =
            ["additionalProperties", "patternProperties"].iter().any(|name| keywords.contains_key(*name));
        if node.kind.is_none() && (!node.properties.is_empty() || has_values) {
            node.kind = Some(ValueKind::Object);
        }
        Ok(())
    }

    fn items(&self, keywords: &Keywords, node: &mut Node, within: &[&str]) -> Read<()> {
        let below = |error: SchemaError| error.of_field("[]");
        let parts = list(keywords, "prefixItems");
        let items = match (parts, keywords.get("items")) {
            ([], None | Some(Value::Bool(false))) => return Ok(()),
            ([], Some(items)) => self.read(items, within).map_err(below)?,
            ([first, rest @ ..], more) => {
                let more = more.filter(|more| !more.is_boolean());
                let first = self.read(first, within).map_err(below)?;
                for other in rest.iter().chain(more) {
                    let other = self.read(other, within).map_err(below)?;
                    if other.without_texts() != first.without_texts() {
                        return Err(SchemaProblem::Tuple.into());
                    }
                }
                first
            }
        };
        let is_scalar = items.kind.is_some_and(ValueKind::is_scalar) && !items.is_nullable;
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) && is_scalar {
            let set = || Value::from("set");
            node.extensions.entry("x-kubernetes-list-type".to_owned()).or_insert_with(set);
        }
        node.items = Some(Box::new(items));
        Ok(())
    }
}

/// Copies keywords with the same meaning and refuses unknown ones.
fn checks(keywords: &Keywords, node: &mut Node) -> Read<()> {
    for (name, value) in keywords {
        let name = name.as_str();
        if CHECKS.contains(&name) {
            node.checks.keywords.insert(name.to_owned(), value.clone());
        } else if name.starts_with("x-kubernetes-") && !READ.contains(&name) {
            node.extensions.insert(name.to_owned(), value.clone());
        } else if !READ.contains(&name) && !DROPPED.contains(&name) && !name.starts_with("x-") {
            return Err(SchemaProblem::Keyword(name.to_owned()).into());
        }
    }
    if node.extensions.remove("x-kubernetes-preserve-unknown-fields") == Some(Value::Bool(true)) {
        node.is_open = true;
    }
    if node.checks.required().is_empty() {
        node.checks.set_required(Vec::new());
    }
    if let Some(value) = keywords.get("const") {
        node.checks.keywords.insert("enum".to_owned(), Value::from(vec![value.clone()]));
    }
    if let Some(Value::Array(values)) = node.checks.keywords.get_mut("enum") {
        let count = values.len();
        values.retain(|value| !value.is_null());
        node.is_nullable |= values.len() < count;
    }
    Ok(())
}

/// The type of the values; null is handled apart.
fn kind(keywords: &Keywords, node: &mut Node) -> Read<()> {
    let names: Vec<&str> = match keywords.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut kinds: Vec<&str> = names.iter().copied().filter(|name| *name != "null").collect();
    node.is_nullable |= kinds.len() < names.len();
    kinds.sort_unstable();
    node.kind = match kinds.as_slice() {
        _ if keywords.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) => {
            Some(ValueKind::IntOrString)
        }
        [] if !names.is_empty() => return Err(SchemaProblem::Never.into()),
        [] => kind_of_enum(node),
        [name] => {
            let unknown = || SchemaProblem::Malformed(format!("the type {name}"));
            Some(ValueKind::parse(name).ok_or_else(unknown)?)
        }
        ["integer", "string"] => Some(ValueKind::IntOrString),
        ["integer", "number"] => Some(ValueKind::Number),
        _ => return Err(SchemaProblem::TypeList(kinds.join(", ")).into()),
    };
    Ok(())
}

/// The common type of an enumeration's values.
fn kind_of_enum(node: &Node) -> Option<ValueKind> {
    let values = node.checks.keywords.get("enum")?.as_array()?;
    let kind = ValueKind::of(values.first()?)?;
    values.iter().all(|value| ValueKind::of(value) == Some(kind)).then_some(kind)
}

/// A format of strings that Kubernetes checks in the same way. JSON Schema's `duration` is ISO 8601's
/// (`PT1H`), Kubernetes' is Go's (`1h`).
fn text_format(keywords: &Keywords, node: &mut Node) {
    let format = text(keywords, "format").filter(|format| *format != "duration");
    let is_known = |format: &&str| Format::parse(format).is_some_and(Format::is_of_text);
    if let Some(format) = format.filter(is_known) {
        node.checks.keywords.insert("format".to_owned(), format.into());
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null") || schema.get("const") == Some(&Value::Null)
}

fn text<'k>(keywords: &'k Keywords, name: &str) -> Option<&'k str> {
    keywords.get(name).and_then(Value::as_str)
}

fn text_of<'v>(schema: &'v Value, name: &str) -> Option<&'v str> {
    schema.get(name).and_then(Value::as_str)
}

fn list<'k>(keywords: &'k Keywords, name: &str) -> &'k [Value] {
    keywords.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
