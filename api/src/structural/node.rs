//! Node of a compiled schema, as plain data.

use super::check::Checks;
use super::rule::Rule;
use crate::format::Format;
use serde_json::Value;
use std::sync::Arc;

/// Property name; a tree stores each name once.
pub type Name = Arc<str>;

/// Index of a [`Node`] in its [`super::Tree`]. Equal subtrees have equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// Type of values, the `type` of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueType {
    /// `array`
    Array,
    /// `boolean`
    Boolean,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `object`
    Object,
    /// `string`
    String,
}

impl ValueType {
    /// The type with this name in schemas.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }

    /// The name in schemas.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

/// Rule of `additionalProperties` for members that are not properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Additional {
    /// Absent or `false`: pruning removes the members.
    #[default]
    Denied,
    /// `true`: the members stay, with any value.
    Any,
    /// The members have this schema.
    Schema(NodeId),
}

/// Value of `x-kubernetes-list-type`, with the map keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list has one owner as a whole.
    #[default]
    Atomic,
    /// Items are unique.
    Set,
    /// Items are objects that these properties identify, in the order of the schema.
    Map(Box<[Name]>),
}

/// Value of `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each member has its own owners.
    #[default]
    Granular,
    /// The object has one owner as a whole.
    Atomic,
}

/// Boolean keywords of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `nullable`: null is a valid value.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`: members without a schema stay.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`: the value is an object with apiVersion, kind and metadata.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`: the value is an integer or a string.
    pub int_or_string: bool,
}

/// Node of a schema. Children are ids in the same tree. Texts for readers (`description`, `title`, …) are
/// dropped.
#[derive(Debug, Default)]
pub struct Node {
    /// Value of `type`. Absent for preserve-unknown and int-or-string nodes, and inside `allOf`, `anyOf`,
    /// `oneOf` and `not`.
    pub value_type: Option<ValueType>,
    /// Boolean keywords.
    pub flags: Flags,
    /// Properties, sorted by name.
    pub properties: Box<[(Name, NodeId)]>,
    /// Schema of `items`.
    pub items: Option<NodeId>,
    /// Rule for additional properties.
    pub additional: Additional,
    /// List type.
    pub list_type: ListType,
    /// Map type.
    pub map_type: MapType,
    /// Default value; a default of null counts as absent.
    pub default: Option<Box<Value>>,
    /// Value checks beyond the type, if any.
    pub checks: Option<Box<Checks>>,
    /// CEL rules (`x-kubernetes-validations`), in the order of the schema.
    pub rules: Box<[Rule]>,
    /// Flags of the subtree, this node included. Walks skip subtrees without what they look for.
    pub(super) below: SubtreeFlags,
}

/// Features that occur in a subtree (`allOf`, `anyOf`, `oneOf` and `not` excluded).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SubtreeFlags {
    /// Whether it has a default.
    pub(super) defaults: bool,
    /// Whether it has a CEL rule.
    pub(super) rules: bool,
    /// Whether it has a list of type set or map.
    pub(super) keyed_lists: bool,
    /// Whether it has an embedded resource.
    pub(super) embedded: bool,
}

impl SubtreeFlags {
    /// Features that occur in either subtree.
    pub(super) const fn or(self, other: Self) -> Self {
        Self {
            defaults: self.defaults || other.defaults,
            rules: self.rules || other.rules,
            keyed_lists: self.keyed_lists || other.keyed_lists,
            embedded: self.embedded || other.embedded,
        }
    }
}

impl Node {
    /// Schema of a property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<NodeId> {
        let at = self.properties.binary_search_by(|(property, _)| (**property).cmp(name)).ok()?;
        Some(self.properties[at].1)
    }

    /// Schema of a member: of the property, else of additional properties.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<NodeId> {
        self.property(name).or(match self.additional {
            Additional::Schema(values) => Some(values),
            Additional::Denied | Additional::Any => None,
        })
    }

    /// Format that values are checked against.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.checks.as_ref()?.format.as_ref().map(|named| named.format)
    }
}
