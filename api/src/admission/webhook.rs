//! [`Webhook`]: one compiled hook of a webhook configuration, and [`Hooks`], all hooks of a server at one moment. Which requests a hook
//! is called for is decided here; what is sent and what answers mean is in `review`.

use std::sync::Arc;

use serde_json::Value;

use super::attributes::{Attributes, Operation};
use super::candidates::CandidateIndex;
use super::client::ClientConfig;
use super::conditions::{ConditionsOutcome, MatchConditions};
use super::review::{ReviewVersion, request_value};
use super::selection::{ClusterFacts, MatchedForm, Selection};
use crate::expression::admission::Inputs;
use crate::expression::authorizer::RequestAuthorizer;
use crate::meta;
use crate::object::{list, text};
use crate::status::Status;

/// Seconds a hook has to answer if its configuration says nothing.
const DEFAULT_TIMEOUT_SECONDS: u8 = 10;
/// Seconds a hook may be given at most: validation refuses more.
const TIMEOUT_SECONDS_MAX: u8 = 30;

/// Whether hooks may change objects or only judge them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Hooks of a `MutatingWebhookConfiguration`, called one after the other.
    Mutating,
    /// Hooks of a `ValidatingWebhookConfiguration`, called at once.
    Validating,
}

/// What a failed call of a hook, or a failed evaluation of a policy, means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The hook or policy is passed over.
    Ignore,
}

impl FailurePolicy {
    /// Reads a `failurePolicy`; `Fail` unless it says `Ignore`.
    #[must_use]
    pub fn read(policy: &Value) -> Self {
        if policy == "Ignore" { Self::Ignore } else { Self::Fail }
    }
}

/// One hook.
#[derive(Debug)]
pub struct Webhook {
    /// Index among all hooks of its phase, in calling order: audit annotations name hooks by it.
    pub index: usize,
    /// Name of the configuration object.
    pub configuration: Arc<str>,
    /// Name of the hook.
    pub name: Arc<str>,
    /// Identity among all hooks of the phase, the same as long as the configuration has the hook at the same place.
    pub uid: Arc<str>,
    /// Where it is; `None` only in damaged objects, and then a call fails.
    pub client: Option<ClientConfig>,
    /// Which requests it is called for, match conditions aside.
    pub selection: Selection,
    /// Conditions that the request must satisfy too; `None` if there are none.
    match_conditions: Option<MatchConditions>,
    /// What a failed call means.
    pub failure_policy: FailurePolicy,
    /// Whether it may be called in a dry run: it has no side effects then.
    pub supports_dry_run: bool,
    /// Seconds it has to answer, 1 to 30.
    pub timeout_seconds: u8,
    /// Version of the review to send: the first listed one that this server knows.
    pub review_version: Option<ReviewVersion>,
    /// Whether a mutating hook is called again when others changed the object after it.
    pub reinvoke_if_needed: bool,
    phase: Phase,
}

impl Webhook {
    /// Reads the hook at `position` of a stored configuration. The index among all hooks is set by [`Hooks`].
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
            phase,
        }
    }

    /// Whether the hook may change objects.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The form in which the hook is to see the request; `None` if it is not called. Match conditions are still to be asked.
    ///
    /// # Errors
    /// As [`Selection::matches`].
    pub fn matches<'a>(
        &self,
        attributes: &Attributes<'a>,
        facts: &ClusterFacts<'a>,
    ) -> Result<Option<MatchedForm<'a>>, Status> {
        self.selection.matches(attributes, facts)
    }

    /// Whether the hook has match conditions, for which the objects must be converted to the matched form.
    #[must_use]
    pub fn has_conditions(&self) -> bool {
        self.match_conditions.is_some()
    }

    /// Whether the match conditions of the hook are true for a request in the form that it matched.
    ///
    /// # Errors
    /// 403: a condition has no value, none is false, and the failure policy is `Fail`.
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

    /// Checks that the hook may be called for a dry run. Call it before the hook is.
    ///
    /// # Errors
    /// 400 for a hook whose side effects cannot be left out.
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

/// All hooks of one phase, in calling order: configurations by name, hooks as listed. A value; a change of a configuration makes
/// another one.
#[derive(Debug, Default)]
pub struct Hooks {
    hooks: Vec<Arc<Webhook>>,
    candidates: CandidateIndex,
}

impl Hooks {
    /// Compiles the stored configurations of one phase.
    #[must_use]
    pub fn new<'o>(phase: Phase, configurations: impl IntoIterator<Item = &'o Value>) -> Self {
        let mut configurations: Vec<&Value> = configurations.into_iter().collect();
        configurations.sort_by_key(|configuration| meta::name(configuration));
        let hooks = configurations.iter().flat_map(|configuration| {
            let hooks = list(&configuration["webhooks"]).iter().enumerate();
            hooks.map(|(position, hook)| Webhook::read(phase, meta::name(configuration), position, hook))
        });
        let hooks = hooks.enumerate().map(|(index, hook)| Arc::new(Webhook { index, ..hook }));
        let hooks: Vec<Arc<Webhook>> = hooks.collect();
        let candidates = CandidateIndex::of(hooks.iter().map(|hook| &hook.selection));
        Self { hooks, candidates }
    }

    /// The hooks that may have to be called for a request, in calling order; most servers have none for most requests. One look-up;
    /// [`Webhook::matches`] decides.
    pub fn candidates(&self, operation: Operation, plural: &str) -> impl Iterator<Item = &Arc<Webhook>> {
        self.candidates.find(operation, plural).iter().map(|index| &self.hooks[*index])
    }

    /// Whether there are hooks to ask about requests of this operation and plural.
    #[must_use]
    pub fn has_candidates(&self, operation: Operation, plural: &str) -> bool {
        self.candidates(operation, plural).next().is_some()
    }

    /// Whether there are no hooks at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// All hooks in calling order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.hooks.iter()
    }
}
