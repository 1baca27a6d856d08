//! The nodes of a program.

use crate::env::Function;
use crate::value::{Key, Val};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A step of a program.
#[derive(Debug)]
pub(super) enum Node {
    Const(Val<'static>),
    Attribute(Box<Attribute>),
    Call(Box<CallNode>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// `==`, or `!=` if negated.
    Equals(Box<[Node; 2]>, bool),
    /// A comparison of two whole numbers.
    Order(Box<[Node; 2]>, fn(Ordering) -> bool),
    /// Whether a value is anything but false; errors are not false.
    NotStrictlyFalse(Box<Node>),
    /// `or` of two optionals; `orValue` if the second is a value.
    OptionalOr(Box<[Node; 2]>, bool),
    /// Elements, and whether each is optional.
    List(Vec<(Node, bool)>),
    /// Keys, values, and whether each value is optional.
    Map(Vec<(Node, Node, bool)>),
    /// A type's name; fields, values, and whether each value is optional.
    Object(Arc<str>, Vec<(Arc<str>, Node, bool)>),
    /// Whether a value is in a constant list.
    InSet(Box<Node>, BTreeSet<Key<'static>>),
    Fold(Box<Fold>),
    /// `all` or `exists`.
    Quantifier(Box<Quantifier>),
    /// The accumulator of a loop with one more element; the list is made at this cost.
    Append(usize, Box<Node>, u64),
    /// The accumulator of a loop with a key and a value, or with the entries of a map.
    Insert(usize, Vec<Node>),
}

/// Something that selections start from, and the selections.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) root: Root,
    pub(super) qualifiers: Vec<Qualifier>,
    /// Whether only the presence of the last selection is asked for.
    pub(super) test_only: bool,
}

/// What selections start from.
#[derive(Debug)]
pub(super) enum Root {
    Variable(Arc<str>),
    /// A field of a lazy object, which the activation knows by the dotted name.
    LazyField(Arc<str>),
    /// A variable of a loop.
    Slot(usize),
    /// The value of any other node.
    Relative(Node),
    /// One of two attributes.
    Conditional(Node, Box<Attribute>, Box<Attribute>),
}

/// One selection.
#[derive(Debug)]
pub(super) struct Qualifier {
    pub(super) key: QualifierKey,
    /// Whether a missing value is an empty optional.
    pub(super) optional: bool,
}

/// What is selected.
#[derive(Debug)]
pub(super) enum QualifierKey {
    Const(Val<'static>),
    Attribute(Attribute),
    Node(Node),
}

/// A call of a function.
#[derive(Debug)]
pub(super) struct CallNode {
    pub(super) function: Shared,
    /// The overloads that the check left.
    pub(super) overloads: Vec<usize>,
    pub(super) args: Vec<Node>,
    /// Whether the types of arguments need no look when the call runs.
    pub(super) is_unguarded: bool,
}

/// A function of the environment.
pub(super) struct Shared(pub(super) Arc<Function>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.overloads.iter().map(|overload| &overload.id)).finish()
    }
}

/// A loop.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Node,
    pub(super) var: usize,
    pub(super) var2: Option<usize>,
    pub(super) accu: usize,
    pub(super) init: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
}

/// A loop that looks for one element for which the body has the decisive value: false for `all`, true for `exists`.
#[derive(Debug)]
pub(super) struct Quantifier {
    pub(super) range: Node,
    pub(super) var: usize,
    pub(super) var2: Option<usize>,
    pub(super) body: Node,
    pub(super) decisive: bool,
}
