//! The modes in their order: masters, paths that everybody may read, RBAC. What none allows is forbidden.

use super::policy::Policy;
use super::rbac::Rbac;
use super::{Attributes, Decision, Target};
use crate::authn::MASTERS;
use crate::lookup::Lookup;
use kstore_api::status::{Denied, Status};
use std::sync::Arc;

/// Paths that answer even to those who may do nothing: load balancers and probes have no credentials.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The one authorizer of an apiserver.
pub struct Authorizer {
    rbac: Rbac,
}

impl Authorizer {
    /// An authorizer over the cluster that `lookup` shows.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { rbac: Rbac::new(lookup) }
    }

    /// The verdict on one request.
    pub fn decide(&self, asked: &Attributes<'_>) -> Decision {
        if is_exempt(asked) { Decision::Allow(String::new()) } else { self.rbac.decide(asked) }
    }

    /// Lets an allowed request pass.
    ///
    /// # Errors
    /// 403 with the text that clients know.
    pub fn check(&self, asked: &Attributes<'_>) -> Result<(), Status> {
        // Every request is checked, and none shows why it was allowed.
        if is_exempt(asked) || self.policy().allows(asked) {
            return Ok(());
        }
        match self.decide(asked) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(why) => Err(forbidden(asked, &why)),
        }
    }

    /// The roles and bindings as they are now.
    pub fn policy(&self) -> Arc<Policy> {
        self.rbac.policy()
    }
}

/// Whether RBAC is not asked about this request.
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
            let denied = Denied { user, verb: asked.verb, subresource, namespace, name, why };
            Status::forbidden_access((group, resource), &denied)
        }
    }
}
