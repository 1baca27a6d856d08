//! A compiled schema: its nodes in one array, and a cursor over them.

use std::ops::Deref;
use std::sync::OnceLock;

use super::node::{Additional, Node, NodeId};
use super::rules::CompiledRules;

/// The schema of one version of a custom resource. Immutable; share it with `Arc`.
#[derive(Debug)]
pub struct Tree {
    pub(super) nodes: Box<[Node]>,
    pub(super) root: NodeId,
    /// The programs of the rules, made when an object first meets them: most definitions of a cluster have no objects.
    pub(super) rules: OnceLock<CompiledRules>,
}

impl Tree {
    /// The schema of whole objects.
    #[must_use]
    pub fn root(&self) -> Schema<'_> {
        self.schema(self.root)
    }

    /// The schema with this id, which must come from this tree.
    #[must_use]
    pub fn schema(&self, id: NodeId) -> Schema<'_> {
        Schema { tree: self, id }
    }

    /// All nodes, children before parents, the root last. Places with equal schemas share a node.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// Whether some node has an expression.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.root().below.rules
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}

/// A place in a [`Tree`]: a node together with the tree that its children are in. Dereferences to the [`Node`].
#[derive(Clone, Copy, Debug)]
pub struct Schema<'t> {
    pub(super) tree: &'t Tree,
    pub(super) id: NodeId,
}

impl<'t> Schema<'t> {
    /// The tree.
    #[must_use]
    pub fn tree(self) -> &'t Tree {
        self.tree
    }

    /// Which node of the tree this is.
    #[must_use]
    pub fn id(self) -> NodeId {
        self.id
    }

    /// The node, for as long as the tree lives.
    #[must_use]
    pub fn node(self) -> &'t Node {
        self.tree.node(self.id)
    }

    /// Whether this is the schema of whole objects. No other place is, even if its schema is equal.
    #[must_use]
    pub fn is_root(self) -> bool {
        self.id == self.tree.root
    }

    /// The schema of a named property.
    #[must_use]
    pub fn property(self, name: &str) -> Option<Self> {
        self.node().property(name).map(|id| self.tree.schema(id))
    }

    /// The schema of a member: of the property, else of additional properties.
    #[must_use]
    pub fn member(self, name: &str) -> Option<Self> {
        self.node().member(name).map(|id| self.tree.schema(id))
    }

    /// The properties, sorted by name.
    pub fn properties(self) -> impl Iterator<Item = (&'t str, Self)> {
        self.node().properties.iter().map(move |(name, id)| (&**name, self.tree.schema(*id)))
    }

    /// The schema of list items.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.node().items.map(|id| self.tree.schema(id))
    }

    /// The schema of additional properties.
    #[must_use]
    pub fn values(self) -> Option<Self> {
        match self.node().additional {
            Additional::Schema(id) => Some(self.tree.schema(id)),
            Additional::Denied | Additional::Any => None,
        }
    }
}

impl Deref for Schema<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.tree.node(self.id)
    }
}
