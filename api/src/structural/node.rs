//! One node of a compiled schema, as plain data. Walks and lookups are elsewhere.

use std::sync::Arc;

use serde_json::Value;

use super::check::Checks;
use super::format::Format;
use super::rule::Rule;

/// A property name; trees store each name once.
pub type Name = Arc<str>;

/// Index of a [`Node`] in its [`super::Tree`]. Equal subtrees have equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// The `type` of a schema.
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
    /// The type with this name in a schema.
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

    /// The name in a schema.
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

/// `additionalProperties`: the values of members that are not named as properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Additional {
    /// Absent or `false`: pruning removes them.
    #[default]
    Denied,
    /// `true`: they stay, with any value.
    Any,
    /// They have this schema.
    Schema(NodeId),
}

/// `x-kubernetes-list-type` and the map keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Its items are unique.
    Set,
    /// Its items are objects, identified by these properties in the order of the schema.
    Map(Box<[Name]>),
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each member has its own owner.
    #[default]
    Granular,
    /// The object is one value.
    Atomic,
}

/// The switches of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `nullable`: null is a value.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`: members without a schema stay.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`: the value is a whole object with apiVersion, kind and metadata.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`: an integer or a string.
    pub int_or_string: bool,
}

/// One node of a schema. Children are ids in the same tree. Texts for readers (`description`, `title`, …) are not kept.
#[derive(Debug, Default)]
pub struct Node {
    /// `type`; none below preserve-unknown, for int-or-string, and in `allOf` and the like.
    pub value_type: Option<ValueType>,
    /// The switches.
    pub flags: Flags,
    /// `properties`, sorted by name.
    pub properties: Box<[(Name, NodeId)]>,
    /// `items`.
    pub items: Option<NodeId>,
    /// `additionalProperties`.
    pub additional: Additional,
    /// `x-kubernetes-list-type`.
    pub list_type: ListType,
    /// `x-kubernetes-map-type`.
    pub map_type: MapType,
    /// `default`, without a default of null, which counts as none.
    pub default: Option<Box<Value>>,
    /// What values must satisfy beyond their type; none if there is nothing.
    pub checks: Option<Box<Checks>>,
    /// `x-kubernetes-validations`, in the order of the schema.
    pub rules: Box<[Rule]>,
    /// What some node of this subtree, this one included, has; walks skip subtrees without.
    pub(super) below: Below,
}

/// What occurs in a subtree (`allOf` and the like aside).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Below {
    /// A default.
    pub(super) defaults: bool,
    /// An expression.
    pub(super) rules: bool,
    /// A list of type set or map.
    pub(super) keyed_lists: bool,
    /// An embedded resource.
    pub(super) embedded: bool,
}

impl Below {
    /// What occurs in either of two subtrees.
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
    /// The schema of a property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<NodeId> {
        let at = self.properties.binary_search_by(|(property, _)| (**property).cmp(name)).ok()?;
        Some(self.properties[at].1)
    }

    /// The schema of a member: of the property, else of additional properties.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<NodeId> {
        self.property(name).or(match self.additional {
            Additional::Schema(values) => Some(values),
            Additional::Denied | Additional::Any => None,
        })
    }

    /// The format that values are checked against.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.checks.as_ref()?.format.as_ref().map(|named| named.format)
    }
}
