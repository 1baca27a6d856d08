//! The syntax tree of an expression, with macros expanded into comprehensions.

use std::sync::Arc;

/// The number of a node in its tree. Tables by this number hold positions, types and overloads.
pub(crate) type ExprId = u32;

/// A node of the tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    pub(crate) id: ExprId,
    pub(crate) kind: ExprKind,
}

/// The construct that a node stands for, with its operands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExprKind {
    /// A syntax error. The type checker never gets a tree with this node.
    Error,
    Literal(Literal),
    Ident(Arc<str>),
    Select(Box<Select>),
    Call(Box<Call>),
    List(ListLiteral),
    Map(Vec<MapEntry>),
    Struct(Box<StructLiteral>),
    Comprehension(Box<Comprehension>),
}

/// A constant as the expression spells it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// A field selection `operand.field`, or the presence test `has(operand.field)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Select {
    pub(crate) operand: Expr,
    pub(crate) field: Arc<str>,
    pub(crate) test_only: bool,
}

/// A call of a function, a method or an operator.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) target: Option<Expr>,
    pub(crate) function: Arc<str>,
    pub(crate) args: Vec<Expr>,
}

/// A list literal such as `[a, ?b]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ListLiteral {
    pub(crate) elements: Vec<Expr>,
    /// Whether each element is marked optional, and left out of the list if it has no value.
    pub(crate) optional: Vec<bool>,
}

/// One entry of a map literal such as `{k: v, ?k: v}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) id: ExprId,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// An object literal such as `Type{field: value}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StructLiteral {
    pub(crate) type_name: Arc<str>,
    pub(crate) fields: Vec<FieldInit>,
}

/// One field of an object literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldInit {
    pub(crate) id: ExprId,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A comprehension, the expansion of a macro: a loop over a list or map that computes one accumulator.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) var: Arc<str>,
    pub(crate) var2: Option<Arc<str>>,
    pub(crate) accu: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// The literal, if the node is one.
    pub(crate) fn literal(&self) -> Option<&Literal> {
        if let ExprKind::Literal(literal) = &self.kind { Some(literal) } else { None }
    }

    /// The name, if the node is an identifier.
    pub(crate) fn ident(&self) -> Option<&Arc<str>> {
        if let ExprKind::Ident(name) = &self.kind { Some(name) } else { None }
    }

    /// The dotted name `a.b.c` of a node that consists of an identifier and selections only.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select(select) if !select.test_only => {
                Some(format!("{}.{}", select.operand.qualified_name()?, select.field))
            }
            _ => None,
        }
    }

    /// The operands of the node, in the order of the text.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Error | ExprKind::Literal(_) | ExprKind::Ident(_) => Vec::new(),
            ExprKind::Select(select) => vec![&select.operand],
            ExprKind::Call(call) => call.target.iter().chain(&call.args).collect(),
            ExprKind::List(list) => list.elements.iter().collect(),
            ExprKind::Map(entries) => entries.iter().flat_map(|e| [&e.key, &e.value]).collect(),
            ExprKind::Struct(literal) => literal.fields.iter().map(|field| &field.value).collect(),
            ExprKind::Comprehension(c) => vec![&c.range, &c.init, &c.condition, &c.step, &c.result],
        }
    }

    /// The rest of a budget of nodes after this tree; none if the tree has more nodes than the budget.
    pub(crate) fn count(&self, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        self.children().into_iter().try_fold(left, |left, child| child.count(left))
    }

    /// A copy of the tree whose nodes have the numbers that `next` gives.
    pub(crate) fn renumbered(&self, next: &mut dyn FnMut(ExprId) -> ExprId) -> Expr {
        let mut copy = self.clone();
        copy.renumber(next);
        copy
    }

    fn renumber(&mut self, next: &mut dyn FnMut(ExprId) -> ExprId) {
        self.id = next(self.id);
        match &mut self.kind {
            ExprKind::Error | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select(select) => select.operand.renumber(next),
            ExprKind::Call(call) => {
                call.target.iter_mut().chain(&mut call.args).for_each(|part| part.renumber(next));
            }
            ExprKind::List(list) => list.elements.iter_mut().for_each(|part| part.renumber(next)),
            ExprKind::Map(entries) => entries.iter_mut().for_each(|entry| {
                entry.id = next(entry.id);
                entry.key.renumber(next);
                entry.value.renumber(next);
            }),
            ExprKind::Struct(literal) => literal.fields.iter_mut().for_each(|field| {
                field.id = next(field.id);
                field.value.renumber(next);
            }),
            ExprKind::Comprehension(c) => {
                for part in [&mut c.range, &mut c.init, &mut c.condition, &mut c.step, &mut c.result] {
                    part.renumber(next);
                }
            }
        }
    }
}

/// A parsed expression: the tree and the offset of each node in the text.
#[derive(Debug, Clone)]
pub(crate) struct Ast {
    pub(crate) root: Expr,
    /// Offset in code points by node number.
    pub(crate) offsets: Vec<u32>,
}

impl Ast {
    pub(crate) fn offset(&self, id: ExprId) -> u32 {
        self.offsets.get(id as usize).copied().unwrap_or(crate::source::NOWHERE)
    }
}
