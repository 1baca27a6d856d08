//! Expressions of dynamic admission: match conditions of webhooks, and all expressions of
//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies. [`Environment`] compiles them, and
//! [`Evaluation`] evaluates them for one request. The caller acts on the results (deny, warn, patch,
//! `failurePolicy`).
//!
//! ```
//! use kstore_api::admission_expression::{Budget, Environment, Evaluation, Inputs, ResultType, Uses};
//! use serde_json::json;
//!
//! let mut environment = Environment::new(Uses { params: true, ..Uses::default() });
//! environment.declare("replicas", "object.spec.replicas")?;
//! let program = environment.compile("variables.replicas <= params.max", ResultType::Bool)?;
//!
//! let (object, params) = (json!({"spec": {"replicas": 5}}), json!({"max": 3}));
//! let inputs = Inputs { object: &object, params: &params, ..Inputs::default() };
//! let evaluation = Evaluation::new(&environment, inputs);
//! let mut budget = Budget::for_object();
//! assert_eq!(evaluation.is_true(&program, &mut budget), Ok(false));
//! # Ok::<(), kstore_api::admission_expression::CompileFailure>(())
//! ```

mod environment;
mod evaluation;
mod kind_types;
mod types;

pub use environment::{CompileFailure, Environment, Program, ResultType, Uses};
pub use evaluation::{Budget, Evaluation, EvaluationError, Inputs};
pub use kind_types::{KindSchema, KindTypes};

#[cfg(test)]
mod tests;
