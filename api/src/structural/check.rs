//! The value checks of a schema, as plain data. [`super::Tree::validate`] applies them.

use std::sync::Arc;

use serde_json::{Number, Value};

use super::format::Format;
use super::node::{Name, NodeId};
use super::pattern::Pattern;

/// `minimum` or `maximum`, with its exclusive flag.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The bound.
    pub value: Number,
    /// The bound itself is outside.
    pub exclusive: bool,
}

/// `format`, with the name that messages show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFormat {
    /// The format.
    pub format: Format,
    /// As the schema spells it: dashes may be anywhere.
    pub name: Name,
}

/// What values must satisfy beyond their type. Absent keywords are `None` or empty.
#[derive(Debug, Default, PartialEq)]
pub struct Checks {
    /// `required`, in the order of the schema.
    pub required: Box<[Name]>,
    /// `enum`, in the order of the schema.
    pub values: Box<[Value]>,
    /// `minimum`.
    pub minimum: Option<Bound>,
    /// `maximum`.
    pub maximum: Option<Bound>,
    /// `multipleOf`.
    pub multiple_of: Option<Number>,
    /// `minLength`, in characters.
    pub min_length: Option<i64>,
    /// `maxLength`, in characters.
    pub max_length: Option<i64>,
    /// `pattern`.
    pub pattern: Option<Arc<Pattern>>,
    /// `format`, if it is one of those that values are checked against.
    pub format: Option<NamedFormat>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `allOf`.
    pub all_of: Box<[NodeId]>,
    /// `anyOf`.
    pub any_of: Box<[NodeId]>,
    /// `oneOf`.
    pub one_of: Box<[NodeId]>,
    /// `not`.
    pub not: Option<NodeId>,
}

impl Checks {
    /// Nested schemas: values must satisfy some, all, exactly one or none of them.
    pub fn nested(&self) -> impl Iterator<Item = NodeId> {
        let lists = [&self.all_of, &self.any_of, &self.one_of];
        lists.into_iter().flatten().copied().chain(self.not)
    }
}
