//! The types of expressions by a schema. A [`Place`] is a node as expressions see it; types of objects are named by their path from
//! the node that a rule belongs to, so two fields with equal schemas have different types, as in Kubernetes.

use std::borrow::Cow;
use std::sync::Arc;

use kstore_cel::{SizeEstimate, SizeProvider, Type, TypeProvider};

use super::names::{escape, is_reserved, unescape};
use super::sizes::max_elements;
use crate::structural::node::{Node, NodeId, ValueType};
use crate::structural::tree::{Schema, Tree};

/// A part of a schema as expressions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A node.
    Node(NodeId),
    /// A text without bounds: apiVersion, kind and names of whole objects, where the schema does not speak of them.
    Text,
    /// The metadata of whole objects: name and generateName.
    Metadata,
}

/// What expressions see at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Dyn,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    List(Place),
    Map(Place),
    Object,
}

/// What expressions see at a place; none if they do not see it.
pub(crate) fn kind(tree: &Tree, place: Place) -> Option<Kind> {
    let node = match place {
        Place::Node(id) => tree.schema(id).node(),
        Place::Text => return Some(Kind::String),
        Place::Metadata => return Some(Kind::Object),
    };
    if node.flags.int_or_string {
        return Some(Kind::Dyn);
    }
    Some(match node.value_type? {
        ValueType::Boolean => Kind::Bool,
        ValueType::Integer => Kind::Int,
        ValueType::Number => Kind::Double,
        ValueType::String => match format_name(node) {
            Some("byte") => Kind::Bytes,
            Some("duration") => Kind::Duration,
            Some("date") => Kind::Date,
            Some("date-time") => Kind::DateTime,
            _ => Kind::String,
        },
        ValueType::Array => {
            let items = Place::Node(node.items?);
            kind(tree, items).map(|_| Kind::List(items))?
        }
        ValueType::Object => match values(node) {
            Some(values) => kind(tree, values).map(|_| Kind::Map(values))?,
            None => Kind::Object,
        },
    })
}

/// The format of a node as its schema spells it.
fn format_name(node: &Node) -> Option<&str> {
    node.checks.as_ref()?.format.as_ref().map(|format| &*format.name)
}

fn values(node: &Node) -> Option<Place> {
    match node.additional {
        crate::structural::Additional::Schema(id) => Some(Place::Node(id)),
        _ => None,
    }
}

/// Whether a node stands for whole objects whose schema does not describe apiVersion, kind and metadata itself.
fn lacks_metadata(schema: Schema<'_>) -> bool {
    if !schema.is_root() && !schema.flags.embedded {
        return false;
    }
    let is = |name: &str, ty: ValueType| schema.property(name).is_some_and(|own| own.value_type == Some(ty));
    let describes = is("kind", ValueType::String)
        && is("apiVersion", ValueType::String)
        && is("metadata", ValueType::Object)
        && schema.property("metadata").is_some_and(|own| !own.node().properties.is_empty());
    !describes
}

/// The fields of an object, by their names in documents, in order.
pub(super) fn fields(tree: &Tree, place: Place) -> Vec<(&str, Place)> {
    let id = match place {
        Place::Node(id) => id,
        Place::Text => return Vec::new(),
        Place::Metadata => return vec![("generateName", Place::Text), ("name", Place::Text)],
    };
    let schema = tree.schema(id);
    let own = schema.properties().map(|(name, schema)| (name, Place::Node(schema.id())));
    if !lacks_metadata(schema) {
        return own.collect();
    }
    let mut fields: Vec<_> =
        own.filter(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "metadata")).collect();
    fields.extend([("apiVersion", Place::Text), ("kind", Place::Text), ("metadata", Place::Metadata)]);
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

/// The field of an object by its name in documents.
fn field(tree: &Tree, place: Place, name: &str) -> Option<Place> {
    match place {
        Place::Text => None,
        Place::Metadata => matches!(name, "name" | "generateName").then_some(Place::Text),
        Place::Node(id) => {
            let schema = tree.schema(id);
            match name {
                "apiVersion" | "kind" if lacks_metadata(schema) => Some(Place::Text),
                "metadata" if lacks_metadata(schema) => Some(Place::Metadata),
                _ => schema.node().property(name).map(Place::Node),
            }
        }
    }
}

/// The field of an object by its name in expressions, if they see it.
pub(crate) fn visible_field(tree: &Tree, place: Place, name: &str) -> Option<Place> {
    let found = match escape(name) {
        Some(Cow::Borrowed(name)) => field(tree, place, name),
        _ if is_reserved(name) => field(tree, place, name),
        _ => field(tree, place, &unescape(name)?),
    };
    found.filter(|place| kind(tree, *place).is_some())
}

/// The types of the expressions of one node.
#[derive(Clone)]
pub(super) struct NodeTypes {
    tree: Arc<Tree>,
    node: Place,
}

/// The name of the type of the node itself, if it is an object.
const SELF_TYPE: &str = "selfType";
const ITEM: &str = "@idx";
const VALUE: &str = "@elem";

impl NodeTypes {
    pub(super) fn new(tree: Arc<Tree>, node: NodeId) -> Self {
        Self { tree, node: Place::Node(node) }
    }

    /// The type of `self`; none if expressions do not see the node.
    pub(super) fn self_type(&self) -> Option<Type> {
        self.type_at(self.node, SELF_TYPE)
    }

    fn type_at(&self, place: Place, name: &str) -> Option<Type> {
        Some(match kind(&self.tree, place)? {
            Kind::Dyn => Type::Dyn,
            Kind::Bool => Type::Bool,
            Kind::Int => Type::Int,
            Kind::Double => Type::Double,
            Kind::String => Type::String,
            Kind::Bytes => Type::Bytes,
            Kind::Duration => Type::Duration,
            Kind::Date | Kind::DateTime => Type::Timestamp,
            Kind::List(items) => Type::list(self.type_at(items, &format!("{name}.{ITEM}"))?),
            Kind::Map(values) => Type::map(Type::String, self.type_at(values, &format!("{name}.{VALUE}"))?),
            Kind::Object => Type::object(name),
        })
    }

    /// The place of a named type.
    fn place(&self, type_name: &str) -> Option<Place> {
        let mut steps = type_name.split('.');
        if steps.next() != Some(SELF_TYPE) {
            return None;
        }
        steps.try_fold(self.node, |place, step| match (step, kind(&self.tree, place)?) {
            (ITEM, Kind::List(items)) => Some(items),
            (VALUE, Kind::Map(values)) => Some(values),
            (name, Kind::Object) => visible_field(&self.tree, place, name),
            _ => None,
        })
    }
}

impl TypeProvider for NodeTypes {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let place = visible_field(&self.tree, self.place(type_name)?, field)?;
        self.type_at(place, &format!("{type_name}.{field}"))
    }

    fn has_type(&self, type_name: &str) -> bool {
        self.place(type_name).is_some_and(|place| kind(&self.tree, place) == Some(Kind::Object))
    }
}

impl SizeProvider for NodeTypes {
    fn size(&self, path: &[Arc<str>], _ty: &Type) -> Option<SizeEstimate> {
        /// Sizes of keys of maps are not known and count as none.
        const KEYS: SizeEstimate = SizeEstimate { min: 0, max: 0 };
        let mut place = self.node;
        // The first step is the variable: `self` and `oldSelf` have the same schema.
        for (at, step) in path.iter().enumerate().skip(1) {
            place = match (&**step, kind(&self.tree, place)?) {
                ("@items" | "@values", Kind::List(below) | Kind::Map(below)) => below,
                ("@keys", Kind::Map(_)) => return (at + 1 == path.len()).then_some(KEYS),
                (name, Kind::Object) => visible_field(&self.tree, place, name)?,
                _ => return None,
            };
        }
        (!path.is_empty()).then(|| SizeEstimate { min: 0, max: max_elements(&self.tree, place) })
    }
}
