//! Value checks of a schema node, as plain data. [`super::Tree::validate`] applies them.

use super::node::{Name, NodeId};
use super::pattern::Pattern;
use crate::format::Format;
use serde_json::{Number, Value};
use std::sync::Arc;

/// Numeric bound: `minimum` or `maximum` with its exclusive flag.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Value of the bound.
    pub value: Number,
    /// Whether the bound itself is excluded.
    pub exclusive: bool,
}

/// Format of a schema, with its name in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFormat {
    /// The format.
    pub format: Format,
    /// Name as the schema spells it; dashes may be anywhere.
    pub name: Name,
}

/// Restrictions on values beyond their type. Absent keywords are `None` or empty.
#[derive(Debug, Default, PartialEq)]
pub struct Checks {
    /// Value of `required`, in the order of the schema.
    pub required: Box<[Name]>,
    /// Value of `enum`, in the order of the schema.
    pub values: Box<[Value]>,
    /// Value of `minimum`.
    pub minimum: Option<Bound>,
    /// Value of `maximum`.
    pub maximum: Option<Bound>,
    /// Value of `multipleOf`.
    pub multiple_of: Option<Number>,
    /// Value of `minLength`, in characters.
    pub min_length: Option<i64>,
    /// Value of `maxLength`, in characters.
    pub max_length: Option<i64>,
    /// Value of `pattern`.
    pub pattern: Option<Arc<Pattern>>,
    /// Value of `format`, if values are checked against it.
    pub format: Option<NamedFormat>,
    /// Value of `minItems`.
    pub min_items: Option<i64>,
    /// Value of `maxItems`.
    pub max_items: Option<i64>,
    /// Value of `minProperties`.
    pub min_properties: Option<i64>,
    /// Value of `maxProperties`.
    pub max_properties: Option<i64>,
    /// Schemas of `allOf`.
    pub all_of: Box<[NodeId]>,
    /// Schemas of `anyOf`.
    pub any_of: Box<[NodeId]>,
    /// Schemas of `oneOf`.
    pub one_of: Box<[NodeId]>,
    /// Schema of `not`.
    pub not: Option<NodeId>,
}

impl Checks {
    /// All schemas of `allOf`, `anyOf`, `oneOf` and `not`.
    pub fn nested(&self) -> impl Iterator<Item = NodeId> {
        let lists = [&self.all_of, &self.any_of, &self.one_of];
        lists.into_iter().flatten().copied().chain(self.not)
    }
}
