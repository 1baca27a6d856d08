//! What expressions hear when they ask the variable `authorizer`: the decisions of this server's authorizer.

use crate::authn::UserInfo;
use crate::authz::{Attributes, Authorizer, Decision, More, NotNow, Target};
use futures::future::BoxFuture;
use kstore_api::expression::authorizer::{self as expression, AccessCheck, AccessTarget, Subject};
use parking_lot::Mutex;
use std::sync::Arc;

/// What expressions about one request have asked that webhooks have to be asked for. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Access(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    answers: Vec<(UserInfo, AccessCheck, expression::Decision)>,
    open: Vec<(UserInfo, AccessCheck)>,
}

impl Access {
    /// The answer, if there is one; otherwise the decision is made again once [`Access::pending`] has completed.
    fn answer(&self, user: &UserInfo, check: &AccessCheck) -> expression::Decision {
        let mut asked = self.0.lock();
        let known = asked.answers.iter().find(|(of, about, _)| of == user && about == check);
        if let Some((_, _, answer)) = known {
            return answer.clone();
        }
        asked.open.push((user.clone(), check.clone()));
        expression::Decision::default()
    }

    /// Obtains the answers that the last evaluation missed; `None` if it missed none.
    pub(super) fn pending(&self, authorizer: &Arc<Authorizer>) -> Option<BoxFuture<'static, ()>> {
        let open = std::mem::take(&mut self.0.lock().open);
        if open.is_empty() {
            return None;
        }
        let (access, authorizer) = (self.clone(), authorizer.clone());
        Some(Box::pin(async move {
            for (user, check) in open {
                let asked = attributes(&user, &check);
                let found = answer(authorizer.decide(&asked).await);
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
        // Selectors narrow a check; the modes decide about the whole.
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

/// Decides for the expressions about one request.
pub(super) struct RequesterAuthorizer {
    /// The authorizer of the server.
    pub(super) authorizer: Arc<Authorizer>,
    /// Who sent the request.
    pub(super) requester: UserInfo,
    /// What had to be asked.
    pub(super) access: Access,
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
            Err(NotNow) => self.access.answer(user, check),
        }
    }
}
