//! The builder of syntax trees: numbers nodes and records their positions.

use crate::ast::{Ast, Call, Comprehension, Expr, ExprId, ExprKind, ListLiteral, Literal, Select};
use crate::limits::NODES;
use std::sync::Arc;

/// Names of operators as functions.
pub(crate) mod operator {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPT_INDEX: &str = "_[?_]";
    pub(crate) const OPT_SELECT: &str = "_?._";
    pub(crate) const IN: &str = "@in";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
    pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
}

/// The name of the accumulator in expansions of macros. No identifier in a text can be equal to it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// Makes the nodes of a tree and records their offsets in the text.
#[derive(Debug, Default)]
pub(super) struct Builder {
    offsets: Vec<u32>,
}

impl Builder {
    pub(super) fn id(&mut self, offset: u32) -> ExprId {
        self.offsets.push(offset);
        (self.offsets.len() - 1) as ExprId
    }

    pub(super) fn offset(&self, id: ExprId) -> u32 {
        self.offsets[id as usize]
    }

    pub(super) fn finish(self, root: Expr) -> Ast {
        Ast { root, offsets: self.offsets }
    }

    pub(super) fn node(&mut self, offset: u32, kind: ExprKind) -> Expr {
        Expr { id: self.id(offset), kind }
    }

    pub(super) fn error(&mut self, offset: u32) -> Expr {
        self.node(offset, ExprKind::Error)
    }

    pub(super) fn literal(&mut self, offset: u32, literal: Literal) -> Expr {
        self.node(offset, ExprKind::Literal(literal))
    }

    pub(super) fn ident(&mut self, offset: u32, name: &str) -> Expr {
        self.node(offset, ExprKind::Ident(Arc::from(name)))
    }

    pub(super) fn accumulator(&mut self, offset: u32) -> Expr {
        self.ident(offset, ACCUMULATOR)
    }

    pub(super) fn list(&mut self, offset: u32, elements: Vec<Expr>) -> Expr {
        let optional = vec![false; elements.len()];
        self.node(offset, ExprKind::List(ListLiteral { elements, optional }))
    }

    pub(super) fn select(&mut self, offset: u32, operand: Expr, field: Arc<str>, test_only: bool) -> Expr {
        self.node(offset, ExprKind::Select(Box::new(Select { operand, field, test_only })))
    }

    pub(super) fn call(&mut self, offset: u32, function: &str, args: Vec<Expr>) -> Expr {
        let call = Call { target: None, function: Arc::from(function), args };
        self.node(offset, ExprKind::Call(Box::new(call)))
    }

    pub(super) fn member_call(&mut self, offset: u32, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        let call = Call { target: Some(target), function: Arc::from(function), args };
        self.node(offset, ExprKind::Call(Box::new(call)))
    }

    pub(super) fn comprehension(&mut self, offset: u32, comprehension: Comprehension) -> Expr {
        self.node(offset, ExprKind::Comprehension(Box::new(comprehension)))
    }

    /// A copy of the tree with new node numbers; none if the copy would exceed the limit of nodes.
    pub(super) fn copy(&mut self, expr: &Expr) -> Option<Expr> {
        expr.count(NODES.saturating_sub(self.offsets.len()))?;
        Some(expr.renumbered(&mut |id| {
            let offset = self.offset(id);
            self.id(offset)
        }))
    }
}

/// Joins terms by a logical operator into a balanced tree; `offsets` are those of the operators.
pub(super) fn balanced(builder: &mut Builder, function: &str, terms: Vec<Expr>, offsets: &[u32]) -> Expr {
    let mut terms: Vec<_> = terms.into_iter().map(Some).collect();
    if offsets.is_empty() {
        return terms[0].take().expect("an expression has a term");
    }
    join(builder, function, &mut terms, offsets, 0, offsets.len() - 1)
}

fn join(
    builder: &mut Builder,
    function: &str,
    terms: &mut [Option<Expr>],
    offsets: &[u32],
    low: usize,
    high: usize,
) -> Expr {
    let middle = (low + high).div_ceil(2);
    let mut take = |at: usize| terms[at].take().expect("every term is used once");
    let left =
        if middle == low { take(middle) } else { join(builder, function, terms, offsets, low, middle - 1) };
    let mut take = |at: usize| terms[at].take().expect("every term is used once");
    let right = if middle == high {
        take(middle + 1)
    } else {
        join(builder, function, terms, offsets, middle + 1, high)
    };
    builder.call(offsets[middle], function, vec![left, right])
}
