//! The closed set of writes a controller may ask for. Plans return them, `apply` carries them out. No judgement and no
//! I/O in here.

use crate::resource::Resource;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Namespace, Pod, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::IPAddress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kstore_informer::{EventType, Occurrence, Reference};
use serde_json::Value;
use std::time::Duration;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Create one object. That it exists already is an error the caller sees.
    Create(Object),
    /// Create `count` pods alike (the server generates the names), in slow-start batches.
    CreatePods {
        /// What each of them looks like.
        pod: Box<Pod>,
        /// How many.
        count: usize,
    },
    /// Replace an object; its resourceVersion guards it.
    Update(Object),
    /// Replace the status of an object; its resourceVersion guards it.
    UpdateStatus(Object),
    /// Patch of an object. An object that is gone counts as patched.
    Patch {
        /// Which.
        target: Target,
        /// Through the status subresource.
        status: bool,
        /// How lists are patched.
        kind: PatchKind,
        /// The members that change.
        patch: Value,
    },
    /// Delete an object, if it still is the one that was seen.
    Delete {
        /// Which.
        target: Target,
        /// What becomes of its dependents.
        propagation: Propagation,
        /// At once (grace period 0) instead of with the object's own grace.
        force: bool,
    },
    /// Delete all objects of a kind in a namespace.
    DeleteAll {
        /// The kind.
        resource: Resource,
        /// Where.
        namespace: String,
    },
    /// Replace the finalizers in the spec of a namespace, through its `finalize` subresource.
    Finalize(Box<Namespace>),
    /// Tell the user.
    Event(Occurrence),
}

/// An object that some action carries whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    ConfigMap(Box<ConfigMap>),
    Deployment(Box<Deployment>),
    DisruptionBudget(Box<PodDisruptionBudget>),
    EndpointSlice(Box<EndpointSlice>),
    Endpoints(Box<Endpoints>),
    IpAddress(Box<IPAddress>),
    Namespace(Box<Namespace>),
    ReplicaSet(Box<ReplicaSet>),
    ServiceAccount(Box<ServiceAccount>),
}

/// An object by its name, and by its uid and version where a stale view must not win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The kind.
    pub resource: Resource,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Precondition; empty for none.
    pub uid: String,
    /// Precondition of a delete. A patch carries its own in `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

/// What a patch does with lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 7386: it replaces them, so it must carry the resourceVersion of the object whose list it has.
    Merge,
    /// Strategic merge: elements with other merge keys stay as they are.
    Strategic,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// As the kind's default says.
    Default,
    /// They are collected afterwards.
    Background,
    /// The object waits for them.
    Foreground,
    /// They stay.
    Orphan,
}

/// What a plan returns: writes in order, and when to look again if nothing happens before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// To be carried out in order; the first failure ends the list. Neighbours that are all patches, or all deletes, are carried
    /// out at once: a patch that depends on the success of another one belongs to a later plan.
    pub actions: Vec<Action>,
    /// Lists of their own, one per object for example: a failure ends its list and no other. They are carried out beside
    /// `actions`, a bounded number of them at once.
    pub independent: Vec<Vec<Action>>,
    /// Look again after this long.
    pub wake: Option<Duration>,
}

impl Plan {
    /// Nothing to do.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// These writes.
    pub(crate) fn of(actions: Vec<Action>) -> Self {
        Self { actions, ..Self::default() }
    }

    /// Every write, in no order.
    #[cfg(test)]
    pub(crate) fn all_actions(&self) -> Vec<Action> {
        self.independent.iter().flatten().chain(&self.actions).cloned().collect()
    }

    /// Looks again after `wait`, or earlier if an earlier wake-up is set.
    pub(crate) fn wake_in(&mut self, wait: Duration) {
        self.wake = Some(self.wake.map_or(wait, |w| w.min(wait)));
    }
}

impl Action {
    /// Normal event.
    pub(crate) fn normal(about: Reference, reason: &str, message: String) -> Self {
        Self::Event(Occurrence::new(&about, EventType::Normal, reason, message))
    }

    /// Warning event.
    pub(crate) fn warning(about: Reference, reason: &str, message: String) -> Self {
        Self::Event(Occurrence::new(&about, EventType::Warning, reason, message))
    }
}
