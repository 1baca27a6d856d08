//! Nodes of a program: the tree that the planner makes and the evaluator walks.

use crate::declarations::Function;
use crate::value::{FieldName, Key, Val};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An operation of a program and the operations that compute its operands.
#[derive(Debug)]
pub(super) enum Node {
    Const(Val<'static>),
    Attribute(Box<Attribute>),
    Call(Box<CallNode>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// `==`, or `!=` if negated.
    Equals(Box<[Node; 2]>, bool),
    /// A comparison of two signed integers.
    Order(Box<[Node; 2]>, fn(Ordering) -> bool),
    /// Whether a value is anything but false; an error is not false.
    NotStrictlyFalse(Box<Node>),
    /// `or` of two optionals; `orValue` if the flag is set.
    OptionalOr(Box<[Node; 2]>, bool),
    /// A list literal: elements, each with a flag for optional elements.
    List(Vec<(Node, bool)>),
    /// A map literal: keys and values, each with a flag for optional entries.
    Map(Vec<(Node, Node, bool)>),
    /// An object literal: the type's name; fields and values, each with a flag for optional fields.
    Object(Arc<str>, Vec<(Arc<str>, Node, bool)>),
    /// `in` with a constant list as right side.
    InSet(Box<Node>, BTreeSet<Key<'static>>),
    Fold(Box<Fold>),
    Quantifier(Box<Quantifier>),
    ExistsOne(Box<ExistsOne>),
    Collector(Box<Collector>),
    /// The accumulator in a slot, with a key and a value added, or the entries of a map.
    Insert(usize, Vec<Node>),
}

/// An operand and the chain of selections from it: `operand.a[b].c`.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) root: Root,
    pub(super) qualifiers: Vec<Qualifier>,
    /// Whether the expression asks only if the last selection exists, as `has(a.b)` does.
    pub(super) test_only: bool,
}

/// The operand that selections start from.
#[derive(Debug)]
pub(super) enum Root {
    /// A field of a lazy object, which the activation knows by the dotted name.
    LazyField(Arc<str>),
    /// The variable in a slot.
    Slot(usize),
    /// The value of any other node.
    Relative(Node),
    /// One of two attributes, by a condition.
    Conditional(Node, Box<Attribute>, Box<Attribute>),
}

/// One selection: `.field`, `[key]`, `.?field` or `[?key]`.
#[derive(Debug)]
pub(super) struct Qualifier {
    pub(super) key: QualifierKey,
    /// Whether a missing value gives an empty optional instead of an error.
    pub(super) optional: bool,
}

impl Qualifier {
    /// The field name of a selection `.field`; none for selections of other forms.
    #[inline]
    pub(super) fn field(&self) -> Option<&FieldName> {
        match (&self.key, self.optional) {
            (QualifierKey::Field(name), false) => Some(name),
            _ => None,
        }
    }
}

/// The key of a selection.
#[derive(Debug)]
pub(super) enum QualifierKey {
    /// A constant string.
    Field(FieldName),
    /// A constant of another type.
    Const(Val<'static>),
    Attribute(Attribute),
    Node(Node),
}

/// A call of a function.
#[derive(Debug)]
pub(super) struct CallNode {
    pub(super) function: SharedFunction,
    /// Indices of the overloads that the type checker left.
    pub(super) overloads: Vec<usize>,
    pub(super) args: Vec<Node>,
    /// Whether the first overload runs without a check of the arguments' types.
    pub(super) is_unguarded: bool,
}

/// A function of the environment, with a short `Debug` form.
pub(super) struct SharedFunction(pub(super) Arc<Function>);

impl std::fmt::Debug for SharedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.overloads.iter().map(|overload| &overload.id)).finish()
    }
}

/// The part that all comprehensions share: the range, and the slots of the one or two iteration variables.
#[derive(Debug)]
pub(super) struct Iteration {
    pub(super) range: Node,
    pub(super) var: usize,
    pub(super) var2: Option<usize>,
}

/// A comprehension of any form. The planner replaces the forms of most macros by the nodes below, which cost the same.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) iteration: Iteration,
    pub(super) accu: usize,
    pub(super) init: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
}

/// `all` or `exists`: a loop that ends at the first element for which the body has the decisive value.
#[derive(Debug)]
pub(super) struct Quantifier {
    pub(super) iteration: Iteration,
    pub(super) body: Node,
    /// False for `all`, true for `exists`.
    pub(super) decisive: bool,
}

/// `exists_one`: a loop that counts the elements for which the predicate is true.
#[derive(Debug)]
pub(super) struct ExistsOne {
    pub(super) iteration: Iteration,
    pub(super) predicate: Node,
}

/// `map`, `filter` or `transformList`: a loop that collects elements into a list.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) iteration: Iteration,
    /// The condition for adding an element; none adds all.
    pub(super) filter: Option<Node>,
    pub(super) element: Node,
    /// Cost of making a list of the element, before it is joined with the list that the loop collects.
    pub(super) list_cost: u64,
}
