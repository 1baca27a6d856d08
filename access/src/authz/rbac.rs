//! The RBAC mode: decides by a [`Policy`] that follows the changes of roles and bindings. Policies are in
//! `policy` and `rule`.

use super::policy::Policy;
use super::{Attributes, Decision};
use kstore_registry::derived::{Derivation, Derived};
use kstore_registry::lookup::Lookup;
use std::sync::Arc;

/// A policy and the position of the roles and bindings from which it was compiled.
pub(super) type Compiled = Derivation<Policy>;

/// The RBAC authorizer of one cluster. Decides by the newest durable roles and bindings.
pub struct Rbac {
    lookup: Arc<dyn Lookup>,
    compiled: Derived<Policy>,
}

impl Rbac {
    /// An authorizer over the cluster that `lookup` shows.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self::with_compiled(lookup, None)
    }

    /// An authorizer that starts with a policy compiled for another server with the same history of roles and
    /// bindings up to the policy's position.
    pub(super) fn with_compiled(lookup: Arc<dyn Lookup>, compiled: Option<Compiled>) -> Self {
        Self { lookup, compiled: Derived::starting_with(compiled) }
    }

    /// The last compiled policy; it may be outdated.
    pub(super) fn compiled(&self) -> Option<Compiled> {
        self.compiled.last()
    }

    /// Decides a request.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        self.policy().decide(attributes)
    }

    /// The current roles and bindings, compiled. After a change this takes time that does not depend on the
    /// number of roles and bindings.
    pub fn policy(&self) -> Arc<Policy> {
        self.compiled.get(&*self.lookup)
    }
}
