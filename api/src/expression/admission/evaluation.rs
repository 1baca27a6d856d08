//! [`Evaluation`]: the expressions of one policy or webhook for one request. Compiling them is `environment`'s.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use kstore_cel::{Activation, EvalError, Shape, Val};
use serde_json::Value;

use super::environment::{Environment, Program};
use super::types;
use crate::expression::authorizer::RequestAuthorizer;
use crate::expression::limits::{CALL_COST, COSTLY, MATCH_CONDITIONS_COST, OBJECT_COST};

/// The values of the variables of expressions. What is absent is null.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// `object`, in the version that the policy or webhook matches.
    pub object: &'a Value,
    /// `oldObject`, likewise.
    pub old_object: &'a Value,
    /// `request`: the `request` of an AdmissionReview. Its `object`, `oldObject` and `uid` are invisible, so they may be absent.
    pub request: &'a Value,
    /// `params`: the whole parameter object.
    pub params: &'a Value,
    /// `namespaceObject`: the whole Namespace.
    pub namespace: &'a Value,
    /// `authorizer`; without one, expressions that read it fail.
    pub authorizer: Option<RequestAuthorizer>,
}

static NULL: Value = Value::Null;

impl Default for Inputs<'_> {
    fn default() -> Self {
        Self {
            object: &NULL,
            old_object: &NULL,
            request: &NULL,
            params: &NULL,
            namespace: &NULL,
            authorizer: None,
        }
    }
}

/// Why an expression has no value; displayed, the text that Kubernetes answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The evaluation failed. The failure policy decides what follows.
    #[error("expression '{expression}' resulted in error: {error}")]
    Failed {
        /// The text of the expression.
        expression: Arc<str>,
        /// What failed.
        error: EvalError,
    },
    /// The [`Budget`] is spent. Run no other expression of the same budget.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
}

/// The cost that expressions may still spend together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    left: u64,
    spent: u64,
}

impl Budget {
    /// For the expressions of one binding of a policy with one parameter object. Audit annotations have another one of their own.
    #[must_use]
    pub const fn for_object() -> Self {
        Self { left: OBJECT_COST, spent: 0 }
    }

    /// For the match conditions of one webhook or policy and one request.
    #[must_use]
    pub const fn for_match_conditions() -> Self {
        Self { left: MATCH_CONDITIONS_COST, spent: 0 }
    }

    /// The cost that is left.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    fn spend(&mut self, cost: u64) -> Result<(), EvaluationError> {
        self.spent = self.spent.saturating_add(cost);
        let left = self.left.checked_sub(cost);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(EvaluationError::OutOfBudget)
    }
}

/// Runs the programs of an [`Environment`] for one request, and remembers the values of declared variables meanwhile. Make a new one
/// for each request, and for each parameter object.
#[derive(Debug)]
pub struct Evaluation<'a> {
    environment: &'a Environment,
    inputs: Inputs<'a>,
    /// The values of declared variables that were read, in the order of declaration.
    variables: RefCell<Vec<Option<Result<Val<'a>, EvalError>>>>,
    /// The cost of declared variables that the program that runs has read first.
    variables_cost: Cell<u64>,
}

impl<'a> Evaluation<'a> {
    /// An evaluation in which no variable was read yet.
    #[must_use]
    pub fn new(environment: &'a Environment, inputs: Inputs<'a>) -> Self {
        let variables = RefCell::new(vec![None; environment.variables.len()]);
        Self { environment, inputs, variables, variables_cost: Cell::new(0) }
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// The expression has no value, or the budget is spent.
    pub fn value(&self, program: &'a Program, budget: &mut Budget) -> Result<Val<'a>, EvaluationError> {
        let (value, cost) = program.program.eval(self, CALL_COST);
        let spent = budget.spend(self.variables_cost.replace(0)).and_then(|()| budget.spend(cost));
        if budget.spent >= COSTLY {
            self.environment.set_costly();
        }
        spent?;
        value.map_err(|error| EvaluationError::Failed { expression: program.text.clone(), error })
    }

    /// Whether a condition or validation is true. Of a program compiled as [`ResultType::Bool`].
    ///
    /// # Errors
    /// The expression has no value, or the budget is spent.
    ///
    /// [`ResultType::Bool`]: super::ResultType::Bool
    pub fn is_true(&self, program: &'a Program, budget: &mut Budget) -> Result<bool, EvaluationError> {
        Ok(matches!(self.value(program, budget)?, Val::Bool(true)))
    }

    /// The text of a message or audit annotation; none if it is null. Of a program compiled as [`ResultType::String`] or
    /// [`ResultType::StringOrNull`].
    ///
    /// # Errors
    /// The expression has no value, or the budget is spent.
    ///
    /// [`ResultType::String`]: super::ResultType::String
    /// [`ResultType::StringOrNull`]: super::ResultType::StringOrNull
    pub fn text(&self, program: &'a Program, budget: &mut Budget) -> Result<Option<String>, EvaluationError> {
        Ok(self.value(program, budget)?.as_str().map(str::to_owned))
    }

    /// The value of an expression as JSON: the object of an apply configuration, or the operations of a patch.
    ///
    /// # Errors
    /// The expression has no value or none that is JSON, or the budget is spent.
    pub fn json(&self, program: &'a Program, budget: &mut Budget) -> Result<Value, EvaluationError> {
        let value = self.value(program, budget)?;
        value.to_json().map_err(|error| EvaluationError::Failed { expression: program.text.clone(), error })
    }

    /// The value of a declared variable.
    fn declared(&self, key: &str) -> Option<Result<Val<'a>, EvalError>> {
        let environment = self.environment;
        let at = environment.variables.iter().position(|variable| &*variable.key == key)?;
        if let Some(known) = self.variables.borrow().get(at).cloned().flatten() {
            return Some(known);
        }
        let variable = &environment.variables[at];
        let name = &variable.name;
        let value = match &variable.program {
            Err(failure) => {
                Err(EvalError::other(format!("composited variable \"{name}\" fails to compile: {failure}")))
            }
            Ok(program) => {
                let (value, cost) = program.program.eval(self, CALL_COST);
                self.variables_cost.set(self.variables_cost.get().saturating_add(cost));
                value.map_err(|error| {
                    EvalError::other(format!("composited variable \"{name}\" fails to evaluate: {error}"))
                })
            }
        };
        if let Some(slot) = self.variables.borrow_mut().get_mut(at) {
            *slot = Some(value.clone());
        }
        Some(value)
    }
}

impl<'a> Activation<'a> for Evaluation<'a> {
    fn variable(&self, name: &str) -> Option<Result<Val<'a>, EvalError>> {
        let inputs = &self.inputs;
        let dynamic = |json: &'a Value| Some(Shape::Dyn.value(json));
        match name {
            "object" => dynamic(inputs.object),
            "oldObject" => dynamic(inputs.old_object),
            "params" => dynamic(inputs.params),
            "request" => Some(types::request().value(inputs.request)),
            "namespaceObject" => Some(types::namespace().value(inputs.namespace)),
            "authorizer" => inputs.authorizer.as_ref().map(|authorizer| Ok(authorizer.as_value())),
            "authorizer.requestResource" => {
                inputs.authorizer.as_ref().map(|authorizer| Ok(authorizer.request_resource(inputs.request)))
            }
            declared => self.declared(declared),
        }
    }
}
