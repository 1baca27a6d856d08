//! The modes in their order: masters, paths that everybody may read, then RBAC or one verdict for all. What none allows is forbidden.

use super::policy::Policy;
use super::rbac::{Compiled, Rbac};
use super::{Attributes, Decision, Target};
use crate::authn::MASTERS;
use crate::lookup::Lookup;
use kstore_api::status::{Denied, Status};
use std::sync::Arc;

/// Paths that answer even to those who may do nothing: load balancers and probes have no credentials.
const ALWAYS_ALLOWED: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// What decides about requests that are not exempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Roles and bindings.
    #[default]
    Rbac,
    /// Everything is allowed.
    AlwaysAllow,
    /// Nothing is allowed.
    AlwaysDeny,
}

/// The reason that Kubernetes gives for every verdict of AlwaysDeny.
const ALWAYS_DENIED: &str = "Everything is forbidden.";

/// The one authorizer of an apiserver.
pub struct Authorizer {
    rbac: Rbac,
    mode: Mode,
}

/// The mode of an authorizer and its compiled roles, without the cluster that they come from.
#[derive(Debug)]
pub(crate) struct AuthorizerImage {
    compiled: Option<Compiled>,
    mode: Mode,
}

impl AuthorizerImage {
    /// An authorizer of a cluster whose roles were the same when it began.
    pub(crate) fn over(&self, lookup: Arc<dyn Lookup>) -> Authorizer {
        Authorizer { rbac: Rbac::with_compiled(lookup, self.compiled.clone()), mode: self.mode }
    }
}

impl Authorizer {
    /// An authorizer by the roles of the cluster that `lookup` shows.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self::of_mode(lookup, Mode::Rbac)
    }

    /// An authorizer of a mode.
    pub fn of_mode(lookup: Arc<dyn Lookup>, mode: Mode) -> Self {
        Self { rbac: Rbac::new(lookup), mode }
    }

    /// What another server with the same roles needs not compile again.
    pub(crate) fn image(&self) -> AuthorizerImage {
        AuthorizerImage { compiled: self.rbac.compiled(), mode: self.mode }
    }

    /// The verdict on one request.
    pub fn decide(&self, asked: &Attributes<'_>) -> Decision {
        if is_exempt(asked) {
            return Decision::Allow(String::new());
        }
        match self.mode {
            Mode::Rbac => self.rbac.decide(asked),
            Mode::AlwaysAllow => Decision::Allow(String::new()),
            Mode::AlwaysDeny => Decision::NoOpinion(ALWAYS_DENIED.to_owned()),
        }
    }

    /// Lets an allowed request pass.
    ///
    /// # Errors
    /// 403 with the text that clients know.
    pub fn check(&self, asked: &Attributes<'_>) -> Result<(), Status> {
        // Every request is checked, and none shows why it was allowed.
        if is_exempt(asked) || self.mode == Mode::Rbac && self.policy().allows(asked) {
            return Ok(());
        }
        match self.decide(asked) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(why) => Err(forbidden(asked, &why)),
        }
    }

    /// What decides.
    pub fn mode(&self) -> Mode {
        self.mode
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
