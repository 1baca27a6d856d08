//! What expressions hear when they ask the variable `authorizer`: the decisions of this server's authorizer.

use crate::authn::UserInfo;
use crate::authz::{Attributes, Authorizer, Decision, Target};
use kstore_api::expression::authorizer::{self as expression, AccessCheck, AccessTarget, Subject};
use std::sync::Arc;

/// Decides for the expressions about one request.
pub(super) struct RequesterAuthorizer {
    /// The authorizer of the server.
    pub(super) authorizer: Arc<Authorizer>,
    /// Who sent the request.
    pub(super) requester: UserInfo,
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
        let target = match &check.target {
            AccessTarget::Path(path) => Target::Path(path),
            // Selectors narrow a check; RBAC, which does not know them, decides about the whole.
            AccessTarget::Resource(access) => Target::Resource {
                group: &access.group,
                resource: &access.resource,
                subresource: &access.subresource,
                namespace: &access.namespace,
                name: &access.name,
            },
        };
        let decision = self.authorizer.decide(&Attributes { user, verb: &check.verb, target });
        let (allowed, reason) = match decision {
            Decision::Allow(reason) => (true, reason),
            Decision::NoOpinion(reason) => (false, reason),
        };
        expression::Decision { allowed, reason, error: None }
    }
}
