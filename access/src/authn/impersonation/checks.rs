//! [`ModeChecks`]: the permissions that one mode asks for, and the user that they allow.

use super::extra::extra_fault;
use super::metrics::ImpersonationMetrics;
use super::mode::{ImpersonationMode, node, service_account};
use crate::authz::{Attributes, Authorizer, Decision, More, RequestedAttributes, Target, forbidden};
use kstore_api::status::Status;
use kstore_registry::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo};
use tokio::time::Instant;

const AUTHENTICATION: &str = "authentication.k8s.io";

/// Groups, or values of extra fields, from which on a constrained mode first asks for all of them by one check for `*`, as in
/// Kubernetes.
const MANY: usize = 4;

/// Decides about attributes: an [`Authorizer`], or a table in tests.
pub trait Decide: Sync {
    /// The decision.
    fn decide(&self, attributes: &Attributes<'_>) -> impl Future<Output = Decision> + Send;
}

impl Decide for Authorizer {
    async fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        Authorizer::decide(self, attributes).await
    }
}

/// The checks of one mode for one caller.
pub(super) struct ModeChecks<'a, D> {
    pub(super) mode: ImpersonationMode,
    /// The caller as authorizers see it in this mode.
    pub(super) requester: &'a UserInfo,
    pub(super) decide: &'a D,
    pub(super) metrics: &'a ImpersonationMetrics,
}

/// A part of an identity, as the resource that a role names.
#[derive(Clone, Copy, Default)]
struct IdentityPart<'a> {
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<D: Decide> ModeChecks<'_, D> {
    /// The impersonated user, with its implied groups, if each permission is there. `request` is what the caller asks for; without it
    /// only the mode without a constraint can allow.
    ///
    /// # Errors
    /// 403 for the first permission that is missing.
    pub(super) async fn user(
        &self,
        wanted: &UserInfo,
        request: Option<&RequestedAttributes>,
    ) -> Result<UserInfo, Status> {
        if self.mode.is_constrained() {
            let request = request.ok_or_else(|| Status::internal("a constrained mode needs a request"))?;
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), request.verb());
            self.permit(&request.attributes(self.requester, &verb)).await?;
        }
        self.permit_part(self.username(&wanted.username)).await?;
        if !wanted.uid.is_empty() {
            let uid = IdentityPart {
                group: AUTHENTICATION,
                resource: "uids",
                name: &wanted.uid,
                ..Default::default()
            };
            self.permit_part(uid).await?;
        }
        self.permit_groups(&wanted.groups).await?;
        self.permit_extra(wanted).await?;
        let mut user = wanted.clone();
        self.complete_groups(&mut user);
        Ok(user)
    }

    /// The part of a user name: a node, a service account or a user.
    fn username<'a>(&self, username: &'a str) -> IdentityPart<'a> {
        let group = self.group();
        let part = |resource, name| IdentityPart { group, resource, name, ..Default::default() };
        match (node(username).filter(|_| self.mode.is_constrained()), service_account(username)) {
            (Some(_), _) if self.mode == ImpersonationMode::AssociatedNode => part("nodes", "*"),
            (Some(node), _) => part("nodes", node),
            (None, Some((namespace, name))) => IdentityPart { namespace, ..part("serviceaccounts", name) },
            (None, None) => part("users", username),
        }
    }

    /// The API group of users, groups, service accounts and nodes.
    fn group(&self) -> &'static str {
        if self.mode.is_constrained() { AUTHENTICATION } else { "" }
    }

    async fn permit_groups(&self, groups: &[String]) -> Result<(), Status> {
        let part =
            |name| IdentityPart { group: self.group(), resource: "groups", name, ..Default::default() };
        if self.mode.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(self.refuse(part(""), why));
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.refuse(part(MASTERS), why));
            }
            if groups.len() >= MANY && self.permit_part(part("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.permit_part(part(group)).await?;
        }
        Ok(())
    }

    async fn permit_extra(&self, wanted: &UserInfo) -> Result<(), Status> {
        let part = |subresource, name| IdentityPart {
            group: AUTHENTICATION,
            resource: "userextras",
            subresource,
            name,
            ..Default::default()
        };
        if self.mode.is_constrained() {
            if let Some(fault) = extra_fault(&wanted.extra) {
                return Err(self.refuse(part("", ""), &fault));
            }
            let is_many = wanted.extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if is_many && self.permit_part(part("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in &wanted.extra {
            for value in values {
                self.permit_part(part(key, value)).await?;
            }
        }
        Ok(())
    }

    async fn permit_part(&self, part: IdentityPart<'_>) -> Result<(), Status> {
        self.permit(&self.attributes(part)).await
    }

    async fn permit(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let began = Instant::now();
        let decision = self.decide.decide(attributes).await;
        let is_allowed = matches!(decision, Decision::Allow(_));
        self.metrics.checked(self.mode, is_allowed, began.elapsed());
        match decision {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(why) | Decision::Deny(why) => Err(forbidden(attributes, &why)),
        }
    }

    fn refuse(&self, part: IdentityPart<'_>, why: &str) -> Status {
        forbidden(&self.attributes(part), why)
    }

    fn attributes<'a>(&'a self, part: IdentityPart<'a>) -> Attributes<'a> {
        let IdentityPart { group, resource, subresource, namespace, name } = part;
        let target = Target::Resource { group, resource, subresource, namespace, name };
        let more = More { version: "v1", selects: None };
        Attributes { user: self.requester, verb: self.mode.verb(), target, more }
    }

    /// Adds implied groups: those of a service account, or in constrained modes of a node, without any groups, and
    /// `system:authenticated` or `system:unauthenticated`.
    fn complete_groups(&self, user: &mut UserInfo) {
        if user.groups.is_empty() {
            user.groups = match (self.username(&user.username), service_account(&user.username)) {
                (IdentityPart { resource: "nodes", .. }, _) => vec!["system:nodes".into()],
                (_, Some((namespace, _))) => {
                    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")]
                }
                _ => Vec::new(),
            };
        }
        let implied = if user.username == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
            user.groups.push(implied.into());
        }
    }
}
