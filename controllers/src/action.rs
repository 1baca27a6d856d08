//! [`Action`]: the closed set of writes that a controller's plan may contain. Plans return actions, `apply`
//! executes them. Without decisions and I/O.

use crate::object::Object;
use crate::resource::{Resource, resource_of};
use k8s_openapi::api::core::v1::Namespace;
use kstore_client::{Kind, Patch};
use kstore_informer::{EventType, Occurrence, Reference};
use serde_json::Value;
use std::time::Duration;

/// One write, or a group of related writes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Create one object. An existing object is an error for the caller.
    Create(Object),
    /// Create these objects, which may be identical, in batches of 1, 2, 4, …. A batch starts only if the
    /// previous one had no failure, so that a rejection (quota, webhook) costs few calls.
    CreateBatch(Vec<Object>),
    /// Replace an object with optimistic locking on its resourceVersion. A conflict or a missing object is an
    /// error for the caller.
    Update(Object),
    /// Replace the status of an object, with the same optimistic locking.
    UpdateStatus(Object),
    /// Replace a CertificateSigningRequest through its `approval` subresource, with the same optimistic locking.
    Approve(Object),
    /// Patch an object. A missing object counts as success. A patch with a resourceVersion or uid conflicts
    /// with another state of the object, which is an error for the caller.
    Patch {
        /// The object to patch.
        target: Target,
        /// Whether to patch the status subresource.
        status: bool,
        /// Patch type, which decides how lists are merged.
        kind: PatchKind,
        /// The changed fields.
        patch: Value,
    },
    /// Delete an object with its uid as precondition. A missing or recreated object counts as deleted. With a
    /// resourceVersion in `target`, a conflict is an error for the caller.
    Delete {
        /// The object to delete.
        target: Target,
        /// Deletion propagation to its dependents.
        propagation: Propagation,
        /// Whether to delete with grace period 0 instead of the object's own.
        force: bool,
    },
    /// Delete all objects of a kind in a namespace (delete collection).
    DeleteAll {
        /// The kind to delete.
        resource: Resource,
        /// The namespace of the objects.
        namespace: String,
    },
    /// Replace the finalizers in the spec of a namespace, through its `finalize` subresource. A missing
    /// namespace counts as success.
    Finalize(Box<Namespace>),
    /// Record an event.
    Event(Occurrence),
    /// Independent single writes: a bounded number concurrently, in no order. All are tried; the first
    /// failure then ends the enclosing list.
    Together(Vec<Action>),
    /// Atomic transaction of at most 128 creates, updates, patches and deletes at one revision. A missing or
    /// changed object rejects the whole transaction, which is an error for the caller.
    Transaction(Vec<Action>),
}

/// Reference to an object by name, with uid and version as preconditions where a stale view must not win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Kind of the object.
    pub resource: Resource,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Uid precondition; empty for none.
    pub uid: String,
    /// resourceVersion precondition of a delete. A patch has its own in `metadata.resourceVersion`.
    pub resource_version: Option<String>,
}

impl Target {
    /// Reference to this object in the observed state.
    pub(crate) fn of<K: Kind>(object: &K) -> Self {
        let metadata = object.metadata();
        Self {
            resource: resource_of::<K>(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}

/// Patch type, which decides how lists are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// JSON merge patch (RFC 7386): replaces lists, so the patch must contain the resourceVersion of the
    /// object that it was computed from.
    Merge,
    /// Strategic merge patch: list elements with other merge keys stay.
    Strategic,
    /// Server-side apply with force: the field manager takes over the fields of the patch.
    Apply,
}

impl PatchKind {
    /// The patch in the client's type.
    pub(crate) fn of(self, patch: &Value) -> Patch {
        match self {
            Self::Merge => Patch::Merge(patch.clone()),
            Self::Strategic => Patch::Strategic(patch.clone()),
            Self::Apply => Patch::Apply { object: patch.clone(), force: true },
        }
    }
}

/// Deletion propagation to the dependents of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Default of the kind.
    Default,
    /// The garbage collector deletes the dependents afterwards.
    Background,
    /// The object waits until its dependents are deleted.
    Foreground,
    /// The dependents stay.
    Orphan,
}

/// Result of a plan: writes in order, and when to run again without a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Actions to execute in order; the first failure ends the list.
    pub actions: Vec<Action>,
    /// Independent lists, for example one per object: a failure ends only its own list. They are executed
    /// concurrently with `actions`, a bounded number at once.
    pub independent: Vec<Vec<Action>>,
    /// Delay until the next run without a change.
    pub wake: Option<Duration>,
}

impl Plan {
    /// An empty plan.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// A plan with these actions.
    pub(crate) fn of(actions: Vec<Action>) -> Self {
        Self { actions, ..Self::default() }
    }

    /// All actions of the plan, in no particular order.
    #[cfg(test)]
    pub(crate) fn all_actions(&self) -> Vec<Action> {
        self.independent.iter().flatten().chain(&self.actions).cloned().collect()
    }

    /// Runs again after `wait`, or earlier if an earlier wake-up is set.
    pub(crate) fn wake_in(&mut self, wait: Duration) {
        self.wake = Some(self.wake.map_or(wait, |w| w.min(wait)));
    }
}

impl Action {
    /// An event of type Normal.
    pub(crate) fn normal(about: Reference, reason: &str, message: String) -> Self {
        Self::Event(Occurrence::new(&about, EventType::Normal, reason, message))
    }

    /// An event of type Warning.
    pub(crate) fn warning(about: Reference, reason: &str, message: String) -> Self {
        Self::Event(Occurrence::new(&about, EventType::Warning, reason, message))
    }
}

#[cfg(test)]
impl Action {
    /// The created object, if this is a create of kind `K`.
    pub(crate) fn created<K: Kind>(&self) -> Option<K> {
        if let Self::Create(object) = self { object.typed() } else { None }
    }

    /// The new state, if this is an update of kind `K`.
    pub(crate) fn updated<K: Kind>(&self) -> Option<K> {
        if let Self::Update(object) = self { object.typed() } else { None }
    }

    /// The object with the new status, if this is a status update of kind `K`.
    pub(crate) fn reported<K: Kind>(&self) -> Option<K> {
        if let Self::UpdateStatus(object) = self { object.typed() } else { None }
    }
}
