//! Compiled schema: an array of nodes, and a cursor over them.

use super::node::{Additional, Node, NodeId};
use super::rules::CompiledRules;
use std::ops::Deref;
use std::sync::OnceLock;

/// Compiled schema of one version of a custom resource. It is immutable; share it with `Arc`.
#[derive(Debug)]
pub struct Tree {
    pub(super) nodes: Box<[Node]>,
    pub(super) root: NodeId,
    /// Compiled CEL rules, made when the first object needs them: most definitions of a cluster have no
    /// objects.
    pub(super) rules: OnceLock<CompiledRules>,
}

impl Tree {
    /// Schema of whole objects.
    #[must_use]
    pub fn root(&self) -> Schema<'_> {
        self.schema(self.root)
    }

    /// Schema with this id, which must be from this tree.
    #[must_use]
    pub fn schema(&self, id: NodeId) -> Schema<'_> {
        Schema { tree: self, id }
    }

    /// All nodes, children before parents, the root last. Equal schemas share a node.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// Whether any node has a CEL rule.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.root().below.rules
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}

/// Position in a [`Tree`]: a node together with its tree. Dereferences to the [`Node`].
#[derive(Clone, Copy, Debug)]
pub struct Schema<'t> {
    pub(super) tree: &'t Tree,
    pub(super) id: NodeId,
}

impl<'t> Schema<'t> {
    /// The compiled schema that this node belongs to.
    #[must_use]
    pub fn tree(self) -> &'t Tree {
        self.tree
    }

    /// Id of the node.
    #[must_use]
    pub fn id(self) -> NodeId {
        self.id
    }

    /// The node, with the lifetime of the tree.
    #[must_use]
    pub fn node(self) -> &'t Node {
        self.tree.node(self.id)
    }

    /// Whether this is the schema of whole objects. Other positions never are, even if their schemas are
    /// equal.
    #[must_use]
    pub fn is_root(self) -> bool {
        self.id == self.tree.root
    }

    /// Schema of a property.
    #[must_use]
    pub fn property(self, name: &str) -> Option<Self> {
        self.node().property(name).map(|id| self.tree.schema(id))
    }

    /// Schema of a member: of the property, else of additional properties.
    #[must_use]
    pub fn member(self, name: &str) -> Option<Self> {
        self.node().member(name).map(|id| self.tree.schema(id))
    }

    /// The properties, sorted by name.
    pub fn properties(self) -> impl Iterator<Item = (&'t str, Self)> {
        self.node().properties.iter().map(move |(name, id)| (&**name, self.tree.schema(*id)))
    }

    /// Schema of list items.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        self.node().items.map(|id| self.tree.schema(id))
    }

    /// Schema of additional properties.
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
