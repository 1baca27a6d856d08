//! The RBAC mode: questions are answered from a [`Policy`] that is compiled anew when a role or binding has changed. Not the
//! rules themselves: those are in `policy` and `rule`.

use super::policy::{Policy, Versions, kinds};
use super::{Attributes, Decision};
use crate::lookup::Lookup;
use parking_lot::Mutex;
use std::sync::Arc;

/// A policy and the state of the four kinds that it was compiled from.
pub(super) type Compiled = (Versions, Arc<Policy>);

/// The RBAC authorizer of one cluster. Answers with the newest durable roles and bindings.
pub struct Rbac {
    lookup: Arc<dyn Lookup>,
    compiled: Mutex<Option<Compiled>>,
}

impl Rbac {
    /// An authorizer over the cluster that `lookup` shows.
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, compiled: Mutex::new(None) }
    }

    /// As [`Rbac::new`], with a policy that was compiled for another server with the same roles. It serves as long as the versions of
    /// the four kinds are those that it was compiled at.
    pub(super) fn with_compiled(lookup: Arc<dyn Lookup>, compiled: Option<Compiled>) -> Self {
        Self { lookup, compiled: Mutex::new(compiled) }
    }

    /// The policy that was compiled last; it may be out of date.
    pub(super) fn compiled(&self) -> Option<Compiled> {
        self.compiled.lock().clone()
    }

    /// The verdict on one request.
    pub fn decide(&self, asked: &Attributes<'_>) -> Decision {
        self.policy().decide(asked)
    }

    /// The roles and bindings as they are now.
    pub fn policy(&self) -> Arc<Policy> {
        let versions = kinds().map(|kind| self.lookup.version(kind));
        if let Some((compiled_at, policy)) = &*self.compiled.lock()
            && *compiled_at == versions
        {
            return policy.clone();
        }
        // Compiled outside of the lock: two callers may do it at once, both from state at least as new as `versions`.
        let policy = Arc::new(Policy::compile(&*self.lookup));
        *self.compiled.lock() = Some((versions, policy.clone()));
        policy
    }
}
