//! [`Rules`]: the expressions of one validating policy, compiled, and what they say about one request with one parameter.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::admission::conditions::{ConditionsOutcome, MatchConditions};
use crate::admission::policy::checks::{CheckError, CheckObserver};
use crate::admission::policy::request::VersionedRequest;
use crate::admission::webhook::FailurePolicy;
use crate::expression::admission::{
    Budget, CompileFailure, Environment, Evaluation, EvaluationError, Program, ResultType, Uses,
};
use crate::expression::authorizer::RequestAuthorizer;
use crate::expression::limits::{CALL_COST, MESSAGE_BYTES};
use crate::limits::POLICY_VARIABLES_MAX;
use crate::object::{list, text};

/// The variables of all expressions of validating policies but match conditions. Messages see no authorizer, which is checked when a policy
/// is written.
pub(crate) const fn uses(params: bool) -> Uses {
    Uses { params, authorizer: true, namespace: true, variables: true, patch_types: false }
}

/// What one validation says, and how long that took.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
}

/// What one validation says.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The request may pass.
    Admit,
    /// It may pass because the policy passes over failures.
    AdmitFailed(CheckError),
    /// It may not.
    Deny {
        /// Why, for people.
        message: String,
        /// Why, for programs.
        reason: Arc<str>,
    },
}

/// What one audit annotation says.
#[derive(Debug)]
pub(super) enum Note {
    /// A value for the audit log.
    Publish {
        /// Key, without the name of the policy.
        key: Arc<str>,
        /// Value, not empty.
        value: String,
    },
    /// There is no value, and failures refuse the request.
    Failed {
        /// The reason, for people.
        why: String,
        /// How long the expression took.
        took: Duration,
    },
}

/// The decisions of one evaluation, one for each validation, and its notes.
#[derive(Debug, Default)]
pub(super) struct Evaluated {
    pub(super) decisions: Vec<Decision>,
    pub(super) notes: Vec<Note>,
}

#[derive(Debug)]
struct Validation {
    expression: Box<str>,
    program: Result<Program, CompileFailure>,
    message: Box<str>,
    message_program: Option<Result<Program, CompileFailure>>,
    reason: Arc<str>,
}

#[derive(Debug)]
struct Annotation {
    key: Arc<str>,
    program: Result<Program, CompileFailure>,
}

/// All expressions of a policy.
#[derive(Debug)]
pub(super) struct Rules {
    environment: Environment,
    variables: usize,
    conditions: MatchConditions,
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
    failure_policy: FailurePolicy,
}

/// Why there is no decision of the validations: the whole evaluation counts as one.
struct Aborted(String);

impl Rules {
    /// See [`Environment::is_costly`].
    pub(super) fn is_costly(&self) -> bool {
        self.environment.is_costly()
    }

    /// Compiles the `spec` of a stored policy. What does not compile, which validation refuses, fails when it is evaluated.
    pub(super) fn read(spec: &Value) -> Self {
        let has_params = !spec["paramKind"].is_null();
        let mut environment = Environment::new(uses(has_params));
        for variable in list(&spec["variables"]).iter().take(POLICY_VARIABLES_MAX) {
            // A variable that does not compile fails when it is read.
            let _ = environment.declare(text(&variable["name"]), text(&variable["expression"])).is_ok();
        }
        let validation = |validation: &Value| Validation {
            expression: text(&validation["expression"]).trim().into(),
            program: environment.compile(text(&validation["expression"]), ResultType::Bool),
            message: text(&validation["message"]).trim().into(),
            message_program: Some(text(&validation["messageExpression"]))
                .filter(|expression| !expression.trim().is_empty())
                .map(|expression| environment.compile(expression, ResultType::String)),
            reason: validation["reason"].as_str().unwrap_or("Invalid").into(),
        };
        let annotation = |annotation: &Value| Annotation {
            key: text(&annotation["key"]).into(),
            program: environment.compile(text(&annotation["valueExpression"]), ResultType::StringOrNull),
        };
        Self {
            variables: list(&spec["variables"]).len(),
            conditions: MatchConditions::read(spec, has_params),
            validations: list(&spec["validations"]).iter().map(validation).collect(),
            annotations: list(&spec["auditAnnotations"]).iter().map(annotation).collect(),
            failure_policy: FailurePolicy::read(&spec["failurePolicy"]),
            environment,
        }
    }

    /// Evaluates the policy for one parameter.
    pub(super) fn evaluate(
        &self,
        request: &VersionedRequest<'_>,
        params: &Value,
        namespace: &Value,
        authorizer: Option<&RequestAuthorizer>,
        checks: &dyn CheckObserver,
    ) -> Evaluated {
        if !self.conditions.is_empty() {
            match self.conditions.evaluate(request.condition_inputs(params, authorizer)) {
                ConditionsOutcome::Matched => {}
                ConditionsOutcome::Unmatched => return Evaluated::default(),
                ConditionsOutcome::Failed(why) => return self.aborted(Aborted(why)),
            }
        }
        let evaluation = Evaluation::new(&self.environment, request.inputs(params, namespace, authorizer));
        let decisions = match self.decide(&evaluation, checks) {
            Ok(decisions) => decisions,
            Err(aborted) => return self.aborted(aborted),
        };
        match self.annotate(&evaluation, checks) {
            Ok(notes) => Evaluated { decisions, notes },
            Err(aborted) => self.aborted(aborted),
        }
    }

    fn aborted(&self, Aborted(why): Aborted) -> Evaluated {
        let decision = Decision { verdict: self.failed(why), took: Duration::ZERO };
        Evaluated { decisions: vec![decision], notes: Vec::new() }
    }

    /// The verdict where an expression has no value.
    fn failed(&self, message: String) -> Verdict {
        match self.failure_policy {
            FailurePolicy::Fail => Verdict::Deny { message, reason: "Invalid".into() },
            FailurePolicy::Ignore => Verdict::AdmitFailed(CheckError::of_message(&message)),
        }
    }

    fn decide<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        checks: &dyn CheckObserver,
    ) -> Result<Vec<Decision>, Aborted> {
        let mut budget = Budget::for_object();
        let mut results = Vec::with_capacity(self.validations.len());
        let mut times = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let began = checks.elapsed();
            results.push(value(&validation.program, |program| evaluation.is_true(program, &mut budget))?);
            times.push(checks.elapsed().saturating_sub(began));
        }
        let messages = self.messages(evaluation, &results, &mut budget);
        let decide = |(index, result): (usize, Result<bool, String>)| match (result, &messages) {
            (Err(failure), _) => self.failed(failure),
            (Ok(_), Err(Aborted(why))) => self.failed(format!("failed messageExpression: {why}")),
            (Ok(true), Ok(_)) => Verdict::Admit,
            (Ok(false), Ok(messages)) => {
                let validation = &self.validations[index];
                let message = messages[index].clone().unwrap_or_else(|| validation.fixed_message());
                Verdict::Deny { message, reason: validation.reason.clone() }
            }
        };
        let verdicts = results.into_iter().enumerate().map(decide);
        Ok(verdicts.zip(times).map(|(verdict, took)| Decision { verdict, took }).collect())
    }

    /// The evaluated messages; `None` where there is none to be used. Upstream evaluates the messages of all validations. Those of passed
    /// ones can only matter by exhausting the budget, so they are left out where they cannot.
    fn messages<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        results: &[Result<bool, String>],
        budget: &mut Budget,
    ) -> Result<Vec<Option<String>>, Aborted> {
        let calls = self.validations.len().saturating_add(self.variables);
        let could_exhaust =
            u64::try_from(calls).unwrap_or(u64::MAX).saturating_mul(CALL_COST) > budget.left();
        let mut messages = Vec::with_capacity(results.len());
        for (validation, result) in self.validations.iter().zip(results) {
            let program =
                validation.message_program.as_ref().filter(|_| could_exhaust || *result == Ok(false));
            let message = match program {
                Some(program) => value(program, |program| evaluation.text(program, budget))?.ok().flatten(),
                None => None,
            };
            messages.push(message.and_then(|message| usable(&message)));
        }
        Ok(messages)
    }

    fn annotate<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        checks: &dyn CheckObserver,
    ) -> Result<Vec<Note>, Aborted> {
        let (mut budget, mut notes) = (Budget::for_object(), Vec::new());
        for annotation in &self.annotations {
            let began = checks.elapsed();
            match value(&annotation.program, |program| evaluation.text(program, &mut budget))? {
                Ok(None) => {}
                Ok(Some(value)) => match value.trim() {
                    "" => {}
                    value => {
                        notes.push(Note::Publish { key: annotation.key.clone(), value: value.to_owned() });
                    }
                },
                Err(why) if self.failure_policy == FailurePolicy::Fail => {
                    let took = checks.elapsed().saturating_sub(began);
                    notes.push(Note::Failed { why, took });
                }
                Err(_) => {}
            }
        }
        Ok(notes)
    }
}

impl Validation {
    /// The message where no expression makes one.
    fn fixed_message(&self) -> String {
        match &*self.message {
            "" => format!("failed expression: {}", self.expression),
            message => message.to_owned(),
        }
    }
}

/// The value of a program, or the text of its failure; only a spent budget ends the evaluation.
fn value<'p, T>(
    program: &'p Result<Program, CompileFailure>,
    evaluate: impl FnOnce(&'p Program) -> Result<T, EvaluationError>,
) -> Result<Result<T, String>, Aborted> {
    match program {
        Err(failure) => Ok(Err(format!("compilation error: {failure}"))),
        Ok(program) => match evaluate(program) {
            Ok(value) => Ok(Ok(value)),
            Err(error @ EvaluationError::OutOfBudget) => Err(Aborted(error.to_string())),
            Err(error @ EvaluationError::Failed { .. }) => Ok(Err(error.to_string())),
        },
    }
}

/// An evaluated message without white space around it; none if it is empty, too long or has several lines.
fn usable(message: &str) -> Option<String> {
    let message = message.trim();
    let is_usable = !message.is_empty() && message.len() <= MESSAGE_BYTES && !message.contains('\n');
    is_usable.then(|| message.to_owned())
}
