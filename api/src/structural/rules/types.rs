//! Types of expressions, by a schema.
//!
//! An object type is named by the path to its node from the node that a rule belongs to. Two fields with equal schemas therefore have
//! different types, as in Kubernetes.

use super::names::{escape, is_reserved, unescape};
use super::sizes::max_elements;
use crate::structural::node::{Node, NodeId, ValueType};
use crate::structural::tree::{Schema, Tree};
use kstore_cel::{SizeEstimate, SizeProvider, Type, TypeProvider};
use std::borrow::Cow;
use std::sync::Arc;

/// A node of the schema that expressions see. Whole objects have nodes that their schema need not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CelNode {
    /// A declared node.
    Schema(NodeId),
    /// A string of any length: apiVersion, kind, name or generateName of a whole object, if the schema does not declare it.
    Text,
    /// The metadata of a whole object, with name and generateName, if the schema does not declare it.
    Metadata,
}

/// The CEL type of a node, with the nodes of items and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CelKind {
    Dyn,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    List(CelNode),
    Map(CelNode),
    Object,
}

/// The CEL type of a node; none if expressions do not see the node.
pub(crate) fn kind(tree: &Tree, node: CelNode) -> Option<CelKind> {
    let node = match node {
        CelNode::Schema(id) => tree.schema(id).node(),
        CelNode::Text => return Some(CelKind::String),
        CelNode::Metadata => return Some(CelKind::Object),
    };
    if node.flags.int_or_string {
        return Some(CelKind::Dyn);
    }
    Some(match node.value_type? {
        ValueType::Boolean => CelKind::Bool,
        ValueType::Integer => CelKind::Int,
        ValueType::Number => CelKind::Double,
        ValueType::String => match format_name(node) {
            Some("byte") => CelKind::Bytes,
            Some("duration") => CelKind::Duration,
            Some("date") => CelKind::Date,
            Some("date-time") => CelKind::DateTime,
            _ => CelKind::String,
        },
        ValueType::Array => {
            let items = CelNode::Schema(node.items?);
            kind(tree, items).map(|_| CelKind::List(items))?
        }
        ValueType::Object => match values(node) {
            Some(values) => kind(tree, values).map(|_| CelKind::Map(values))?,
            None => CelKind::Object,
        },
    })
}

/// The format of a node as its schema spells it.
fn format_name(node: &Node) -> Option<&str> {
    node.checks.as_ref()?.format.as_ref().map(|format| &*format.name)
}

/// The node of additional properties, if they have a schema.
fn values(node: &Node) -> Option<CelNode> {
    match node.additional {
        crate::structural::Additional::Schema(id) => Some(CelNode::Schema(id)),
        _ => None,
    }
}

/// Whether a node is a whole object whose schema does not declare apiVersion, kind and metadata.
fn lacks_metadata(schema: Schema<'_>) -> bool {
    if !schema.is_root() && !schema.flags.embedded {
        return false;
    }
    let is = |name: &str, ty: ValueType| schema.property(name).is_some_and(|own| own.value_type == Some(ty));
    let declares = is("kind", ValueType::String)
        && is("apiVersion", ValueType::String)
        && is("metadata", ValueType::Object)
        && schema.property("metadata").is_some_and(|own| !own.node().properties.is_empty());
    !declares
}

/// The fields of an object with their names in documents, ascending by name.
pub(super) fn fields(tree: &Tree, node: CelNode) -> Vec<(&str, CelNode)> {
    let id = match node {
        CelNode::Schema(id) => id,
        CelNode::Text => return Vec::new(),
        CelNode::Metadata => return vec![("generateName", CelNode::Text), ("name", CelNode::Text)],
    };
    let schema = tree.schema(id);
    let declared = schema.properties().map(|(name, schema)| (name, CelNode::Schema(schema.id())));
    if !lacks_metadata(schema) {
        return declared.collect();
    }
    let mut fields: Vec<_> =
        declared.filter(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "metadata")).collect();
    fields.extend([("apiVersion", CelNode::Text), ("kind", CelNode::Text), ("metadata", CelNode::Metadata)]);
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

/// The field of an object with this name in documents.
fn field(tree: &Tree, node: CelNode, name: &str) -> Option<CelNode> {
    match node {
        CelNode::Text => None,
        CelNode::Metadata => matches!(name, "name" | "generateName").then_some(CelNode::Text),
        CelNode::Schema(id) => {
            let schema = tree.schema(id);
            match name {
                "apiVersion" | "kind" if lacks_metadata(schema) => Some(CelNode::Text),
                "metadata" if lacks_metadata(schema) => Some(CelNode::Metadata),
                _ => schema.node().property(name).map(CelNode::Schema),
            }
        }
    }
}

/// The field of an object with this name in expressions; none if expressions do not see the field.
pub(crate) fn visible_field(tree: &Tree, node: CelNode, name: &str) -> Option<CelNode> {
    let found = match escape(name) {
        Some(Cow::Borrowed(name)) => field(tree, node, name),
        _ if is_reserved(name) => field(tree, node, name),
        _ => field(tree, node, &unescape(name)?),
    };
    found.filter(|field| kind(tree, *field).is_some())
}

/// The types and sizes of the values that the rules of one node see.
#[derive(Clone)]
pub(super) struct NodeTypes {
    tree: Arc<Tree>,
    /// The node of `self` and `oldSelf`.
    node: CelNode,
}

/// The name of the type of `self`, if it is an object.
const SELF_TYPE: &str = "selfType";
/// The steps from a list to its items and from a map to its values, in names of types.
const ITEM: &str = "@idx";
const VALUE: &str = "@elem";

impl NodeTypes {
    pub(super) fn new(tree: Arc<Tree>, node: NodeId) -> Self {
        Self { tree, node: CelNode::Schema(node) }
    }

    /// The type of `self`; none if expressions do not see the node.
    pub(super) fn self_type(&self) -> Option<Type> {
        self.type_of(self.node, SELF_TYPE)
    }

    /// The type of a node; an object type gets the name.
    fn type_of(&self, node: CelNode, name: &str) -> Option<Type> {
        Some(match kind(&self.tree, node)? {
            CelKind::Dyn => Type::Dyn,
            CelKind::Bool => Type::Bool,
            CelKind::Int => Type::Int,
            CelKind::Double => Type::Double,
            CelKind::String => Type::String,
            CelKind::Bytes => Type::Bytes,
            CelKind::Duration => Type::Duration,
            CelKind::Date | CelKind::DateTime => Type::Timestamp,
            CelKind::List(items) => Type::list(self.type_of(items, &format!("{name}.{ITEM}"))?),
            CelKind::Map(values) => {
                Type::map(Type::String, self.type_of(values, &format!("{name}.{VALUE}"))?)
            }
            CelKind::Object => Type::object(name),
        })
    }

    /// The node of a named type.
    fn node_of(&self, type_name: &str) -> Option<CelNode> {
        let mut steps = type_name.split('.');
        if steps.next() != Some(SELF_TYPE) {
            return None;
        }
        steps.try_fold(self.node, |node, step| match (step, kind(&self.tree, node)?) {
            (ITEM, CelKind::List(items)) => Some(items),
            (VALUE, CelKind::Map(values)) => Some(values),
            (name, CelKind::Object) => visible_field(&self.tree, node, name),
            _ => None,
        })
    }
}

impl TypeProvider for NodeTypes {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let node = visible_field(&self.tree, self.node_of(type_name)?, field)?;
        self.type_of(node, &format!("{type_name}.{field}"))
    }

    fn has_type(&self, type_name: &str) -> bool {
        self.node_of(type_name).is_some_and(|node| kind(&self.tree, node) == Some(CelKind::Object))
    }
}

impl SizeProvider for NodeTypes {
    fn size(&self, path: &[Arc<str>], _ty: &Type) -> Option<SizeEstimate> {
        /// The size of a map key: unknown, counted as 0.
        const KEYS: SizeEstimate = SizeEstimate { min: 0, max: 0 };
        let mut node = self.node;
        // The first step is the variable: `self` and `oldSelf` have the same schema, that of the node.
        for (index, step) in path.iter().enumerate().skip(1) {
            node = match (&**step, kind(&self.tree, node)?) {
                ("@items" | "@values", CelKind::List(below) | CelKind::Map(below)) => below,
                ("@keys", CelKind::Map(_)) => return (index + 1 == path.len()).then_some(KEYS),
                (name, CelKind::Object) => visible_field(&self.tree, node, name)?,
                _ => return None,
            };
        }
        (!path.is_empty()).then(|| SizeEstimate { min: 0, max: max_elements(&self.tree, node) })
    }
}
