//! [`Evaluation`]: evaluates the expressions of one policy or webhook for one request. `environment` compiles
//! them.

use super::environment::{Environment, Program};
use super::types;
use crate::expression::authorizer::RequestAuthorizer;
use crate::expression::limits::{CALL_COST, COSTLY, MATCH_CONDITIONS_COST, OBJECT_COST};
use kstore_cel::{Activation, EvalError, Shape, Val};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Values of the variables of expressions. Absent values are null.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Value of `object`, in the version that the policy or webhook matches.
    pub object: &'a Value,
    /// Value of `oldObject`, in the same version.
    pub old_object: &'a Value,
    /// Value of `request`: the `request` of an AdmissionReview. Expressions cannot read its `object`,
    /// `oldObject` and `uid`, so they may be absent.
    pub request: &'a Value,
    /// Value of `params`: the parameter object.
    pub params: &'a Value,
    /// Value of `namespaceObject`: the Namespace.
    pub namespace: &'a Value,
    /// Value of `authorizer`; without one, expressions that use it fail.
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

/// Why an expression has no value. `Display` is Kubernetes' message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The evaluation failed. The failure policy decides about the request.
    #[error("expression '{expression}' resulted in error: {error}")]
    Failed {
        /// The text of the expression.
        expression: Arc<str>,
        /// Error of the evaluation.
        error: EvalError,
    },
    /// The [`Budget`] is exhausted. Evaluate no other expression with the same budget.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
}

/// Cost that a group of expressions may still spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    left: u64,
    spent: u64,
}

impl Budget {
    /// Budget for the expressions of one policy binding with one parameter object. Audit annotations have a
    /// separate one.
    #[must_use]
    pub const fn for_object() -> Self {
        Self { left: OBJECT_COST, spent: 0 }
    }

    /// Budget for the match conditions of one webhook or policy and one request.
    #[must_use]
    pub const fn for_match_conditions() -> Self {
        Self { left: MATCH_CONDITIONS_COST, spent: 0 }
    }

    /// Remaining cost.
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

/// Evaluation of programs of an [`Environment`] for one request; caches the values of declared variables.
/// Create a new one for each request and each parameter object.
#[derive(Debug)]
pub struct Evaluation<'a> {
    environment: &'a Environment,
    inputs: Inputs<'a>,
    /// Values of the declared variables evaluated so far, in order of declaration.
    variables: RefCell<Vec<Option<Result<Val<'a>, EvalError>>>>,
    /// Cost of the declared variables that the running program evaluated first.
    variables_cost: Cell<u64>,
}

impl<'a> Evaluation<'a> {
    /// An evaluation without cached variables.
    #[must_use]
    pub fn new(environment: &'a Environment, inputs: Inputs<'a>) -> Self {
        let variables = RefCell::new(vec![None; environment.variables.len()]);
        Self { environment, inputs, variables, variables_cost: Cell::new(0) }
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The evaluation fails, or the budget is exhausted.
    pub fn value(&self, program: &'a Program, budget: &mut Budget) -> Result<Val<'a>, EvaluationError> {
        let (value, cost) = program.program.eval(self, CALL_COST);
        let spent = budget.spend(self.variables_cost.replace(0)).and_then(|()| budget.spend(cost));
        if budget.spent >= COSTLY {
            self.environment.set_costly();
        }
        spent?;
        value.map_err(|error| EvaluationError::Failed { expression: program.text.clone(), error })
    }

    /// Evaluates a condition or validation, compiled with [`ResultType::Bool`].
    ///
    /// # Errors
    /// The evaluation fails, or the budget is exhausted.
    ///
    /// [`ResultType::Bool`]: super::ResultType::Bool
    pub fn is_true(&self, program: &'a Program, budget: &mut Budget) -> Result<bool, EvaluationError> {
        Ok(matches!(self.value(program, budget)?, Val::Bool(true)))
    }

    /// Evaluates a message or audit annotation, compiled with [`ResultType::String`] or
    /// [`ResultType::StringOrNull`]. `None` if the value is null.
    ///
    /// # Errors
    /// The evaluation fails, or the budget is exhausted.
    ///
    /// [`ResultType::String`]: super::ResultType::String
    /// [`ResultType::StringOrNull`]: super::ResultType::StringOrNull
    pub fn text(&self, program: &'a Program, budget: &mut Budget) -> Result<Option<String>, EvaluationError> {
        Ok(self.value(program, budget)?.as_str().map(str::to_owned))
    }

    /// Evaluates an expression to JSON: the object of an apply configuration, or the operations of a patch.
    ///
    /// # Errors
    /// The evaluation fails, the value is not JSON, or the budget is exhausted.
    pub fn json(&self, program: &'a Program, budget: &mut Budget) -> Result<Value, EvaluationError> {
        let value = self.value(program, budget)?;
        value.to_json().map_err(|error| EvaluationError::Failed { expression: program.text.clone(), error })
    }

    /// Value of a declared variable.
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
