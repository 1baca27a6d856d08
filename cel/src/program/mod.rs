//! Checked expressions, and the programs that evaluate them.

mod attribute;
mod eval;
mod node;
mod plan;

pub(crate) use eval::insert_new;

use crate::ast::{Expr, ExprKind};
use crate::check::{Reference, Tree};
use crate::cost::estimate::estimate;
use crate::cost::{CostEstimate, SizeProvider};
use crate::env::Declarations;
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Val;
use node::Node;
use std::sync::Arc;

/// An expression whose syntax and types are right.
#[derive(Clone)]
pub struct Checked {
    tree: Tree,
    declarations: Arc<Declarations>,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checked").field("result_type", self.result_type()).finish_non_exhaustive()
    }
}

impl Checked {
    pub(crate) fn new(tree: Tree, declarations: Arc<Declarations>) -> Self {
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

    /// How much an evaluation may cost, given how large the values of variables may be.
    #[must_use]
    pub fn estimate(&self, sizes: &dyn SizeProvider) -> CostEstimate {
        estimate(&self.tree, &self.declarations, sizes)
    }

    /// The program that evaluates the expression. Constant parts are evaluated now.
    ///
    /// # Errors
    /// If a conversion of a constant fails, or if a constant pattern is no regular expression.
    pub fn program(&self) -> Result<Program, EvalError> {
        let (root, slots) = plan::plan(&self.tree, &self.declarations)?;
        Ok(Program { root, slots })
    }
}

/// Whether a node mentions a variable that no comprehension around the mention declares.
fn mentions(tree: &Tree, expr: &Expr, variable: &str) -> bool {
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

/// A program: any number of threads may evaluate it at the same time.
#[derive(Debug)]
pub struct Program {
    root: Node,
    slots: usize,
}

/// The values of variables during one evaluation.
pub trait Activation<'a> {
    /// The value of a variable; none if there is none. An expression may ask for the same variable more than once.
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
    /// Evaluates with variables; stops once more than `limit` is spent. Returns the value and the cost.
    pub fn eval<'a>(
        &'a self,
        activation: &(impl Activation<'a> + ?Sized),
        limit: u64,
    ) -> (Result<Val<'a>, EvalError>, u64) {
        self.eval_interruptible(activation, limit, &|| false)
    }

    /// Evaluates as [`eval`](Self::eval) does; loops ask `interrupted` now and then and end if it says so.
    pub fn eval_interruptible<'a>(
        &'a self,
        activation: &(impl Activation<'a> + ?Sized),
        limit: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> (Result<Val<'a>, EvalError>, u64) {
        let lookup = |name: &str| activation.variable(name);
        eval::run(&self.root, self.slots, &lookup, limit, interrupted)
    }
}
