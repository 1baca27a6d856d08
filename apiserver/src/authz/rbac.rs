//! The RBAC mode: decides by a [`Policy`] that is compiled again after a role or binding has changed.
//! Policies are in `policy` and `rule`.

use super::policy::{Policy, Versions, kinds};
use super::{Attributes, Decision};
use crate::lookup::Lookup;
use parking_lot::Mutex;
use std::sync::Arc;

/// A policy and the versions of the four kinds from which it was compiled.
pub(super) type Compiled = (Versions, Arc<Policy>);

/// The RBAC authorizer of one cluster. Decides by the newest durable roles and bindings.
pub struct Rbac {
    lookup: Arc<dyn Lookup>,
    compiled: Mutex<Option<Compiled>>,
}

impl Rbac {
    /// An authorizer over the cluster that `lookup` shows.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, compiled: Mutex::new(None) }
    }

    /// An authorizer that starts with a policy compiled for another server with the same roles. The policy is
    /// used while the four kinds have the versions from which it was compiled.
    pub(super) fn with_compiled(lookup: Arc<dyn Lookup>, compiled: Option<Compiled>) -> Self {
        Self { lookup, compiled: Mutex::new(compiled) }
    }

    /// The last compiled policy; it may be outdated.
    pub(super) fn compiled(&self) -> Option<Compiled> {
        self.compiled.lock().clone()
    }

    /// Decides a request.
    pub fn decide(&self, asked: &Attributes<'_>) -> Decision {
        self.policy().decide(asked)
    }

    /// The current roles and bindings, compiled.
    pub fn policy(&self) -> Arc<Policy> {
        let versions = kinds().map(|kind| self.lookup.version(kind));
        let previous = match self.compiled() {
            Some((compiled_at, policy)) if compiled_at == versions => return policy,
            outdated => outdated.map(|(_, policy)| policy),
        };
        // Compiled without the lock: two callers may compile at once, both from state at least as new as
        // `versions`.
        let policy = Arc::new(Policy::compile_after(&*self.lookup, previous.as_deref()));
        *self.compiled.lock() = Some((versions, policy.clone()));
        policy
    }
}
