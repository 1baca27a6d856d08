//! MutatingAdmissionPolicy: [`MutatingPolicies`] are all mutating policies of a server at one moment.
//! Matching policies change a request in order of their names, each once for every binding and parameter.

mod failure;
mod mutation;

use self::failure::{Failure, refusal};
use self::mutation::{Mutation, MutationError};
use super::binding::Binding;
use super::checks::{CheckError, PolicyCheck};
use super::params::{self, ParamKind};
use super::request::{PolicyRequest, VersionedRequest};
use crate::admission::attributes::{Attributes, Operation};
use crate::admission::candidates::CandidateIndex;
use crate::admission::conditions::{ConditionsOutcome, MatchConditions};
use crate::admission::manifests::Manifests;
use crate::admission::reinvocation::{Plugin, Reinvocation};
use crate::admission::selection::{MatchedForm, Selection};
use crate::admission::webhook::FailurePolicy;
use crate::admission_expression::{Environment, Uses};
use crate::limits::POLICY_VARIABLES_MAX;
use crate::meta;
use crate::object::{list, text};
use crate::status::Status;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Compiled policy with its bindings.
#[derive(Debug)]
struct Policy {
    name: Arc<str>,
    /// Whether it comes from a file.
    is_static: bool,
    selection: Selection,
    param_kind: Option<ParamKind>,
    failure_policy: FailurePolicy,
    reinvoke_if_needed: bool,
    environment: Environment,
    conditions: MatchConditions,
    mutations: Vec<Mutation>,
    bindings: Vec<Binding>,
}

/// All mutating policies that have bindings, sorted by name. Immutable; a change of a policy or binding makes
/// a new set.
#[derive(Debug, Default)]
pub struct MutatingPolicies {
    policies: Vec<Policy>,
    candidates: CandidateIndex,
}

/// Policy with one binding and one parameter, to be run for a request.
struct Invocation<'p, 'a> {
    policy: &'p Policy,
    binding: &'p Binding,
    form: MatchedForm<'a>,
    params: Value,
}

impl Invocation<'_, '_> {
    /// Identity of the invocation for the second round.
    fn uid(&self) -> Arc<str> {
        let (namespace, name) = (meta::namespace(&self.params), meta::name(&self.params));
        format!("{}/{}/{namespace}/{name}", self.policy.name, self.binding.name).into()
    }

    fn failure(&self, message: String) -> Failure {
        Failure {
            policy: self.policy.name.clone(),
            binding: Some(self.binding.name.clone()),
            message,
            is_invalid: true,
        }
    }
}

impl MutatingPolicies {
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
        self.policies.iter().any(|policy| policy.environment.is_costly())
    }

    /// Whether policies may match requests with this operation and plural; costs one look-up.
    #[must_use]
    pub fn has_candidates(&self, operation: Operation, plural: &str) -> bool {
        !self.candidates.find(operation, plural).is_empty()
    }

    /// Runs the policies on the object of a request; call it once per round. Returns the object if it was
    /// written, in the version of the request. Exempt requests ([`Attributes::is_exempt`]) are seen by
    /// policies from files alone.
    ///
    /// # Errors
    /// The refusal for the client, if a policy failed and its failure policy is `Fail`.
    pub fn admit(
        &self,
        request: &PolicyRequest<'_>,
        state: &mut Reinvocation,
    ) -> Result<Option<Value>, Status> {
        state.begin(Plugin::Policies, request.attributes.object);
        let mut failures = Vec::new();
        let invocations = self.collect(request, &mut failures);
        let mut written = None;
        if !invocations.is_empty() {
            let namespace = request.namespace()?;
            for invocation in &invocations {
                if let Some(object) =
                    run(invocation, request, written.as_ref(), namespace, state, &mut failures)?
                {
                    written = Some(object);
                }
            }
        }
        if written.is_some() {
            state.wrote(Plugin::Policies);
        }
        state.end(Plugin::Policies, written.as_ref().or(request.attributes.object));
        match refusal(request, &failures) {
            Some(status) => Err(status),
            None => Ok(written),
        }
    }

    /// Collects the invocations for a request. They are determined before the first one runs.
    fn collect<'a>(
        &self,
        request: &PolicyRequest<'a>,
        failures: &mut Vec<Failure>,
    ) -> Vec<Invocation<'_, 'a>> {
        let mut invocations = Vec::new();
        let is_exempt = request.attributes.is_exempt();
        for index in self.candidates.find(request.attributes.operation, request.attributes.resource.resource)
        {
            let policy = &self.policies[*index];
            if is_exempt && !policy.is_static {
                continue;
            }
            let mut fail = |binding: Option<&Binding>, why: &str| {
                let what = if binding.is_some() { "binding" } else { "policy" };
                policy.fail(
                    Failure {
                        policy: policy.name.clone(),
                        binding: binding.map(|binding| binding.name.clone()),
                        message: format!("failed to configure {what}: {why}"),
                        is_invalid: false,
                    },
                    failures,
                );
            };
            let form = match policy.selection.matches(&request.attributes, &request.facts) {
                Ok(Some(form)) => form,
                Ok(None) => continue,
                Err(status) => {
                    fail(None, &status.message);
                    continue;
                }
            };
            if let Some(kind) =
                policy.param_kind.as_ref().filter(|kind| request.cluster.param_scope(kind).is_none())
            {
                fail(None, &kind.unknown());
                continue;
            }
            for binding in &policy.bindings {
                match binding.matches(&request.attributes, &request.facts) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(status) => {
                        fail(Some(binding), &status.message);
                        continue;
                    }
                }
                let (kind, reference) = (policy.param_kind.as_ref(), binding.param_ref.as_ref());
                match params::collect(kind, reference, request.cluster, request.attributes.namespace) {
                    Ok(params) => {
                        let invocation = |params| Invocation { policy, binding, form, params };
                        invocations.extend(params.into_iter().map(invocation));
                    }
                    Err(why) => fail(Some(binding), &why),
                }
            }
        }
        invocations
    }
}

impl Policy {
    fn read(policy: &Value, bindings: &[&Value], is_static: bool) -> Self {
        let (name, spec) = (meta::name(policy), &policy["spec"]);
        let has_params = !spec["paramKind"].is_null();
        let mut environment = Environment::new(Uses::of_mutating_policy(has_params));
        for variable in list(&spec["variables"]).iter().take(POLICY_VARIABLES_MAX) {
            // A variable that does not compile fails at its first use.
            let _ = environment.declare(text(&variable["name"]), text(&variable["expression"])).is_ok();
        }
        Self {
            name: name.into(),
            is_static,
            selection: Selection::of_constraints(&spec["matchConstraints"]),
            param_kind: ParamKind::read(&spec["paramKind"]),
            failure_policy: FailurePolicy::read(&spec["failurePolicy"]),
            reinvoke_if_needed: spec["reinvocationPolicy"] == "IfNeeded",
            conditions: MatchConditions::read(spec, has_params),
            mutations: list(&spec["mutations"]).iter().map(|own| Mutation::read(own, &environment)).collect(),
            environment,
            bindings: Binding::of_policy(name, bindings),
        }
    }

    fn fail(&self, failure: Failure, failures: &mut Vec<Failure>) {
        if self.failure_policy == FailurePolicy::Fail {
            failures.push(failure);
        }
    }
}

/// Runs one invocation on the result of earlier ones. Returns the object if a mutation wrote it.
fn run(
    invocation: &Invocation<'_, '_>,
    request: &PolicyRequest<'_>,
    written: Option<&Value>,
    namespace: &Value,
    state: &mut Reinvocation,
    failures: &mut Vec<Failure>,
) -> Result<Option<Value>, Status> {
    let policy = invocation.policy;
    let object = written.or(request.attributes.object);
    let current = PolicyRequest { attributes: Attributes { object, ..request.attributes }, ..*request };
    let mut versioned: VersionedRequest<'_> = current.versioned(invocation.form).map_err(Status::internal)?;
    if !policy.conditions.is_empty() {
        let inputs = versioned.condition_inputs(&invocation.params, request.authorizer);
        match policy.conditions.evaluate(inputs) {
            ConditionsOutcome::Matched => {}
            ConditionsOutcome::Unmatched => return Ok(None),
            ConditionsOutcome::Failed(why) => {
                policy.fail(invocation.failure(why), failures);
                return Ok(None);
            }
        }
    }
    let uid = invocation.uid();
    if !state.should_run(Plugin::Policies, &uid) {
        return Ok(None);
    }
    let (before, mut is_written) = (versioned.object.clone(), false);
    for mutation in &policy.mutations {
        let Some(object) = versioned.object.as_deref() else { continue };
        let inputs = versioned.inputs(&invocation.params, namespace, request.authorizer);
        let kind = invocation.form.kind;
        let began = request.checks.elapsed();
        let outcome = mutation.apply(object, inputs, &policy.environment, request.cluster, kind);
        request.checks.observe(PolicyCheck {
            policy: policy.name.clone(),
            binding: invocation.binding.name.clone(),
            error: outcome.as_ref().err().map_or(CheckError::None, MutationError::check_error),
            enforcement: None,
            took: request.checks.elapsed().saturating_sub(began),
        });
        match outcome {
            Ok(object) => {
                versioned.object = Some(Cow::Owned(object));
                is_written = true;
            }
            Err(MutationError::Refused(status)) => return Err(*status),
            Err(MutationError::Failed(why)) => policy.fail(invocation.failure(why), failures),
        }
    }
    state.ran(Plugin::Policies, &uid, policy.reinvoke_if_needed, versioned.object != before);
    match versioned.object {
        Some(object) if is_written && invocation.form.kind != request.attributes.kind => {
            let own = request.cluster.convert(&object, request.attributes.kind);
            own.map(Some).map_err(|why| Status::internal(format!("failed to convert object: {why}")))
        }
        Some(object) if is_written => Ok(Some(object.into_owned())),
        _ => Ok(None),
    }
}
