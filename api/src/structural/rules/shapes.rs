//! The values of objects as expressions read them, by their schema. Shapes are shared by all places with equal schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use kstore_cel::{FieldShape, ListKind, ObjectShape, Shape};

use super::names::{escape, is_reserved};
use super::types::{Kind, Place, fields, kind};
use crate::structural::node::{ListType, NodeId};
use crate::structural::tree::Tree;

/// The name that objects have for `type()`; the names of their types are only known while an expression is checked.
const OBJECT: &str = "object";

/// Makes the shapes of a tree, each once.
pub(super) struct Shapes<'t> {
    tree: &'t Tree,
    known: BTreeMap<Place, Option<Shape>>,
}

impl<'t> Shapes<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self { tree, known: BTreeMap::new() }
    }

    /// The shape of a node; none if expressions do not see it.
    pub(super) fn of(&mut self, node: NodeId) -> Option<Shape> {
        self.at(Place::Node(node))
    }

    fn at(&mut self, place: Place) -> Option<Shape> {
        if let Some(known) = self.known.get(&place) {
            return known.clone();
        }
        let shape = kind(self.tree, place).and_then(|kind| self.make(place, kind));
        self.known.insert(place, shape.clone());
        shape
    }

    fn make(&mut self, place: Place, kind: Kind) -> Option<Shape> {
        Some(match kind {
            Kind::Dyn => Shape::Dyn,
            Kind::Bool => Shape::Bool,
            Kind::Int => Shape::Int,
            Kind::Double => Shape::Double,
            Kind::String => Shape::String,
            Kind::Bytes => Shape::Bytes,
            Kind::Duration => Shape::Duration,
            Kind::Date => Shape::Date,
            Kind::DateTime => Shape::Timestamp,
            Kind::List(items) => Shape::List(Arc::new(self.at(items)?), self.list_kind(place)),
            Kind::Map(values) => Shape::Map(Arc::new(self.at(values)?)),
            Kind::Object => {
                let mut own = Vec::new();
                for (key, field) in fields(self.tree, place) {
                    let (Some(name), Some(shape)) = (escape(key), self.at(field)) else { continue };
                    let field = FieldShape { key: Box::from(key), shape };
                    if is_reserved(key) {
                        own.push((Box::from(key), field.clone()));
                    }
                    own.push((Box::from(&*name), field));
                }
                Shape::Object(Arc::new(ObjectShape::new(OBJECT, own)))
            }
        })
    }

    fn list_kind(&self, place: Place) -> ListKind {
        let Place::Node(id) = place else { return ListKind::Ordered };
        match &self.tree.schema(id).node().list_type {
            ListType::Atomic => ListKind::Ordered,
            ListType::Set => ListKind::Set,
            ListType::Map(keys) => ListKind::Keyed(keys.iter().map(|key| Box::from(&**key)).collect()),
        }
    }
}
