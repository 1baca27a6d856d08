//! Checked expressions, and the programs made from them.

mod attribute;
mod comprehension;
mod eval;
mod node;
mod plan;
mod simplify;

use crate::ast::{Expr, ExprKind, Literal};
use crate::check::{CheckedTree, Reference};
use crate::cost::{CostEstimate, SizeProvider};
use crate::declarations::Declarations;
use crate::error::EvalError;
use crate::estimate::estimate;
use crate::parse::operator;
use crate::types::Type;
use crate::value::Val;
use node::Node;
use std::sync::Arc;

/// An expression that the parser and the type checker accepted.
#[derive(Clone)]
pub struct Checked {
    tree: CheckedTree,
    declarations: Arc<Declarations>,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checked").field("result_type", self.result_type()).finish_non_exhaustive()
    }
}

impl Checked {
    pub(crate) fn new(tree: CheckedTree, declarations: Arc<Declarations>) -> Self {
        Self { tree, declarations }
    }

    /// The type of the value.
    #[must_use]
    pub fn result_type(&self) -> &Type {
        self.tree.ty(&self.tree.ast.root)
    }

    /// Whether the expression mentions a variable of the environment.
    #[must_use]
    pub fn references(&self, variable: &str) -> bool {
        mentions(&self.tree, &self.tree.ast.root, variable)
    }

    /// Whether the expression selects a member of a variable: `variable.member`, `has(variable.member)`, `variable.?member`,
    /// `variable["member"]` or `variable[?"member"]`.
    #[must_use]
    pub fn selects(&self, variable: &str, member: &str) -> bool {
        selects(&self.tree.ast.root, variable, member)
    }

    /// The interval of costs of an evaluation, for values of the given sizes.
    #[must_use]
    pub fn estimate(&self, sizes: &dyn SizeProvider) -> CostEstimate {
        estimate(&self.tree, &self.declarations, sizes)
    }

    /// Plans the program that evaluates the expression. The planner evaluates constant parts.
    ///
    /// # Errors
    /// If a conversion of a constant fails, or if a constant pattern is not a regular expression.
    pub fn program(&self) -> Result<Program, EvalError> {
        plan::plan(&self.tree, &self.declarations, true)
    }

    /// The program with the general loop for every macro, to compare [`Self::program`] with.
    #[cfg(test)]
    pub(crate) fn general_program(&self) -> Result<Program, EvalError> {
        plan::plan(&self.tree, &self.declarations, false)
    }
}

/// Whether a node or one below it selects the member of the variable.
fn selects(expr: &Expr, variable: &str, member: &str) -> bool {
    let is_variable = |expr: &Expr| expr.ident().is_some_and(|name| name.trim_start_matches('.') == variable);
    let is_member = |expr: &Expr| matches!(expr.literal(), Some(Literal::String(text)) if **text == *member);
    let is_here = match &expr.kind {
        ExprKind::Select(select) => *select.field == *member && is_variable(&select.operand),
        ExprKind::Call(call) => match (&*call.function, &call.args[..]) {
            (operator::INDEX | operator::OPT_INDEX | operator::OPT_SELECT, [operand, key]) => {
                is_variable(operand) && is_member(key)
            }
            _ => false,
        },
        _ => false,
    };
    is_here || expr.children().into_iter().any(|child| selects(child, variable, member))
}

/// Whether a node mentions a variable of the environment. Variables of comprehensions hide those of the environment.
fn mentions(tree: &CheckedTree, expr: &Expr, variable: &str) -> bool {
    match &expr.kind {
        ExprKind::Ident(name) => {
            *tree.reference(expr) == Reference::Variable && name.trim_start_matches('.') == variable
        }
        ExprKind::Comprehension(c) => {
            let outside = mentions(tree, &c.range, variable) || mentions(tree, &c.init, variable);
            let hides = |name: &str| name == variable;
            let result = !hides(&c.accu) && mentions(tree, &c.result, variable);
            let hidden = hides(&c.accu) || hides(&c.var) || c.var2.as_deref().is_some_and(hides);
            let body = || mentions(tree, &c.condition, variable) || mentions(tree, &c.step, variable);
            outside || result || (!hidden && body())
        }
        _ => expr.children().into_iter().any(|child| mentions(tree, child, variable)),
    }
}

/// A planned expression, ready for evaluation. Threads may share a program and evaluate it at the same time.
#[derive(Debug)]
pub struct Program {
    root: Node,
    /// A slot for each variable: the name of a variable of the activation, none for a variable of a comprehension.
    variables: Box<[Option<Arc<str>>]>,
}

/// The values of variables during one evaluation.
pub trait Activation<'a> {
    /// The value of a variable; none if the activation has no such variable.
    ///
    /// An evaluation asks once for a variable that the expression mentions, and each time for a field of a lazy object.
    fn variable(&self, name: &str) -> Option<Result<Val<'a>, EvalError>>;
}

impl<'a> Activation<'a> for [(&str, Val<'a>)] {
    fn variable(&self, name: &str) -> Option<Result<Val<'a>, EvalError>> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| Ok(value.clone()))
    }
}

impl<'a, const N: usize> Activation<'a> for [(&str, Val<'a>); N] {
    fn variable(&self, name: &str) -> Option<Result<Val<'a>, EvalError>> {
        self.as_slice().variable(name)
    }
}

impl Program {
    /// Evaluates the program with the variables of an activation. Returns the value or the error, and the cost.
    ///
    /// The evaluation stops with [`EvalError::CostLimitExceeded`] when it has cost more than `limit`.
    pub fn eval<'a>(
        &'a self,
        activation: &(impl Activation<'a> + ?Sized),
        limit: u64,
    ) -> (Result<Val<'a>, EvalError>, u64) {
        self.eval_interruptible(activation, limit, &|| false)
    }

    /// Evaluates as [`eval`](Self::eval) does, and stops with [`EvalError::Interrupted`] when `interrupted` returns true.
    ///
    /// The evaluation asks every [`INTERRUPT_INTERVAL`](crate::limits::INTERRUPT_INTERVAL) turns of loops.
    pub fn eval_interruptible<'a>(
        &'a self,
        activation: &(impl Activation<'a> + ?Sized),
        limit: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> (Result<Val<'a>, EvalError>, u64) {
        let lookup = |name: &str| activation.variable(name);
        eval::run(&self.root, &self.variables, &lookup, limit, interrupted)
    }
}
