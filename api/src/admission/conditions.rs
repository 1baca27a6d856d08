//! [`MatchConditions`]: compiled `matchConditions` of a webhook or policy.

use super::webhook::FailurePolicy;
use crate::admission_expression::{
    Budget, CompileFailure, Environment, Evaluation, EvaluationError, Inputs, Program, ResultType, Uses,
};
use crate::object::{list, text};
use serde_json::Value;

/// Result of match conditions for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConditionsOutcome {
    /// All conditions are true.
    Matched,
    /// A condition is false, or one failed and failures are ignored: the webhook or policy is skipped.
    Unmatched,
    /// The request must be refused with this message.
    Failed(String),
}

/// Compiled match conditions. A condition that does not compile fails at evaluation; validation refuses such
/// conditions.
#[derive(Debug)]
pub(super) struct MatchConditions {
    environment: Environment,
    programs: Vec<Result<Program, CompileFailure>>,
    failure_policy: FailurePolicy,
}

impl MatchConditions {
    /// Compiles the `matchConditions` of a stored webhook or policy `spec`. `params`: whether the expressions
    /// may use `params`.
    #[must_use]
    pub(super) fn read(owner: &Value, params: bool) -> Self {
        let environment = Environment::new(Uses::of_match_conditions(params));
        let compile =
            |condition: &Value| environment.compile(text(&condition["expression"]), ResultType::Bool);
        let programs = list(&owner["matchConditions"]).iter().map(compile).collect();
        Self { environment, programs, failure_policy: FailurePolicy::read(&owner["failurePolicy"]) }
    }

    /// Whether there are no conditions.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Evaluates all conditions with a separate budget.
    #[must_use]
    pub(super) fn evaluate(&self, inputs: Inputs<'_>) -> ConditionsOutcome {
        let evaluation = Evaluation::new(&self.environment, inputs);
        let (mut budget, mut failures, mut is_false) = (Budget::for_match_conditions(), Vec::new(), false);
        for program in &self.programs {
            let result = match program {
                Ok(program) => evaluation.is_true(program, &mut budget),
                Err(failure) => {
                    failures.push(format!("compilation error: {failure}"));
                    continue;
                }
            };
            match result {
                Ok(matches) => is_false |= !matches,
                // The failure policy does not matter here: the results of the other conditions are unknown,
                // as in Kubernetes.
                Err(error @ EvaluationError::OutOfBudget) => {
                    return ConditionsOutcome::Failed(error.to_string());
                }
                Err(error @ EvaluationError::Failed { .. }) => failures.push(error.to_string()),
            }
        }
        if is_false {
            return ConditionsOutcome::Unmatched;
        }
        match (&failures[..], self.failure_policy) {
            ([], _) => ConditionsOutcome::Matched,
            (_, FailurePolicy::Ignore) => ConditionsOutcome::Unmatched,
            (_, FailurePolicy::Fail) => ConditionsOutcome::Failed(aggregate(failures)),
        }
    }
}

/// Combines errors into one message: a single error, or `[a, b]` without duplicates.
fn aggregate(failures: Vec<String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for failure in failures {
        if !distinct.contains(&failure) {
            distinct.push(failure);
        }
    }
    match &distinct[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
