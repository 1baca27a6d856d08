//! The closed set of writes a controller may ask for. Plans return them, `apply` carries them out. No judgement and no
//! I/O in here.

use crate::object::Object;
use crate::resource::{Resource, resource_of};
use k8s_openapi::api::core::v1::Namespace;
use kstore_client::{Kind, Patch};
use kstore_informer::{EventType, Occurrence, Reference};
use serde_json::Value;
use std::time::Duration;

/// One write, or several that belong together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Create one object. That it exists already is an error the caller sees.
    Create(Object),
    /// Create these objects, which may be alike, in batches of 1, 2, 4, …: the next batch only if the last had no failure, so that
    /// a refusal (a quota, a webhook) costs few calls.
    CreateBatch(Vec<Object>),
    /// Replace an object; its resourceVersion guards it: that it changed, or is gone, is an error the caller sees.
    Update(Object),
    /// Replace the status of an object; guarded in the same way.
    UpdateStatus(Object),
    /// Replace a CertificateSigningRequest through its `approval` subresource; guarded in the same way.
    Approve(Object),
    /// Patch of an object. An object that is gone counts as patched. A patch that carries a resourceVersion or uid conflicts with
    /// another state of the object, which is an error the caller sees.
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
    /// Delete an object, if it still is the one that was seen. One that is gone, or was replaced by another of its name, counts as
    /// deleted; with a resourceVersion in `target`, a conflict is an error the caller sees.
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
    /// Replace the finalizers in the spec of a namespace, through its `finalize` subresource. A namespace that is gone counts as done.
    Finalize(Box<Namespace>),
    /// Tell the user.
    Event(Occurrence),
    /// Single writes that do not depend on one another: a bounded number at once, in no order. All are tried; then the first
    /// failure ends the list that this stands in.
    Together(Vec<Action>),
    /// Single writes at one revision, or none of them: creates, updates, patches and deletes, at most 128. That something is missing
    /// or has changed refuses the whole, which is an error the caller sees.
    Transaction(Vec<Action>),
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

impl Target {
    /// This object, in the state that was seen.
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

/// What a patch does with lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 7386: it replaces them, so it must carry the resourceVersion of the object whose list it has.
    Merge,
    /// Strategic merge: elements with other merge keys stay as they are.
    Strategic,
    /// Server-side apply: the fields of the patch become ours, whoever has them.
    Apply,
}

impl PatchKind {
    /// The patch as the client sends it.
    pub(crate) fn of(self, patch: &Value) -> Patch {
        match self {
            Self::Merge => Patch::Merge(patch.clone()),
            Self::Strategic => Patch::Strategic(patch.clone()),
            Self::Apply => Patch::Apply { object: patch.clone(), force: true },
        }
    }
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
    /// To be carried out in order; the first failure ends the list.
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

#[cfg(test)]
impl Action {
    /// What it creates, if it creates one of this kind.
    pub(crate) fn created<K: Kind>(&self) -> Option<K> {
        if let Self::Create(object) = self { object.typed() } else { None }
    }

    /// What it replaces an object of this kind by.
    pub(crate) fn updated<K: Kind>(&self) -> Option<K> {
        if let Self::Update(object) = self { object.typed() } else { None }
    }

    /// What it replaces the status of an object of this kind by.
    pub(crate) fn reported<K: Kind>(&self) -> Option<K> {
        if let Self::UpdateStatus(object) = self { object.typed() } else { None }
    }
}
