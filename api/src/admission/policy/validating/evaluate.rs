//! [`Rules`]: compiled expressions of one validating policy, and their evaluation for one request and
//! parameter.

use crate::admission::conditions::{ConditionsOutcome, MatchConditions};
use crate::admission::policy::checks::{CheckError, CheckObserver};
use crate::admission::policy::request::VersionedRequest;
use crate::admission::webhook::FailurePolicy;
use crate::admission_expression::{
    Budget, CompileFailure, Environment, Evaluation, EvaluationError, Program, ResultType, Uses,
};
use crate::expression::authorizer::RequestAuthorizer;
use crate::expression::limits::{CALL_COST, MESSAGE_BYTES};
use crate::limits::POLICY_VARIABLES_MAX;
use crate::object::{list, text};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Verdict of one validation, with the duration of its evaluation.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
}

/// Verdict of one validation.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The validation is true.
    Admit,
    /// The validation failed, and the failure policy ignores that.
    AdmitFailed(CheckError),
    /// The validation is false, or failed with failure policy `Fail`.
    Deny {
        /// Message for the client.
        message: String,
        /// Reason of the refusal.
        reason: Arc<str>,
    },
}

/// Result of one audit annotation.
#[derive(Debug)]
pub(super) enum AnnotationResult {
    /// Value for the audit log.
    Publish {
        /// Key, without the policy's name.
        key: Arc<str>,
        /// Value, never empty.
        value: String,
    },
    /// The evaluation failed, and the failure policy is `Fail`.
    Failed {
        /// Reason of the failure.
        why: String,
        /// Duration of the evaluation.
        took: Duration,
    },
}

/// Results of one evaluation: a decision for each validation, and the audit annotations.
#[derive(Debug, Default)]
pub(super) struct PolicyEvaluation {
    pub(super) decisions: Vec<Decision>,
    pub(super) annotations: Vec<AnnotationResult>,
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

/// Compiled expressions of a policy.
#[derive(Debug)]
pub(super) struct Rules {
    environment: Environment,
    variables: usize,
    conditions: MatchConditions,
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
    failure_policy: FailurePolicy,
}

/// Error that aborts the evaluation of all validations.
struct AbortedEvaluation(String);

impl Rules {
    /// Whether expressions have been costly for one object so far; see [`Environment::is_costly`].
    pub(super) fn is_costly(&self) -> bool {
        self.environment.is_costly()
    }

    /// Compiles the `spec` of a stored policy. Expressions that do not compile fail at evaluation; validation
    /// refuses them.
    pub(super) fn read(spec: &Value) -> Self {
        let has_params = !spec["paramKind"].is_null();
        let mut environment = Environment::new(Uses::of_validating_policy(has_params));
        for variable in list(&spec["variables"]).iter().take(POLICY_VARIABLES_MAX) {
            // A variable that does not compile fails at its first use.
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
    ) -> PolicyEvaluation {
        if !self.conditions.is_empty() {
            match self.conditions.evaluate(request.condition_inputs(params, authorizer)) {
                ConditionsOutcome::Matched => {}
                ConditionsOutcome::Unmatched => return PolicyEvaluation::default(),
                ConditionsOutcome::Failed(why) => return self.aborted(AbortedEvaluation(why)),
            }
        }
        let evaluation = Evaluation::new(&self.environment, request.inputs(params, namespace, authorizer));
        let decisions = match self.decide(&evaluation, checks) {
            Ok(decisions) => decisions,
            Err(aborted) => return self.aborted(aborted),
        };
        match self.annotate(&evaluation, checks) {
            Ok(annotations) => PolicyEvaluation { decisions, annotations },
            Err(aborted) => self.aborted(aborted),
        }
    }

    fn aborted(&self, AbortedEvaluation(why): AbortedEvaluation) -> PolicyEvaluation {
        let decision = Decision { verdict: self.failed(why), took: Duration::ZERO };
        PolicyEvaluation { decisions: vec![decision], annotations: Vec::new() }
    }

    /// Verdict for a failed evaluation, by the failure policy.
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
    ) -> Result<Vec<Decision>, AbortedEvaluation> {
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
            (Ok(_), Err(AbortedEvaluation(why))) => self.failed(format!("failed messageExpression: {why}")),
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

    /// Evaluated messages; `None` where no message can be used. Kubernetes evaluates the messages of all
    /// validations. Messages of true validations matter only if they exhaust the budget, so they are skipped
    /// where they cannot.
    fn messages<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        results: &[Result<bool, String>],
        budget: &mut Budget,
    ) -> Result<Vec<Option<String>>, AbortedEvaluation> {
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
    ) -> Result<Vec<AnnotationResult>, AbortedEvaluation> {
        let (mut budget, mut annotations) = (Budget::for_object(), Vec::new());
        for annotation in &self.annotations {
            let began = checks.elapsed();
            match value(&annotation.program, |program| evaluation.text(program, &mut budget))? {
                Ok(None) => {}
                Ok(Some(value)) => match value.trim() {
                    "" => {}
                    value => {
                        annotations.push(AnnotationResult::Publish {
                            key: annotation.key.clone(),
                            value: value.to_owned(),
                        });
                    }
                },
                Err(why) if self.failure_policy == FailurePolicy::Fail => {
                    let took = checks.elapsed().saturating_sub(began);
                    annotations.push(AnnotationResult::Failed { why, took });
                }
                Err(_) => {}
            }
        }
        Ok(annotations)
    }
}

impl Validation {
    /// The message if no expression provides one.
    fn fixed_message(&self) -> String {
        match &*self.message {
            "" => format!("failed expression: {}", self.expression),
            message => message.to_owned(),
        }
    }
}

/// Value of a program, or the message of its failure. Only an exhausted budget aborts the evaluation.
fn value<'p, T>(
    program: &'p Result<Program, CompileFailure>,
    evaluate: impl FnOnce(&'p Program) -> Result<T, EvaluationError>,
) -> Result<Result<T, String>, AbortedEvaluation> {
    match program {
        Err(failure) => Ok(Err(format!("compilation error: {failure}"))),
        Ok(program) => match evaluate(program) {
            Ok(value) => Ok(Ok(value)),
            Err(error @ EvaluationError::OutOfBudget) => Err(AbortedEvaluation(error.to_string())),
            Err(error @ EvaluationError::Failed { .. }) => Ok(Err(error.to_string())),
        },
    }
}

/// A trimmed message; `None` if it is empty, too long or has several lines.
fn usable(message: &str) -> Option<String> {
    let message = message.trim();
    let is_usable = !message.is_empty() && message.len() <= MESSAGE_BYTES && !message.contains('\n');
    is_usable.then(|| message.to_owned())
}
