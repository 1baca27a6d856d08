//! ValidatingAdmissionPolicy: [`ValidatingPolicies`] are all validating policies of a server at one moment.
//! Matching policies are evaluated for a request once for every binding and parameter.

mod evaluate;

use self::evaluate::{AnnotationResult, PolicyEvaluation, Rules, Verdict};
use super::Outcome;
use super::binding::{Action, Binding};
use super::checks::{CheckError, CheckObserver, Enforcement, PolicyCheck};
use super::params::{self, ParamKind};
use super::request::PolicyRequest;
use crate::admission::attributes::Operation;
use crate::admission::candidates::CandidateIndex;
use crate::admission::manifests::Manifests;
use crate::admission::review::AuditAnnotation;
use crate::admission::selection::Selection;
use crate::admission::webhook::FailurePolicy;
use crate::limits::{AUDIT_VALUE_MAX, POLICY_WARNINGS_MAX};
use crate::meta;
use crate::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Key of the audit annotation for failed validations with the action `Audit`.
const FAILURE_KEY: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Compiled policy with its bindings.
#[derive(Debug)]
struct Policy {
    name: Arc<str>,
    /// Whether it comes from a file.
    is_static: bool,
    selection: Selection,
    param_kind: Option<ParamKind>,
    failure_policy: FailurePolicy,
    rules: Rules,
    bindings: Vec<Binding>,
}

/// All validating policies that have bindings, sorted by name. Immutable; a change of a policy or binding
/// makes a new set.
#[derive(Debug, Default)]
pub struct ValidatingPolicies {
    policies: Vec<Policy>,
    candidates: CandidateIndex,
}

/// Refusal without its final text; the first one becomes the response.
struct Denial {
    message: String,
    reason: String,
}

/// Results of the policies so far.
#[derive(Default)]
struct Findings {
    denial: Option<Denial>,
    outcome: Outcome,
}

impl ValidatingPolicies {
    /// Compiles stored policies and bindings.
    #[must_use]
    pub fn new<'o>(
        policies: impl IntoIterator<Item = &'o Value>,
        bindings: impl IntoIterator<Item = &'o Value>,
    ) -> Self {
        Self::with_static(&Manifests::default(), policies, bindings)
    }

    /// The same with policies and bindings from files, which come before stored ones.
    #[must_use]
    pub fn with_static<'o>(
        manifests: &Manifests,
        policies: impl IntoIterator<Item = &'o Value>,
        bindings: impl IntoIterator<Item = &'o Value>,
    ) -> Self {
        let bindings: Vec<&Value> = bindings.into_iter().collect();
        let static_bindings: Vec<&Value> = manifests.bindings.iter().collect();
        let read = |policy, bindings: &[&Value], is_static| {
            Some(Policy::read(policy, bindings, is_static)).filter(|policy| !policy.bindings.is_empty())
        };
        let manifests = manifests.configurations.iter();
        let own = manifests.filter_map(|policy| read(policy, &static_bindings, true));
        let stored = policies.into_iter().filter_map(|policy| read(policy, &bindings, false));
        let mut policies: Vec<Policy> = own.chain(stored).collect();
        policies.sort_by(|a, b| (!a.is_static, &a.name).cmp(&(!b.is_static, &b.name)));
        let candidates = CandidateIndex::of(policies.iter().map(|policy| &policy.selection));
        Self { policies, candidates }
    }

    /// Whether policies from files are among them: they also see requests that are exempt
    /// ([`Attributes::is_exempt`](crate::admission::Attributes::is_exempt)).
    #[must_use]
    pub fn has_static(&self) -> bool {
        self.policies.iter().any(|policy| policy.is_static)
    }

    /// Whether a policy has taken several milliseconds for one request so far, so that the next request may
    /// take as long.
    #[must_use]
    pub fn is_costly(&self) -> bool {
        self.policies.iter().any(|policy| policy.rules.is_costly())
    }

    /// Whether policies may match requests with this operation and plural; costs one look-up.
    #[must_use]
    pub fn has_candidates(&self, operation: Operation, plural: &str) -> bool {
        !self.candidates.find(operation, plural).is_empty()
    }

    /// Evaluates all policies for a request. Exempt requests ([`Attributes::is_exempt`]) are seen by policies from files alone.
    ///
    /// [`Attributes::is_exempt`]: crate::admission::Attributes::is_exempt
    #[must_use]
    pub fn admit(&self, request: &PolicyRequest<'_>) -> Outcome {
        let mut findings = Findings::default();
        let attributes = &request.attributes;
        let is_exempt = attributes.is_exempt();
        let found = self.candidates.find(attributes.operation, attributes.resource.resource);
        let policies = found.iter().map(|index| &self.policies[*index]);
        for policy in policies.filter(|policy| policy.is_static || !is_exempt) {
            if let Err(status) = policy.judge(request, &mut findings) {
                return Outcome { denial: Some(status), ..findings.outcome };
            }
        }
        let Findings { denial, outcome } = findings;
        let denial = denial.map(|denial| {
            let resource = (attributes.resource.group, attributes.resource.resource);
            let text = format!("ValidatingAdmissionPolicy {}", denial.message);
            let status = Status::forbidden(resource, request.shown_name(), &text);
            let code = match denial.reason.as_str() {
                "Forbidden" => 403,
                "Unauthorized" => 401,
                "RequestEntityTooLarge" => 413,
                _ => 422,
            };
            let message = status.message.clone();
            let mut answer = Status::foreign(code, denial.reason, message);
            answer.details = status.details;
            answer.cause("", text)
        });
        Outcome { denial, ..outcome }
    }
}

impl Policy {
    fn read(policy: &Value, bindings: &[&Value], is_static: bool) -> Self {
        let (name, spec) = (meta::name(policy), &policy["spec"]);
        Self {
            name: name.into(),
            is_static,
            selection: Selection::of_constraints(&spec["matchConstraints"]),
            param_kind: ParamKind::read(&spec["paramKind"]),
            failure_policy: FailurePolicy::read(&spec["failurePolicy"]),
            rules: Rules::read(spec),
            bindings: Binding::of_policy(name, bindings),
        }
    }

    /// Records that the policy, or one of its bindings, cannot be used.
    fn misconfigured(&self, binding: Option<&Binding>, why: &str, findings: &mut Findings) {
        if self.failure_policy == FailurePolicy::Fail {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.deny(binding, &format!("failed to configure {what}: {why}"), "Invalid", findings);
        }
    }

    fn deny(&self, binding: Option<&Binding>, message: &str, reason: &str, findings: &mut Findings) {
        let name = &self.name;
        findings.denial.get_or_insert_with(|| Denial {
            message: match binding {
                Some(binding) => {
                    format!("'{name}' with binding '{}' denied request: {message}", binding.name)
                }
                None => format!("'{name}' denied request: {message}"),
            },
            reason: reason.to_owned(),
        });
    }

    /// Evaluates the policy for a request.
    ///
    /// # Errors
    /// The refusal if the request cannot be evaluated.
    fn judge(&self, request: &PolicyRequest<'_>, findings: &mut Findings) -> Result<(), Status> {
        let form = match self.selection.matches(&request.attributes, &request.facts) {
            Ok(Some(form)) => form,
            Ok(None) => return Ok(()),
            Err(status) => {
                self.misconfigured(None, &status.message, findings);
                return Ok(());
            }
        };
        if let Some(kind) =
            self.param_kind.as_ref().filter(|kind| request.cluster.param_scope(kind).is_none())
        {
            self.misconfigured(None, &kind.unknown(), findings);
            return Ok(());
        }
        let versioned = match request.versioned(form) {
            Ok(versioned) => versioned,
            Err(why) => {
                self.misconfigured(None, &why, findings);
                return Ok(());
            }
        };
        let mut annotations = Vec::new();
        for binding in &self.bindings {
            match binding.matches(&request.attributes, &request.facts) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(status) => {
                    self.misconfigured(Some(binding), &status.message, findings);
                    continue;
                }
            }
            let (kind, reference) = (self.param_kind.as_ref(), binding.param_ref.as_ref());
            let params = match params::collect(kind, reference, request.cluster, request.attributes.namespace)
            {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(Some(binding), &why, findings);
                    continue;
                }
            };
            let namespace = request.namespace()?;
            for params in &params {
                let (authorizer, checks) = (request.authorizer, request.checks);
                let evaluated = self.rules.evaluate(&versioned, params, namespace, authorizer, checks);
                self.count(binding, &evaluated, checks);
                self.conclude(binding, evaluated, findings, &mut annotations);
            }
        }
        self.annotate(annotations, findings);
        Ok(())
    }

    /// Reports checks to the observer.
    fn count(&self, binding: &Binding, evaluated: &PolicyEvaluation, checks: &dyn CheckObserver) {
        let observe = |error, enforcement, took: Duration| {
            let (policy, binding) = (self.name.clone(), binding.name.clone());
            checks.observe(PolicyCheck { policy, binding, error, enforcement: Some(enforcement), took });
        };
        for decision in &evaluated.decisions {
            match &decision.verdict {
                Verdict::Admit => {}
                Verdict::AdmitFailed(error) => observe(*error, Enforcement::Allow, decision.took),
                Verdict::Deny { message, .. } => {
                    for action in &binding.actions {
                        observe(CheckError::of_message(message), action.enforcement(), decision.took);
                    }
                }
            }
        }
        for annotation in &evaluated.annotations {
            if let AnnotationResult::Failed { why, took } = annotation {
                observe(CheckError::of_message(why), Enforcement::Deny, *took);
            }
        }
    }

    /// Enforces a binding's actions for failed validations.
    fn conclude(
        &self,
        binding: &Binding,
        evaluated: PolicyEvaluation,
        findings: &mut Findings,
        annotations: &mut Vec<(Arc<str>, String)>,
    ) {
        for (index, decision) in evaluated.decisions.iter().enumerate() {
            let Verdict::Deny { message, reason } = &decision.verdict else { continue };
            for action in &binding.actions {
                match action {
                    Action::Deny => self.deny(Some(binding), message, reason, findings),
                    Action::Warn => self.warn(binding, message, findings),
                    Action::Audit => self.audit(binding, index, message, findings),
                }
            }
        }
        for annotation in evaluated.annotations {
            match annotation {
                AnnotationResult::Publish { key, mut value } => {
                    value.truncate(value.floor_char_boundary(AUDIT_VALUE_MAX));
                    if !annotations.contains(&(key.clone(), value.clone())) {
                        annotations.push((key, value));
                    }
                }
                AnnotationResult::Failed { why, .. } => self.deny(Some(binding), &why, "Invalid", findings),
            }
        }
    }

    fn warn(&self, binding: &Binding, message: &str, findings: &mut Findings) {
        if findings.outcome.warnings.len() < POLICY_WARNINGS_MAX {
            let (policy, binding) = (&self.name, &binding.name);
            findings.outcome.warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
            ));
        }
    }

    /// Records a failed validation in the audit log. A key is written once, so only the first failure of a
    /// request is kept.
    fn audit(&self, binding: &Binding, index: usize, message: &str, findings: &mut Findings) {
        let annotations = &mut findings.outcome.audit_annotations;
        if annotations.iter().any(|annotation| annotation.key == FAILURE_KEY) {
            return;
        }
        let failure = json!([{"message": message, "policy": *self.name, "binding": *binding.name,
            "expressionIndex": index, "validationActions": binding.stated_actions}]);
        annotations.push(AuditAnnotation { key: FAILURE_KEY.to_owned(), value: failure.to_string() });
    }

    /// Adds the audit annotations of all bindings and parameters; different values of one key are joined.
    fn annotate(&self, values: Vec<(Arc<str>, String)>, findings: &mut Findings) {
        for (key, value) in values {
            let key = format!("{}/{key}", self.name);
            let annotations = &mut findings.outcome.audit_annotations;
            match annotations.iter_mut().find(|annotation| annotation.key == key) {
                Some(known) if known.value.len() <= AUDIT_VALUE_MAX => {
                    known.value = format!("{}, {value}", known.value);
                }
                Some(_) => {}
                None => annotations.push(AuditAnnotation { key, value }),
            }
        }
    }
}
