//! [`Node`]: a position in a structural schema under construction. Structure (types, fields, defaults) and
//! checks of values ([`Checks`]) are separate, as Kubernetes requires: `allOf`, `anyOf`, `oneOf` and `not`
//! may contain only checks.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The type of the values at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// `x-kubernetes-int-or-string`
    IntOrString,
}

impl ValueKind {
    const NAMES: [(&str, Self); 6] = [
        ("object", Self::Object),
        ("array", Self::Array),
        ("string", Self::String),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("boolean", Self::Boolean),
    ];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    pub(super) fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("integer or string", |(name, _)| name)
    }

    /// The type of a value; `None` for null.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Self::Boolean),
            Value::Number(number) if number.is_f64() => Some(Self::Number),
            Value::Number(_) => Some(Self::Integer),
            Value::String(_) => Some(Self::String),
            Value::Array(_) => Some(Self::Array),
            Value::Object(_) => Some(Self::Object),
        }
    }

    pub(super) fn is_scalar(self) -> bool {
        !matches!(self, Self::Object | Self::Array)
    }
}

/// A position in the schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    /// The type; `None` for values of any type.
    pub(super) kind: Option<ValueKind>,
    pub(super) is_nullable: bool,
    pub(super) description: Option<String>,
    /// Values of an enumeration with their descriptions, which the writer adds to the node's description.
    pub(super) value_notes: Vec<(String, String)>,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) items: Option<Box<Node>>,
    /// The schema of the values of a map.
    pub(super) additional: Option<Box<Node>>,
    /// Whether an object keeps fields that the schema does not name.
    pub(super) is_open: bool,
    /// Other `x-kubernetes-…` keywords.
    pub(super) extensions: BTreeMap<String, Value>,
    /// Checks of the value itself. The nodes of fields and items have their own.
    pub(super) checks: Checks,
}

/// Checks of a value whose type is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Checks {
    /// `enum`, `required`, `minimum`, `pattern`, …
    pub(super) keywords: Map<String, Value>,
    pub(super) properties: BTreeMap<String, Checks>,
    pub(super) items: Option<Box<Checks>>,
    pub(super) all_of: Vec<Checks>,
    pub(super) any_of: Vec<Checks>,
    pub(super) one_of: Vec<Checks>,
    pub(super) not: Option<Box<Checks>>,
}

impl Node {
    /// Whether every value is valid.
    pub(super) fn is_any(&self) -> bool {
        self.kind.is_none() && self.properties.is_empty() && self.checks.is_empty()
    }

    /// A copy without descriptions.
    pub(super) fn without_texts(&self) -> Self {
        Self { description: None, value_notes: Vec::new(), ..self.clone() }
    }

    /// The checks of the value and of its fields and items. Checks of map values are dropped:
    /// `additionalProperties` is not allowed among checks.
    pub(super) fn into_checks(self) -> Checks {
        let below = self.properties.into_iter().map(|(name, node)| (name, node.into_checks()));
        let items = self.items.map(|items| items.into_checks()).filter(|checks| !checks.is_empty());
        Checks {
            properties: below.filter(|(_, checks)| !checks.is_empty()).collect(),
            items: items.map(Box::new),
            ..self.checks
        }
    }
}

impl Checks {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The values of `enum` if that is the only check.
    pub(super) fn only_enum(&self) -> Option<&Vec<Value>> {
        let values = self.keywords.get("enum")?.as_array()?;
        let only = Self { keywords: self.keywords.clone(), ..Self::default() };
        (self.keywords.len() == 1 && *self == only).then_some(values)
    }

    /// The names in `required`.
    pub(super) fn required(&self) -> Vec<Value> {
        self.keywords.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Sets `required`; without names, removes it.
    pub(super) fn set_required(&mut self, names: Vec<Value>) {
        match names.is_empty() {
            true => self.keywords.remove("required"),
            false => self.keywords.insert("required".to_owned(), names.into()),
        };
    }
}
