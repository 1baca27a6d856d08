//! The authorizer: asks the configured modes in order, after exempting masters and public health paths. The
//! first mode that allows or denies decides; a request that no mode allows is forbidden.

use super::abac::Abac;
use super::node::{self, NodeAuthorizer};
use super::policy::Policy;
use super::rbac::{Compiled, Rbac};
use super::webhook::{AuthorizationWebhook, Verdict};
use super::{Attributes, Decision, Question, Target};
use crate::reloaded::Reloaded;
use kstore_api::status::{DeniedRequest, Status};
use kstore_metrics_text::Page;
use kstore_registry::lookup::Lookup;
use kstore_registry::user::MASTERS;
use std::sync::Arc;

/// Paths that are allowed for everyone: load balancers and probes have no credentials.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// An authorization mode.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Permissions of nodes, by the pods bound to them.
    Node,
    /// RBAC roles and bindings.
    Rbac,
    /// ABAC policies of a file.
    Abac(Arc<Abac>),
    /// An external webhook.
    Webhook(Arc<AuthorizationWebhook>),
    /// Allows every request.
    AlwaysAllow,
    /// Allows no request.
    AlwaysDeny,
}

/// The modes of an authorizer, which may follow a file. The default is `Node`, then `RBAC`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Modes(Arc<Reloaded<ModeList>>);

/// Modes in the order in which they are asked.
#[derive(Clone, Debug)]
pub struct ModeList(Vec<Mode>);

impl Default for Modes {
    fn default() -> Self {
        Self::new([Mode::Node, Mode::Rbac])
    }
}

impl Modes {
    /// Modes that are asked in this order.
    pub fn new(modes: impl IntoIterator<Item = Mode>) -> Self {
        Self::following(Reloaded::fixed(ModeList::new(modes)))
    }

    /// The modes of a file.
    pub fn following(file: Reloaded<ModeList>) -> Self {
        Self(Arc::new(file))
    }

    /// The modes as they are now. A decision uses one list from its begin to its end.
    pub fn current(&self) -> Arc<ModeList> {
        self.0.get()
    }

    /// Writes the metrics of the file and of the webhooks, if there are any.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        self.0.render_metrics("authorization", page);
        let modes = self.current();
        if modes.webhooks().next().is_some() {
            AuthorizationWebhook::render_metrics(modes.webhooks(), page);
        }
    }
}

impl ModeList {
    /// Modes that are asked in this order.
    pub fn new(modes: impl IntoIterator<Item = Mode>) -> Self {
        Self(modes.into_iter().collect())
    }

    /// The modes in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Mode> {
        self.0.iter()
    }

    /// Whether one of the modes allows everything.
    pub fn allow_everything(&self) -> bool {
        self.iter().any(|mode| matches!(mode, Mode::AlwaysAllow))
    }

    /// Whether the Node mode is among them.
    pub fn judge_nodes(&self) -> bool {
        self.iter().any(|mode| matches!(mode, Mode::Node))
    }

    fn webhooks(&self) -> impl Iterator<Item = &AuthorizationWebhook> {
        self.iter().filter_map(|mode| match mode {
            Mode::Webhook(webhook) => Some(&**webhook),
            Mode::Node | Mode::Rbac | Mode::Abac(_) | Mode::AlwaysAllow | Mode::AlwaysDeny => None,
        })
    }
}

/// Kubernetes' reason for every denial by AlwaysDeny.
const ALWAYS_DENIED: &str = "Everything is forbidden.";

/// The authorizer of an apiserver.
pub struct Authorizer {
    lookup: Arc<dyn Lookup>,
    rbac: Rbac,
    nodes: NodeAuthorizer,
    modes: Modes,
}

/// The modes and compiled roles of an authorizer, without its cluster.
#[derive(Clone, Debug)]
pub struct AuthorizerImage {
    compiled: Option<Compiled>,
    modes: Modes,
}

impl AuthorizerImage {
    /// An authorizer for another cluster that starts with the same roles.
    pub fn over(&self, lookup: Arc<dyn Lookup>) -> Authorizer {
        let rbac = Rbac::with_compiled(lookup.clone(), self.compiled.clone());
        Authorizer { lookup, rbac, nodes: NodeAuthorizer::default(), modes: self.modes.clone() }
    }
}

/// An intermediate result of asking the modes.
enum ModesResult {
    Decided(Verdict),
    /// The webhook mode with this index must be called first.
    CallWebhook(usize),
}

/// Verdicts of webhooks about one request, by the index of their mode.
type Answers = Vec<(usize, Verdict)>;

impl Authorizer {
    /// An authorizer with the default modes, over the roles and objects that `lookup` shows.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self::of_modes(lookup, Modes::default())
    }

    /// An authorizer with these modes.
    pub fn of_modes(lookup: Arc<dyn Lookup>, modes: Modes) -> Self {
        Self { rbac: Rbac::new(lookup.clone()), nodes: NodeAuthorizer::default(), lookup, modes }
    }

    /// The modes and compiled roles, so that another server with the same roles need not compile them, and
    /// shares their memory. The roles may be older than the newest ones.
    pub fn image(&self) -> AuthorizerImage {
        let is_rbac = self.modes.current().iter().any(|mode| matches!(mode, Mode::Rbac));
        if is_rbac && self.rbac.compiled().is_none() {
            self.policy();
        }
        AuthorizerImage { compiled: self.rbac.compiled(), modes: self.modes.clone() }
    }

    /// Decides a request without waiting: a webhook that would have to be called has no opinion.
    pub fn decide_now(&self, attributes: &Attributes<'_>) -> Decision {
        match self.now(attributes) {
            Ok(decision) => decision,
            Err(_) => Decision::NoOpinion(String::new()),
        }
    }

    /// Decides a request if no webhook has to be called.
    ///
    /// # Errors
    /// If a webhook must be called: see [`Authorizer::decide`].
    pub fn now(&self, attributes: &Attributes<'_>) -> Result<Decision, WebhookNeeded> {
        match self.ask_modes(&self.modes.current(), attributes, &None, &Vec::new()) {
            ModesResult::Decided(verdict) => Ok(verdict.decision),
            ModesResult::CallWebhook(_) => Err(WebhookNeeded),
        }
    }

    /// Decides a request.
    pub async fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        self.verdict(&self.modes.current(), attributes).await.decision
    }

    /// Checks that a request is allowed.
    ///
    /// # Errors
    /// 403 with Kubernetes' text; 500 if no mode allows the request and a webhook failed.
    pub async fn check(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let modes = self.modes.current();
        if self.allows_at_once(&modes, attributes) {
            return Ok(());
        }
        // Boxed because it is rare: otherwise the future of every request would be twice as large.
        let Verdict { decision, error } = Box::pin(self.verdict(&modes, attributes)).await;
        match (decision, error) {
            (Decision::Allow(_), _) => Ok(()),
            (Decision::NoOpinion(_) | Decision::Deny(_), Some(error)) => Err(Status::internal(error)),
            (Decision::NoOpinion(why) | Decision::Deny(why), None) => Err(forbidden(attributes, &why)),
        }
    }

    /// Whether the request is allowed by the fast path, which builds no reason. Most requests are decided
    /// here.
    fn allows_at_once(&self, modes: &ModeList, attributes: &Attributes<'_>) -> bool {
        if is_exempt(attributes) {
            return true;
        }
        for mode in modes.iter() {
            match mode {
                Mode::Node if node::node_of(attributes.user).is_none() => {}
                Mode::Rbac => return self.policy().allows(attributes),
                Mode::AlwaysAllow => return true,
                Mode::Node | Mode::Abac(_) | Mode::Webhook(_) | Mode::AlwaysDeny => return false,
            }
        }
        false
    }

    /// Decides by these modes, also if a file replaces them while a webhook is called.
    async fn verdict(&self, modes: &ModeList, attributes: &Attributes<'_>) -> Verdict {
        let (mut question, mut answers) = (None, Answers::new());
        loop {
            match self.ask_modes(modes, attributes, &question, &answers) {
                ModesResult::Decided(verdict) => return verdict,
                ModesResult::CallWebhook(index) => {
                    let question = question.get_or_insert_with(|| Question::of(attributes));
                    let Mode::Webhook(webhook) = &modes.0[index] else {
                        unreachable!("only webhooks are asked")
                    };
                    answers.push((index, webhook.ask(question).await));
                }
            }
        }
    }

    /// Asks the modes in order. `question` is the webhooks' form of the request, if it was built already.
    fn ask_modes(
        &self,
        modes: &ModeList,
        attributes: &Attributes<'_>,
        question: &Option<Question>,
        answers: &Answers,
    ) -> ModesResult {
        let decided = |decision| ModesResult::Decided(Verdict { decision, error: None });
        if is_exempt(attributes) {
            return decided(Decision::Allow(String::new()));
        }
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        for (index, mode) in modes.iter().enumerate() {
            let decision = match mode {
                Mode::Node => self.nodes.decide(attributes, &*self.lookup),
                Mode::Rbac => self.rbac.decide(attributes),
                Mode::Abac(policies) => policies.decide(attributes),
                Mode::AlwaysAllow => Decision::Allow(String::new()),
                Mode::AlwaysDeny => Decision::NoOpinion(ALWAYS_DENIED.to_owned()),
                Mode::Webhook(webhook) => {
                    let answered =
                        answers.iter().find(|(of, _)| *of == index).map(|(_, verdict)| verdict.clone());
                    let known = || match question {
                        Some(question) => webhook.known(question),
                        None => webhook.known(&Question::of(attributes)),
                    };
                    let Some(verdict) = answered.or_else(known) else {
                        return ModesResult::CallWebhook(index);
                    };
                    errors.extend(verdict.error);
                    verdict.decision
                }
            };
            match decision {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                Decision::Allow(_) | Decision::Deny(_) => {
                    return ModesResult::Decided(Verdict { decision, error: errors.into_iter().next() });
                }
            }
        }
        let error = (!errors.is_empty()).then(|| errors.join(", "));
        ModesResult::Decided(Verdict { decision: Decision::NoOpinion(reasons.join("\n")), error })
    }

    /// The modes as they are now.
    pub fn modes(&self) -> Arc<ModeList> {
        self.modes.current()
    }

    /// The current roles and bindings, compiled.
    pub fn policy(&self) -> Arc<Policy> {
        self.rbac.policy()
    }
}

/// The error of a decision that needs a call to a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookNeeded;

/// Whether the request is allowed without asking any mode.
fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let is_public = matches!(attributes.target, Target::Path(path) if ALWAYS_ALLOWED.contains(&path));
    is_public || attributes.user.is_in(MASTERS)
}

/// The 403 for a request.
pub fn forbidden(attributes: &Attributes<'_>, why: &str) -> Status {
    let user = &attributes.user.username;
    match attributes.target {
        Target::Path(path) => Status::forbidden_path(user, attributes.verb, path, why),
        Target::Resource { group, resource, subresource, namespace, name } => {
            let denied = DeniedRequest { user, verb: attributes.verb, subresource, namespace, name, why };
            Status::forbidden_access((group, resource), &denied)
        }
    }
}
