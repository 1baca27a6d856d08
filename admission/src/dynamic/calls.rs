//! [`Calls`]: the webhook calls that one request has made, with their answers. A decision about the request
//! is a synchronous function that runs again whenever it meets a call without an answer (see [`Undecided`]).
//! Each run finds the answers of earlier runs in the order in which it asks.

use super::authorizer::{AccessChecks, RequesterAuthorizer};
use super::configurations::Configurations;
use crate::request_effects::RequestEffects;
use crate::subject::Subject;
use futures::future::join_all;
use kstore_access::audit;
use kstore_access::authz::Authorizer;
use kstore_api::admission::policy::{CheckObserver, PolicyCheck};
use kstore_api::admission::review::transport::HttpAnswer;
use kstore_api::admission::review::{self, AuditAnnotation, CallError, DecodedResponse};
use kstore_api::admission::{Operation, Webhook};
use kstore_api::expression::authorizer::{
    self as expression, AccessCheck, AccessTarget, RequestAuthorizer, ResourceAccess,
};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{self, Call, Outbound};
use kstore_registry::undecided::Undecided;
use kstore_registry::user::UserInfo;
use kstore_storage::limits::POLICY_CHECKS;
use kstore_storage::metrics::{AdmissionPolicies, AdmissionWebhooks};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The webhook calls of one request. Uses the webhook configurations from the beginning of the request.
pub struct Calls {
    configured: Arc<Configurations>,
    dependencies: Arc<Dependencies>,
    log: Arc<Mutex<DecisionLog>>,
    access: AccessChecks,
    /// The plugins that review the request; `None` if webhooks do not see it.
    plugins: Option<Arc<dyn ReviewingPlugins>>,
    effects: RequestEffects,
    /// Whether the request is audited.
    is_recorded: bool,
}

/// What calls need to know of the plugins that review a request.
pub(crate) trait ReviewingPlugins: Send + Sync {
    /// Whether decisions about such requests may wait for a server, besides those of webhooks.
    fn may_wait(&self, operation: Operation, resource: &Resource) -> bool;

    /// Whether new objects may wait for initializers.
    fn initializes(&self) -> bool;
}

/// The dependencies of calls and expressions. Shared by all requests.
pub(super) struct Dependencies {
    /// The cluster, for resolving Services.
    pub(super) cluster: Arc<dyn Lookup>,
    /// The client of webhooks.
    pub(super) outbound: Arc<dyn Outbound>,
    /// The authorizer for expressions.
    pub(super) authorizer: Arc<Authorizer>,
    /// The source of uids.
    pub(super) nondet: Nondet,
    /// Metrics of webhook calls.
    pub(super) metrics: Arc<AdmissionWebhooks>,
    /// The start of the server, relative to which policy checks are timed.
    pub(super) began: Instant,
    /// Metrics of policy checks.
    pub(super) policy_metrics: Arc<AdmissionPolicies>,
}

/// The calls and answers about one state of the object, and the results of the running decision.
#[derive(Default)]
struct DecisionLog {
    /// Identifies the state of the object: its resourceVersion.
    state: String,
    /// The answers to the decision's calls, in order. Each item answers calls that were made concurrently.
    answers: Vec<Vec<Reply>>,
    /// The number of answers that the running decision has used.
    seen: usize,
    /// Texts for `Warning` headers from the running decision.
    warnings: Vec<String>,
    /// Audit annotations from the running decision. Empty if the request is not audited.
    annotations: Vec<AuditAnnotation>,
    /// Policy checks of the running decision; at most [`POLICY_CHECKS`].
    checks: Vec<PolicyCheck>,
}

/// A call to a webhook, ready to be sent.
pub(crate) struct WebhookCall {
    /// The webhook.
    pub(crate) hook: Arc<Webhook>,
    /// The uid of the review, which the answer must repeat.
    pub(crate) uid: String,
    /// The operation of the request.
    pub(crate) operation: Operation,
    /// The call to send.
    pub(crate) call: Call,
}

/// The result of a call.
type Reply = Arc<Result<DecodedResponse, CallError>>;

impl Calls {
    /// No calls yet, by these configurations.
    pub(super) fn new(
        configured: Arc<Configurations>,
        dependencies: Arc<Dependencies>,
        plugins: Option<Arc<dyn ReviewingPlugins>>,
    ) -> Self {
        let (log, access, effects) = (Arc::default(), AccessChecks::default(), RequestEffects::default());
        Self { configured, dependencies, log, access, plugins, effects, is_recorded: audit::is_recording() }
    }

    /// The calls of a write that webhooks do not see.
    pub fn none(&self) -> Self {
        Self::new(Arc::default(), self.dependencies.clone(), None)
    }

    /// Whether webhooks or policies may match requests of this operation and resource, or a plugin may wait for
    /// a server. If not, no decision is pending.
    pub fn may_match(&self, operation: Operation, resource: &Resource) -> bool {
        self.configured.may_match(operation, resource.plural)
            || self.plugins.as_ref().is_some_and(|plugins| plugins.may_wait(operation, resource))
    }

    /// Whether webhooks and plugins that wait review the request. They do not see the server's own writes.
    pub(crate) fn is_reviewed(&self) -> bool {
        self.plugins.is_some()
    }

    /// Whether the objects of the request may have initializers.
    pub(super) fn has_initializers(&self) -> bool {
        self.plugins.as_ref().is_some_and(|plugins| plugins.initializes())
    }

    /// What plugins did for this request outside its decisions.
    pub(crate) fn effects(&self) -> &RequestEffects {
        &self.effects
    }

    /// Begins a decision about this state of the object. Answers about another state are dropped.
    pub fn begin(&self, state: &str) {
        let mut log = self.log.lock();
        if log.state != state {
            log.answers.clear();
            state.clone_into(&mut log.state);
        }
        log.seen = 0;
        log.warnings.clear();
        log.annotations.clear();
        log.checks.clear();
    }

    /// Takes the warnings of webhooks and policies from the last decision.
    pub fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().warnings)
    }

    pub(crate) fn configured(&self) -> &Configurations {
        &self.configured
    }

    /// The authorizer for expressions about a request of this user. Each check is decided once.
    pub(crate) fn authorizer(&self, user: &UserInfo) -> RequestAuthorizer {
        let (authorizer, requester) = (self.dependencies.authorizer.clone(), user.clone());
        let access = self.access.clone();
        RequestAuthorizer::new(Arc::new(RequesterAuthorizer { authorizer, requester, access }))
    }

    /// Whether the sender of a request may use a verb on its object.
    ///
    /// # Errors
    /// [`Undecided::Pending`] until an authorization webhook has answered.
    pub(crate) fn may(&self, subject: &Subject<'_>, verb: &str) -> Result<expression::Decision, Undecided> {
        let access = ResourceAccess {
            group: subject.resource.group.to_owned(),
            resource: subject.resource.plural.to_owned(),
            namespace: subject.namespace.to_owned(),
            name: subject.name.to_owned(),
            ..ResourceAccess::default()
        };
        self.permission(subject.user, verb, access)
    }

    /// Whether the sender of the request may use a verb on a resource, which need not be that of the request.
    ///
    /// # Errors
    /// [`Undecided::Pending`] until an authorization webhook has answered.
    pub fn permission(
        &self,
        sender: &UserInfo,
        verb: &str,
        access: ResourceAccess,
    ) -> Result<expression::Decision, Undecided> {
        let check = AccessCheck {
            subject: expression::Subject::Requester,
            verb: verb.to_owned(),
            target: AccessTarget::Resource(access),
        };
        let decision = self.authorizer(sender).decide(&check);
        self.check_access_answers()?;
        Ok(decision)
    }

    /// Ends an evaluation whose expressions need an authorization webhook: it is repeated with the answers.
    ///
    /// # Errors
    /// [`Undecided::Pending`].
    pub(crate) fn check_access_answers(&self) -> Result<(), Undecided> {
        self.access
            .pending(&self.dependencies.authorizer)
            .map_or(Ok(()), |asking| Err(Undecided::Pending(asking)))
    }

    /// Adds texts for `Warning` headers.
    pub(crate) fn warn(&self, texts: &[String]) {
        if !texts.is_empty() {
            self.log.lock().warnings.extend_from_slice(texts);
        }
    }

    /// Whether the request is audited.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Adds an audit annotation with this name and value, if the request is audited.
    pub(crate) fn annotate(&self, annotation: impl FnOnce() -> (String, String)) {
        self.annotate_all(|| {
            let (key, value) = annotation();
            vec![AuditAnnotation { key, value }]
        });
    }

    /// Adds audit annotations, if the request is audited.
    pub(crate) fn annotate_all(&self, annotations: impl FnOnce() -> Vec<AuditAnnotation>) {
        if self.is_recorded {
            let annotations = annotations();
            self.log.lock().annotations.extend(annotations);
        }
    }

    /// A new uid for a review.
    pub(crate) fn uid(&self) -> String {
        self.dependencies.nondet.rng.uuid()
    }

    /// The answers to concurrent calls, in their order. `questions` makes the calls if they were not made
    /// yet.
    ///
    /// # Errors
    /// [`Undecided::Pending`] until the answers have arrived; or why the calls cannot be made.
    pub(crate) fn ask(
        &self,
        questions: impl FnOnce() -> Result<Vec<Result<WebhookCall, CallError>>, Status>,
    ) -> Result<Vec<Reply>, Undecided> {
        let mut log = self.log.lock();
        if let Some(replies) = log.answers.get(log.seen) {
            let replies = replies.clone();
            log.seen += 1;
            return Ok(replies);
        }
        drop(log);
        let sent: Vec<_> = questions()?.into_iter().map(|question| self.send(question)).collect();
        let log = self.log.clone();
        Err(Undecided::Pending(Box::pin(async move {
            let replies = join_all(sent).await;
            log.lock().answers.push(replies);
        })))
    }

    fn send(&self, question: Result<WebhookCall, CallError>) -> impl Future<Output = Reply> + Send + use<> {
        let dependencies = self.dependencies.clone();
        async move {
            let WebhookCall { hook, uid, operation, call } = match question {
                Ok(question) => question,
                Err(error) => return Arc::new(Err(error)),
            };
            let (client, seconds) = (call.client.clone(), call.seconds());
            let began = Instant::now();
            let answer = dependencies.outbound.post(dependencies.cluster.clone(), call).await;
            let answer = answer
                .map_err(|why| CallError::no_answer(&hook.name, client.post_error(Some(seconds), why)))
                .and_then(|answer| read(&hook, &uid, &answer));
            dependencies.metrics.observe(&hook, operation, began.elapsed(), &answer);
            Arc::new(answer)
        }
    }

    /// The answer of a webhook. Its warnings and audit annotations are recorded.
    ///
    /// # Errors
    /// If there was no answer, or it is invalid.
    pub(crate) fn read(&self, reply: &Reply) -> Result<DecodedResponse, CallError> {
        let answer = (**reply).clone()?;
        self.warn(&answer.warnings);
        self.annotate_all(|| answer.audit_annotations.clone());
        Ok(answer)
    }
}

#[cfg(test)]
impl Calls {
    /// These calls, of a request that is audited.
    pub(crate) fn audited(mut self) -> Self {
        self.is_recorded = true;
        self
    }

    /// Names and values of the audit annotations so far.
    pub(crate) fn annotations(&self) -> Vec<(String, String)> {
        self.log
            .lock()
            .annotations
            .iter()
            .map(|annotation| (annotation.key.clone(), annotation.value.clone()))
            .collect()
    }
}

impl CheckObserver for Calls {
    fn elapsed(&self) -> Duration {
        self.dependencies.began.elapsed()
    }

    fn observe(&self, check: PolicyCheck) {
        let mut log = self.log.lock();
        if log.checks.len() < POLICY_CHECKS {
            log.checks.push(check);
        }
    }
}

/// Publishes audit annotations and policy checks of the last decision when the request is done.
impl Drop for Calls {
    fn drop(&mut self) {
        let annotations = std::mem::take(&mut self.log.lock().annotations);
        if let Some(trail) = audit::current().filter(|_| !annotations.is_empty()) {
            trail.annotate(annotations);
        }
        for check in std::mem::take(&mut self.log.lock().checks) {
            self.dependencies.policy_metrics.observe(&check);
        }
    }
}

fn read(hook: &Webhook, uid: &str, answer: &outbound::Answer) -> Result<DecodedResponse, CallError> {
    let http = HttpAnswer { status: answer.status, content_type: &answer.content_type, body: &answer.body };
    review::read_answer(hook, uid, &http)
}
