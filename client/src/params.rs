//! What calls can be told beyond their object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use kstore_informer::Revision;
use kstore_proto::kstore::v1 as pb;

/// Which objects to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListParams {
    /// As `app=web,tier!=db`; empty for all.
    pub labels: String,
    /// As `spec.nodeName=node-1`; empty for all.
    pub fields: String,
    /// State at exactly this revision; `None` for the newest.
    pub at: Option<Revision>,
}

impl ListParams {
    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.labels);
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.fields);
        self
    }
}

/// Which objects to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchParams {
    /// Empty for all namespaces, or for objects without one.
    pub ns: String,
    /// Only the object of this name; empty for all.
    pub name: String,
    /// As `app=web,tier!=db`; empty for all.
    pub labels: String,
    /// As `spec.nodeName=node-1`; empty for all.
    pub fields: String,
}

impl WatchParams {
    /// Only objects of this namespace.
    #[must_use]
    pub fn ns(mut self, ns: &str) -> Self {
        ns.clone_into(&mut self.ns);
        self
    }

    /// Only the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.labels);
        self
    }

    /// Only objects with these fields.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.fields);
        self
    }
}

/// How to change an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7386: fields to set, nulls to remove.
    Merge(serde_json::Value),
    /// RFC 6902: a list of operations.
    Json(serde_json::Value),
    /// Kubernetes' strategic merge: like a merge, lists merge by their keys.
    Strategic(serde_json::Value),
    /// Server-side apply: the fields that the caller wants to own.
    Apply {
        /// The wanted fields.
        object: serde_json::Value,
        /// Take fields from other owners instead of failing.
        force: bool,
    },
}

impl Patch {
    /// Type, document and force, as a call carries them.
    pub(crate) fn parts(&self) -> (pb::patch_request::Type, &serde_json::Value, bool) {
        match self {
            Self::Merge(value) => (pb::patch_request::Type::Merge, value, false),
            Self::Json(value) => (pb::patch_request::Type::Json, value, false),
            Self::Strategic(value) => (pb::patch_request::Type::Strategic, value, false),
            Self::Apply { object, force } => (pb::patch_request::Type::Apply, object, *force),
        }
    }
}

/// What becomes of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay, without their owner.
    Orphan,
}

/// How to delete an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// Only if it has this uid.
    pub uid: Option<String>,
    /// Only if it is at this revision.
    pub resource_version: Option<Revision>,
    /// Seconds that it may take to end; 0 removes it at once. `None` for the kind's default.
    pub grace: Option<u32>,
    /// `None` for the kind's default.
    pub propagation: Option<Propagation>,
}

impl DeleteParams {
    /// Only the object of this uid.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }

    /// Only if it is still at this revision.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.resource_version = Some(revision);
        self
    }

    /// With this grace period in seconds; 0 removes it at once.
    #[must_use]
    pub fn grace(mut self, seconds: u32) -> Self {
        self.grace = Some(seconds);
        self
    }

    /// With this done to dependents.
    #[must_use]
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation = Some(propagation);
        self
    }

    pub(crate) fn options(&self) -> DeleteOptions {
        let preconditions = (self.uid.is_some() || self.resource_version.is_some()).then(|| Preconditions {
            uid: self.uid.clone(),
            resource_version: self.resource_version.map(|revision| revision.to_string()),
        });
        let propagation = self.propagation.map(|propagation| match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        });
        DeleteOptions {
            grace_period_seconds: self.grace.map(i64::from),
            preconditions,
            propagation_policy: propagation.map(str::to_owned),
            ..DeleteOptions::default()
        }
    }
}
