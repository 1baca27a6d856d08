//! The CEL variable `authorizer` of admission expressions: decisions of this server's authorizer.

use futures::future::BoxFuture;
use kstore_access::authz::{Attributes, Authorizer, Decision, More, Target, WebhookNeeded};
use kstore_api::expression::authorizer::{self as expression, AccessCheck, AccessTarget, Subject};
use kstore_registry::user::UserInfo;
use parking_lot::Mutex;
use std::sync::Arc;

/// Access checks of the expressions about one request, with the answers of authorization webhooks. Clones
/// share them.
#[derive(Clone, Default)]
pub(super) struct AccessChecks(Arc<Mutex<AccessState>>);

#[derive(Default)]
struct AccessState {
    answers: Vec<(UserInfo, AccessCheck, expression::Decision)>,
    unanswered: Vec<(UserInfo, AccessCheck)>,
}

impl AccessChecks {
    /// The answer, if it is known. Otherwise records the check: the decision is made again once
    /// [`AccessChecks::pending`] has completed.
    fn answer(&self, user: &UserInfo, check: &AccessCheck) -> expression::Decision {
        let mut state = self.0.lock();
        let known = state.answers.iter().find(|(of, about, _)| of == user && about == check);
        if let Some((_, _, answer)) = known {
            return answer.clone();
        }
        state.unanswered.push((user.clone(), check.clone()));
        expression::Decision::default()
    }

    /// Obtains the answers that the last evaluation lacked; `None` if it lacked none.
    pub(super) fn pending(&self, authorizer: &Arc<Authorizer>) -> Option<BoxFuture<'static, ()>> {
        let unanswered = std::mem::take(&mut self.0.lock().unanswered);
        if unanswered.is_empty() {
            return None;
        }
        let (access, authorizer) = (self.clone(), authorizer.clone());
        Some(Box::pin(async move {
            for (user, check) in unanswered {
                let check_attributes = attributes(&user, &check);
                let found = answer(authorizer.decide(&check_attributes).await);
                access.0.lock().answers.push((user, check, found));
            }
        }))
    }
}

fn answer(decision: Decision) -> expression::Decision {
    let (allowed, reason) = match decision {
        Decision::Allow(reason) => (true, reason),
        Decision::NoOpinion(reason) | Decision::Deny(reason) => (false, reason),
    };
    expression::Decision { allowed, reason, error: None }
}

fn attributes<'a>(user: &'a UserInfo, check: &'a AccessCheck) -> Attributes<'a> {
    let target = match &check.target {
        AccessTarget::Path(path) => Target::Path(path),
        // Selectors would narrow a check; without them the modes decide about all objects.
        AccessTarget::Resource(access) => Target::Resource {
            group: &access.group,
            resource: &access.resource,
            subresource: &access.subresource,
            namespace: &access.namespace,
            name: &access.name,
        },
    };
    Attributes { user, verb: &check.verb, target, more: More::default() }
}

/// The authorizer for the expressions about one request.
pub(super) struct RequesterAuthorizer {
    /// The server's authorizer.
    pub(super) authorizer: Arc<Authorizer>,
    /// The user that sent the request.
    pub(super) requester: UserInfo,
    /// The checks that need a webhook.
    pub(super) access: AccessChecks,
}

impl expression::Authorizer for RequesterAuthorizer {
    fn decide(&self, check: &AccessCheck) -> expression::Decision {
        let account;
        let user = match &check.subject {
            Subject::Requester => &self.requester,
            Subject::ServiceAccount { namespace, name } => {
                account = UserInfo::service_account(namespace, name);
                &account
            }
        };
        match self.authorizer.now(&attributes(user, check)) {
            Ok(decision) => answer(decision),
            Err(WebhookNeeded) => self.access.answer(user, check),
        }
    }
}
