//! The modes in their order, behind what is always allowed: masters, and paths that everybody may read. The first mode that allows or
//! denies decides; what none allows is forbidden.

use super::abac::Abac;
use super::policy::Policy;
use super::rbac::{Compiled, Rbac};
use super::webhook::{AuthorizationWebhook, Verdict};
use super::{Attributes, Decision, Question, Target, node};
use crate::authn::MASTERS;
use crate::lookup::Lookup;
use crate::metrics::Page;
use kstore_api::status::{DeniedRequest, Status};
use std::sync::Arc;

/// Paths that answer even to those who may do nothing: load balancers and probes have no credentials.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// What decides about requests that are not exempt.
#[derive(Clone, Debug)]
pub enum Mode {
    /// What nodes may do.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Policies of a file.
    Abac(Arc<Abac>),
    /// A server outside.
    Webhook(Arc<AuthorizationWebhook>),
    /// Everything is allowed.
    AlwaysAllow,
    /// Nothing is allowed.
    AlwaysDeny,
}

/// Modes in the order in which they are asked. The default is `Node`, then `RBAC`.
#[derive(Clone, Debug)]
pub struct Modes(Arc<[Mode]>);

impl Default for Modes {
    fn default() -> Self {
        Self::new([Mode::Node, Mode::Rbac])
    }
}

impl Modes {
    /// These, in this order.
    pub fn new(modes: impl IntoIterator<Item = Mode>) -> Self {
        Self(modes.into_iter().collect())
    }

    /// The modes.
    pub fn iter(&self) -> impl Iterator<Item = &Mode> {
        self.0.iter()
    }

    /// Whether one of them allows everything.
    pub fn allow_everything(&self) -> bool {
        self.iter().any(|mode| matches!(mode, Mode::AlwaysAllow))
    }

    /// Whether one of them says what nodes may do.
    pub fn judge_nodes(&self) -> bool {
        self.iter().any(|mode| matches!(mode, Mode::Node))
    }

    fn webhooks(&self) -> impl Iterator<Item = &AuthorizationWebhook> {
        self.iter().filter_map(|mode| match mode {
            Mode::Webhook(webhook) => Some(&**webhook),
            Mode::Node | Mode::Rbac | Mode::Abac(_) | Mode::AlwaysAllow | Mode::AlwaysDeny => None,
        })
    }

    /// Writes the counters of webhooks, if there are any.
    pub(crate) fn render_metrics(&self, page: &mut Page<'_>) {
        if self.webhooks().next().is_some() {
            AuthorizationWebhook::render_metrics(self.webhooks(), page);
        }
    }
}

/// The reason that Kubernetes gives for every verdict of AlwaysDeny.
const ALWAYS_DENIED: &str = "Everything is forbidden.";

/// The one authorizer of an apiserver.
pub struct Authorizer {
    lookup: Arc<dyn Lookup>,
    rbac: Rbac,
    modes: Modes,
}

/// The modes of an authorizer and its compiled roles, without the cluster that they come from.
#[derive(Debug)]
pub(crate) struct AuthorizerImage {
    compiled: Option<Compiled>,
    modes: Modes,
}

impl AuthorizerImage {
    /// An authorizer of a cluster whose roles were the same when it began.
    pub(crate) fn over(&self, lookup: Arc<dyn Lookup>) -> Authorizer {
        let rbac = Rbac::with_compiled(lookup.clone(), self.compiled.clone());
        Authorizer { lookup, rbac, modes: self.modes.clone() }
    }
}

/// What is known of a decision.
enum Weighed {
    Decided(Verdict),
    /// The mode with this index has to be asked.
    Open(usize),
}

/// The answers of webhooks to one question, by the index of their mode.
type Answers = Vec<(usize, Verdict)>;

impl Authorizer {
    /// An authorizer by the roles of the cluster that `lookup` shows, and by what nodes may do.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self::of_modes(lookup, Modes::default())
    }

    /// An authorizer of these modes.
    pub fn of_modes(lookup: Arc<dyn Lookup>, modes: Modes) -> Self {
        Self { rbac: Rbac::new(lookup.clone()), lookup, modes }
    }

    /// What another server with the same roles needs not compile again.
    pub(crate) fn image(&self) -> AuthorizerImage {
        AuthorizerImage { compiled: self.rbac.compiled(), modes: self.modes.clone() }
    }

    /// The verdict on one request, as far as it can be told without waiting: a webhook that has to be asked has no opinion.
    pub fn decide_now(&self, asked: &Attributes<'_>) -> Decision {
        match self.now(asked) {
            Ok(decision) => decision,
            Err(_) => Decision::NoOpinion(String::new()),
        }
    }

    /// The verdict on one request if nothing has to be asked for it.
    ///
    /// # Errors
    /// A webhook has to be asked, see [`Authorizer::decide`].
    pub(crate) fn now(&self, asked: &Attributes<'_>) -> Result<Decision, NotNow> {
        match self.weigh(asked, &None, &Vec::new()) {
            Weighed::Decided(verdict) => Ok(verdict.decision),
            Weighed::Open(_) => Err(NotNow),
        }
    }

    /// The verdict on one request.
    pub async fn decide(&self, asked: &Attributes<'_>) -> Decision {
        self.verdict(asked).await.decision
    }

    /// Lets an allowed request pass.
    ///
    /// # Errors
    /// 403 with the text that clients know; 500 if nothing allows it and a webhook could not be asked.
    pub async fn check(&self, asked: &Attributes<'_>) -> Result<(), Status> {
        if self.allows_at_once(asked) {
            return Ok(());
        }
        // Boxed, for it is rare, and every request would be as large as two.
        let Verdict { decision, error } = Box::pin(self.verdict(asked)).await;
        match (decision, error) {
            (Decision::Allow(_), _) => Ok(()),
            (Decision::NoOpinion(_) | Decision::Deny(_), Some(error)) => Err(Status::internal(error)),
            (Decision::NoOpinion(why) | Decision::Deny(why), None) => Err(forbidden(asked, &why)),
        }
    }

    /// Every request is checked, and none shows why it was allowed: most are decided here.
    fn allows_at_once(&self, asked: &Attributes<'_>) -> bool {
        if is_exempt(asked) {
            return true;
        }
        for mode in self.modes.iter() {
            match mode {
                Mode::Node if node::node_of(asked.user).is_none() => {}
                Mode::Rbac => return self.policy().allows(asked),
                Mode::AlwaysAllow => return true,
                Mode::Node | Mode::Abac(_) | Mode::Webhook(_) | Mode::AlwaysDeny => return false,
            }
        }
        false
    }

    async fn verdict(&self, asked: &Attributes<'_>) -> Verdict {
        let (mut question, mut answers) = (None, Answers::new());
        loop {
            match self.weigh(asked, &question, &answers) {
                Weighed::Decided(verdict) => return verdict,
                Weighed::Open(index) => {
                    let question = question.get_or_insert_with(|| Question::of(asked));
                    let Mode::Webhook(webhook) = &self.modes.0[index] else {
                        unreachable!("only webhooks are asked")
                    };
                    answers.push((index, webhook.ask(question).await));
                }
            }
        }
    }

    /// Asks the modes in order. `question` is for webhooks, if it was made already.
    fn weigh(&self, asked: &Attributes<'_>, question: &Option<Question>, answers: &Answers) -> Weighed {
        let decided = |decision| Weighed::Decided(Verdict { decision, error: None });
        if is_exempt(asked) {
            return decided(Decision::Allow(String::new()));
        }
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        for (index, mode) in self.modes.iter().enumerate() {
            let decision = match mode {
                Mode::Node => node::decide(asked, &*self.lookup),
                Mode::Rbac => self.rbac.decide(asked),
                Mode::Abac(policies) => policies.decide(asked),
                Mode::AlwaysAllow => Decision::Allow(String::new()),
                Mode::AlwaysDeny => Decision::NoOpinion(ALWAYS_DENIED.to_owned()),
                Mode::Webhook(webhook) => {
                    let answered =
                        answers.iter().find(|(of, _)| *of == index).map(|(_, verdict)| verdict.clone());
                    let known = || match question {
                        Some(question) => webhook.known(question),
                        None => webhook.known(&Question::of(asked)),
                    };
                    let Some(verdict) = answered.or_else(known) else { return Weighed::Open(index) };
                    errors.extend(verdict.error);
                    verdict.decision
                }
            };
            match decision {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                Decision::Allow(_) | Decision::Deny(_) => {
                    return Weighed::Decided(Verdict { decision, error: errors.into_iter().next() });
                }
            }
        }
        let error = (!errors.is_empty()).then(|| errors.join(", "));
        Weighed::Decided(Verdict { decision: Decision::NoOpinion(reasons.join("\n")), error })
    }

    /// What decides.
    pub fn modes(&self) -> &Modes {
        &self.modes
    }

    /// The roles and bindings as they are now.
    pub fn policy(&self) -> Arc<Policy> {
        self.rbac.policy()
    }
}

/// A webhook has to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotNow;

/// Whether no mode is asked about this request.
fn is_exempt(asked: &Attributes<'_>) -> bool {
    let is_public = matches!(asked.target, Target::Path(path) if ALWAYS_ALLOWED.contains(&path));
    is_public || asked.user.is_in(MASTERS)
}

/// The 403 that refuses this request.
pub fn forbidden(asked: &Attributes<'_>, why: &str) -> Status {
    let user = &asked.user.username;
    match asked.target {
        Target::Path(path) => Status::forbidden_path(user, asked.verb, path, why),
        Target::Resource { group, resource, subresource, namespace, name } => {
            let denied = DeniedRequest { user, verb: asked.verb, subresource, namespace, name, why };
            Status::forbidden_access((group, resource), &denied)
        }
    }
}
