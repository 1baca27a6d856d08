//! [`Webhook`]: one compiled webhook of a configuration, and [`Hooks`], all webhooks of a server at one
//! moment. This module selects the webhooks for a request; `review` has requests and responses.

use super::attributes::{Attributes, Operation};
use super::candidates::CandidateIndex;
use super::client::ClientConfig;
use super::conditions::{ConditionsOutcome, MatchConditions};
use super::review::{ReviewVersion, request_value};
use super::selection::{ClusterFacts, MatchedForm, Selection};
use crate::admission_expression::Inputs;
use crate::expression::authorizer::RequestAuthorizer;
use crate::meta;
use crate::object::{list, text};
use crate::status::Status;
use serde_json::Value;
use std::sync::Arc;

/// Default timeout in seconds.
const DEFAULT_TIMEOUT_SECONDS: u8 = 10;
/// Highest timeout in seconds; validation refuses more.
const TIMEOUT_SECONDS_MAX: u8 = 30;

/// Whether webhooks may change objects or only validate them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Webhooks of a `MutatingWebhookConfiguration`, called one after the other.
    Mutating,
    /// Webhooks of a `ValidatingWebhookConfiguration`, called concurrently.
    Validating,
}

/// Effect of a failed webhook call or policy evaluation on the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The webhook or policy is skipped.
    Ignore,
}

impl FailurePolicy {
    /// Parses a `failurePolicy`; everything except `Ignore` is `Fail`.
    #[must_use]
    pub fn read(policy: &Value) -> Self {
        if policy == "Ignore" { Self::Ignore } else { Self::Fail }
    }
}

/// Compiled webhook of a configuration.
#[derive(Debug)]
pub struct Webhook {
    /// Index among all webhooks of its phase, in calling order; audit annotations contain it.
    pub index: usize,
    /// Name of the configuration object.
    pub configuration: Arc<str>,
    /// Name of the webhook.
    pub name: Arc<str>,
    /// Identity among all webhooks of the phase; stable while the configuration has the webhook at the same
    /// position.
    pub uid: Arc<str>,
    /// URL or service; `None` only in damaged objects, and then calls fail.
    pub client: Option<ClientConfig>,
    /// Selection of requests, without match conditions.
    pub selection: Selection,
    /// Match conditions; `None` if there are none.
    match_conditions: Option<MatchConditions>,
    /// Effect of a failed call.
    pub failure_policy: FailurePolicy,
    /// Whether it may be called in a dry run, since it then has no side effects.
    pub supports_dry_run: bool,
    /// Timeout in seconds, 1 to 30.
    pub timeout_seconds: u8,
    /// Version of the review to send: the first listed one that this server supports.
    pub review_version: Option<ReviewVersion>,
    /// Whether a mutating webhook is called again after later changes.
    pub reinvoke_if_needed: bool,
    /// Whether it comes from a file: then it also reviews the configuration of admission.
    pub is_static: bool,
    phase: Phase,
}

impl Webhook {
    /// Parses the webhook at `position` of a stored configuration. [`Hooks`] sets the index among all
    /// webhooks.
    #[must_use]
    pub fn read(phase: Phase, configuration: &str, position: usize, hook: &Value) -> Self {
        let name = text(&hook["name"]);
        let seconds = hook["timeoutSeconds"].as_u64().and_then(|seconds| u8::try_from(seconds).ok());
        let versions = list(&hook["admissionReviewVersions"]);
        Self {
            index: position,
            configuration: configuration.into(),
            name: name.into(),
            uid: format!("{configuration}/{name}/{position}").into(),
            client: ClientConfig::read(&hook["clientConfig"]),
            selection: Selection::of_webhook(hook),
            match_conditions: Some(MatchConditions::read(hook, false)).filter(|all| !all.is_empty()),
            failure_policy: FailurePolicy::read(&hook["failurePolicy"]),
            supports_dry_run: matches!(text(&hook["sideEffects"]), "None" | "NoneOnDryRun"),
            timeout_seconds: seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS).clamp(1, TIMEOUT_SECONDS_MAX),
            review_version: versions.iter().find_map(|version| ReviewVersion::read(text(version))),
            reinvoke_if_needed: hook["reinvocationPolicy"] == "IfNeeded",
            is_static: false,
            phase,
        }
    }

    /// Phase of the webhook.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The form in which the webhook sees the request; `None` if it is not selected. The caller then
    /// evaluates match conditions.
    ///
    /// # Errors
    /// Those of [`Selection::matches`].
    pub fn matches<'a>(
        &self,
        attributes: &Attributes<'a>,
        facts: &ClusterFacts<'a>,
    ) -> Result<Option<MatchedForm<'a>>, Status> {
        self.selection.matches(attributes, facts)
    }

    /// Whether the webhook has match conditions; objects must be converted to the matched form for them.
    #[must_use]
    pub fn has_conditions(&self) -> bool {
        self.match_conditions.is_some()
    }

    /// Whether the match conditions are true for a request in its matched form.
    ///
    /// # Errors
    /// 403: a condition fails, none is false, and the failure policy is `Fail`.
    pub fn conditions_match(
        &self,
        attributes: &Attributes<'_>,
        form: MatchedForm<'_>,
        object: Option<&Value>,
        old_object: Option<&Value>,
        authorizer: Option<&RequestAuthorizer>,
    ) -> Result<bool, Status> {
        let Some(conditions) = &self.match_conditions else { return Ok(true) };
        let request =
            request_value(attributes, MatchedForm { resource: attributes.resource, kind: form.kind });
        let inputs = Inputs {
            object: object.unwrap_or(&Value::Null),
            old_object: old_object.unwrap_or(&Value::Null),
            request: &request,
            authorizer: authorizer.cloned(),
            ..Inputs::default()
        };
        match conditions.evaluate(inputs) {
            ConditionsOutcome::Matched => Ok(true),
            ConditionsOutcome::Unmatched => Ok(false),
            ConditionsOutcome::Failed(why) => {
                let resource = (attributes.resource.group, attributes.resource.resource);
                Err(Status::forbidden(resource, attributes.name, &why))
            }
        }
    }

    /// Checks that the webhook supports dry runs. Call it before the webhook is called.
    ///
    /// # Errors
    /// 400 for a webhook that may have side effects in a dry run.
    pub fn check_dry_run(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.dry_run && !self.supports_dry_run {
            let name = &self.name;
            return Err(Status::bad_request(format!(
                "admission webhook \"{name}\" does not support dry run"
            )));
        }
        Ok(())
    }
}

/// All webhooks of one phase in calling order: configurations sorted by name, webhooks as listed. Immutable;
/// a change of a configuration makes a new set.
#[derive(Debug, Default)]
pub struct Hooks {
    hooks: Vec<Arc<Webhook>>,
    candidates: CandidateIndex,
}

impl Hooks {
    /// Compiles the stored configurations of one phase.
    #[must_use]
    pub fn new<'o>(phase: Phase, configurations: impl IntoIterator<Item = &'o Value>) -> Self {
        Self::with_static(phase, [], configurations)
    }

    /// The same with configurations from files, whose webhooks are called before those of stored ones.
    #[must_use]
    pub fn with_static<'o>(
        phase: Phase,
        manifests: impl IntoIterator<Item = &'o Value>,
        stored: impl IntoIterator<Item = &'o Value>,
    ) -> Self {
        let hooks = Self::read(phase, manifests, true).into_iter().chain(Self::read(phase, stored, false));
        let hooks = hooks.enumerate().map(|(index, hook)| Arc::new(Webhook { index, ..hook }));
        let hooks: Vec<Arc<Webhook>> = hooks.collect();
        let candidates = CandidateIndex::of(hooks.iter().map(|hook| &hook.selection));
        Self { hooks, candidates }
    }

    /// The webhooks of configurations in the order of their names.
    fn read<'o>(
        phase: Phase,
        configurations: impl IntoIterator<Item = &'o Value>,
        is_static: bool,
    ) -> Vec<Webhook> {
        let mut configurations: Vec<&Value> = configurations.into_iter().collect();
        configurations.sort_by_key(|configuration| meta::name(configuration));
        let hooks = configurations.iter().flat_map(|configuration| {
            let hooks = list(&configuration["webhooks"]).iter().enumerate();
            hooks.map(|(position, hook)| Webhook::read(phase, meta::name(configuration), position, hook))
        });
        hooks.map(|hook| Webhook { is_static, ..hook }).collect()
    }

    /// Candidates for a request in calling order, with one look-up; most servers have none for most requests.
    /// [`Webhook::matches`] decides.
    pub fn candidates(&self, operation: Operation, plural: &str) -> impl Iterator<Item = &Arc<Webhook>> {
        self.candidates.find(operation, plural).iter().map(|index| &self.hooks[*index])
    }

    /// Whether webhooks may match requests with this operation and plural.
    #[must_use]
    pub fn has_candidates(&self, operation: Operation, plural: &str) -> bool {
        self.candidates(operation, plural).next().is_some()
    }

    /// Whether the phase has no webhooks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// All webhooks in calling order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.hooks.iter()
    }
}
