//! [`Calls`]: the calls to webhooks that one request has made, with their answers. A decision about the request is a synchronous
//! function that runs again whenever it meets a call without an answer (see [`Undecided`]): it finds the answers of the earlier
//! run in the order in which it asks.

use super::authorizer::{Access, RequesterAuthorizer};
use super::configured::Configurations;
use crate::admission::Remarks;
use crate::audit;
use crate::authn::UserInfo;
use crate::authz::Authorizer;
use crate::limits::POLICY_CHECKS;
use crate::lookup::Lookup;
use crate::metrics::{AdmissionPolicies, AdmissionWebhooks};
use crate::outbound::{self, Call, Outbound};
use crate::undecided::Undecided;
use futures::future::join_all;
use kstore_api::admission::policy::{CheckObserver, PolicyCheck};
use kstore_api::admission::review::transport::HttpAnswer;
use kstore_api::admission::review::{self, AuditAnnotation, CallError, DecodedResponse};
use kstore_api::admission::{Operation, Webhook};
use kstore_api::expression::authorizer::RequestAuthorizer;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The calls of one request. The configurations of the webhooks are those at its beginning.
pub(crate) struct Calls {
    configured: Arc<Configurations>,
    around: Arc<Around>,
    log: Arc<Mutex<Log>>,
    access: Access,
}

/// What calls and expressions need beside the request. Shared by all requests.
pub(super) struct Around {
    /// The cluster that resolves Services.
    pub(super) cluster: Arc<dyn Lookup>,
    /// The way to webhooks.
    pub(super) outbound: Arc<dyn Outbound>,
    /// What expressions ask.
    pub(super) authorizer: Arc<Authorizer>,
    /// The source of uids.
    pub(super) nondet: Nondet,
    /// Counts the calls.
    pub(super) metrics: Arc<AdmissionWebhooks>,
    /// When the server began, from where the time of checks is measured.
    pub(super) began: Instant,
    /// Counts the checks of policies.
    pub(super) policy_metrics: Arc<AdmissionPolicies>,
}

/// What was asked and answered about one state of the object.
#[derive(Default)]
struct Log {
    /// Names the state of the object: its resourceVersion.
    state: String,
    /// The answers to what the decision asked, in order; each to calls that were made at once.
    answers: Vec<Vec<Reply>>,
    /// How many of the answers the running decision has seen.
    seen: usize,
    /// Texts for `Warning` headers, by the running decision.
    warnings: Vec<String>,
    /// Notes for the audit log, by the running decision. None if the request is not recorded.
    notes: Vec<AuditAnnotation>,
    /// What policies found, by the running decision; at most [`POLICY_CHECKS`].
    checks: Vec<PolicyCheck>,
}

/// One call to a webhook, ready to be sent.
pub(super) struct Question {
    /// The webhook.
    pub(super) hook: Arc<Webhook>,
    /// The uid of the review, which the answer must repeat.
    pub(super) uid: String,
    /// The operation of the request.
    pub(super) operation: Operation,
    /// What is sent.
    pub(super) call: Call,
}

/// What became of a call.
type Reply = Arc<Result<DecodedResponse, CallError>>;

impl Calls {
    /// Nothing was asked yet.
    pub(super) fn new(configured: Arc<Configurations>, around: Arc<Around>) -> Self {
        Self { configured, around, log: Arc::default(), access: Access::default() }
    }

    /// Calls of a write that webhooks do not see.
    pub(crate) fn none(&self) -> Self {
        Self::new(Arc::default(), self.around.clone())
    }

    /// Whether webhooks or policies may match requests of this operation and plural. Else no decision waits.
    pub(crate) fn may_match(&self, operation: Operation, plural: &str) -> bool {
        self.configured.may_match(operation, plural)
    }

    /// Begins a decision about the state of the object with this name. Answers about another state no longer count.
    pub(crate) fn begin(&self, state: &str) {
        let mut log = self.log.lock();
        if log.state != state {
            log.answers.clear();
            state.clone_into(&mut log.state);
        }
        log.seen = 0;
        log.warnings.clear();
        log.notes.clear();
        log.checks.clear();
    }

    /// What webhooks and policies warned of in the last decision.
    pub(crate) fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().warnings)
    }

    pub(super) fn configured(&self) -> &Configurations {
        &self.configured
    }

    /// What expressions about a request of this user ask about access. Each question is decided once.
    pub(super) fn authorizer(&self, user: &UserInfo) -> RequestAuthorizer {
        let (authorizer, requester) = (self.around.authorizer.clone(), user.clone());
        let access = self.access.clone();
        RequestAuthorizer::new(Arc::new(RequesterAuthorizer { authorizer, requester, access }))
    }

    /// Ends an evaluation whose expressions asked about access what only a webhook can answer: it is made again with the answers.
    ///
    /// # Errors
    /// [`Undecided::Pending`].
    pub(super) fn settle_access(&self) -> Result<(), Undecided> {
        self.access.pending(&self.around.authorizer).map_or(Ok(()), |asking| Err(Undecided::Pending(asking)))
    }

    /// Adds texts for `Warning` headers.
    pub(super) fn warn(&self, texts: &[String]) {
        self.log.lock().warnings.extend_from_slice(texts);
    }

    /// Adds what the plugins of the server say.
    pub(in crate::admission) fn take(&self, remarks: Remarks) {
        let Remarks { warnings, notes, .. } = remarks;
        if !warnings.is_empty() || !notes.is_empty() {
            let mut log = self.log.lock();
            log.warnings.extend(warnings);
            log.notes.extend(notes);
        }
    }

    /// Adds notes for the audit log, if the request is recorded.
    pub(super) fn note(&self, notes: impl FnOnce() -> Vec<AuditAnnotation>) {
        if audit::is_recording() {
            let notes = notes();
            self.log.lock().notes.extend(notes);
        }
    }

    /// A uid for a review.
    pub(super) fn uid(&self) -> String {
        self.around.nondet.rng.uuid()
    }

    /// The answers to calls that are made at once, in their order. `questions` makes the calls if they were not made yet.
    ///
    /// # Errors
    /// [`Undecided::Pending`] until the answers are there; or why the calls cannot be made.
    pub(super) fn ask(
        &self,
        questions: impl FnOnce() -> Result<Vec<Result<Question, CallError>>, Status>,
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

    fn send(&self, question: Result<Question, CallError>) -> impl Future<Output = Reply> + Send + use<> {
        let around = self.around.clone();
        async move {
            let Question { hook, uid, operation, call } = match question {
                Ok(question) => question,
                Err(error) => return Arc::new(Err(error)),
            };
            let (client, seconds) = (call.client.clone(), call.seconds());
            let began = Instant::now();
            let answer = around.outbound.post(around.cluster.clone(), call).await;
            let answer = answer
                .map_err(|why| CallError::no_answer(&hook.name, client.post_error(Some(seconds), why)))
                .and_then(|answer| read(&hook, &uid, &answer));
            around.metrics.observe(&hook, operation, began.elapsed(), &answer);
            Arc::new(answer)
        }
    }

    /// The answer of a webhook; its warnings and notes are kept.
    ///
    /// # Errors
    /// There was no answer, or it cannot be used.
    pub(super) fn read(&self, reply: &Reply) -> Result<DecodedResponse, CallError> {
        let answer = (**reply).clone()?;
        self.warn(&answer.warnings);
        self.note(|| answer.audit_annotations.clone());
        Ok(answer)
    }
}

impl CheckObserver for Calls {
    fn elapsed(&self) -> Duration {
        self.around.began.elapsed()
    }

    fn observe(&self, check: PolicyCheck) {
        let mut log = self.log.lock();
        if log.checks.len() < POLICY_CHECKS {
            log.checks.push(check);
        }
    }
}

/// The request is judged: the checks and notes of its last decision count.
impl Drop for Calls {
    fn drop(&mut self) {
        let notes = std::mem::take(&mut self.log.lock().notes);
        if let Some(trail) = audit::current().filter(|_| !notes.is_empty()) {
            trail.annotate(notes);
        }
        for check in std::mem::take(&mut self.log.lock().checks) {
            self.around.policy_metrics.observe(&check);
        }
    }
}

fn read(hook: &Webhook, uid: &str, answer: &outbound::Answer) -> Result<DecodedResponse, CallError> {
    let http = HttpAnswer { status: answer.status, content_type: &answer.content_type, body: &answer.body };
    review::read_answer(hook, uid, &http)
}
