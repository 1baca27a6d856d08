//! Shapes of values: how expressions read the parts of an object, by the object's schema. Equal nodes share a shape.

use super::names::{escape, is_reserved};
use super::types::{CelKind, CelNode, fields, kind};
use crate::structural::node::{ListType, NodeId};
use crate::structural::tree::Tree;
use kstore_cel::{FieldShape, ListKind, ObjectShape, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name that `type()` gives for objects. Kubernetes too knows the types of objects only while it checks expressions.
const OBJECT: &str = "object";

/// Builds the shapes of a tree, and builds each only once.
pub(super) struct Shapes<'t> {
    tree: &'t Tree,
    known: BTreeMap<CelNode, Option<Shape>>,
}

impl<'t> Shapes<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self { tree, known: BTreeMap::new() }
    }

    /// The shape of a node; none if CEL has no type for the node.
    pub(super) fn of(&mut self, node: NodeId) -> Option<Shape> {
        self.shape(CelNode::Schema(node))
    }

    fn shape(&mut self, node: CelNode) -> Option<Shape> {
        if let Some(known) = self.known.get(&node) {
            return known.clone();
        }
        let shape = kind(self.tree, node).and_then(|kind| self.make(node, kind));
        self.known.insert(node, shape.clone());
        shape
    }

    fn make(&mut self, node: CelNode, kind: CelKind) -> Option<Shape> {
        Some(match kind {
            CelKind::Dyn => Shape::Dyn,
            CelKind::Bool => Shape::Bool,
            CelKind::Int => Shape::Int,
            CelKind::Double => Shape::Double,
            CelKind::String => Shape::String,
            CelKind::Bytes => Shape::Bytes,
            CelKind::Duration => Shape::Duration,
            CelKind::Date => Shape::Date,
            CelKind::DateTime => Shape::Timestamp,
            CelKind::List(items) => Shape::List(Arc::new(self.shape(items)?), self.list_kind(node)),
            CelKind::Map(values) => Shape::Map(Arc::new(self.shape(values)?)),
            CelKind::Object => {
                let mut members = Vec::new();
                for (key, field) in fields(self.tree, node) {
                    let (Some(name), Some(shape)) = (escape(key), self.shape(field)) else { continue };
                    let field = FieldShape { key: Box::from(key), shape };
                    if is_reserved(key) {
                        members.push((Box::from(key), field.clone()));
                    }
                    members.push((Box::from(&*name), field));
                }
                Shape::Object(Arc::new(ObjectShape::new(OBJECT, members)))
            }
        })
    }

    fn list_kind(&self, node: CelNode) -> ListKind {
        let CelNode::Schema(id) = node else { return ListKind::Ordered };
        match &self.tree.schema(id).node().list_type {
            ListType::Atomic => ListKind::Ordered,
            ListType::Set => ListKind::Set,
            ListType::Map(keys) => ListKind::Keyed(keys.iter().map(|key| Box::from(&**key)).collect()),
        }
    }
}
