//! The parameters of calls.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use kstore_informer::Revision;
use kstore_proto::kstore::v1 as pb;

/// The parameters of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListParams {
    /// The label selector, such as `app=web,tier!=db`; empty for all objects.
    pub labels: String,
    /// The field selector, such as `spec.nodeName=node-1`; empty for all objects.
    pub fields: String,
    /// The revision of the state; `None` for the newest.
    pub at: Option<Revision>,
    /// Whether to list objects, too, that wait for initializers.
    pub uninitialized: bool,
}

impl ListParams {
    /// Limits the list to objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.labels);
        self
    }

    /// Limits the list to objects with these fields.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.fields);
        self
    }

    /// Extends the list to objects that wait for initializers.
    #[must_use]
    pub fn include_uninitialized(mut self) -> Self {
        self.uninitialized = true;
        self
    }
}

/// The parameters of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchParams {
    /// The namespace; empty for all namespaces and for cluster-scoped resources.
    pub ns: String,
    /// The name of a single object; empty for all.
    pub name: String,
    /// The label selector, such as `app=web,tier!=db`; empty for all objects.
    pub labels: String,
    /// The field selector, such as `spec.nodeName=node-1`; empty for all objects.
    pub fields: String,
    /// Whether to watch objects, too, that wait for initializers.
    pub uninitialized: bool,
}

impl WatchParams {
    /// Limits the watch to this namespace.
    #[must_use]
    pub fn ns(mut self, ns: &str) -> Self {
        ns.clone_into(&mut self.ns);
        self
    }

    /// Limits the watch to the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Limits the watch to objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.labels);
        self
    }

    /// Limits the watch to objects with these fields.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        selector.clone_into(&mut self.fields);
        self
    }

    /// Extends the watch to objects that wait for initializers.
    #[must_use]
    pub fn include_uninitialized(mut self) -> Self {
        self.uninitialized = true;
        self
    }
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// JSON merge patch (RFC 7386): fields to set, nulls to remove.
    Merge(serde_json::Value),
    /// JSON patch (RFC 6902): a list of operations.
    Json(serde_json::Value),
    /// Strategic merge patch: like a merge patch, but lists merge by their keys.
    Strategic(serde_json::Value),
    /// Server-side apply: the fields that the caller wants to own.
    Apply {
        /// The wanted fields.
        object: serde_json::Value,
        /// Whether to take fields from other owners instead of failing.
        force: bool,
    },
}

impl Patch {
    /// The patch type, the document and `force` of the message.
    pub(crate) fn parts(&self) -> (pb::patch_request::Type, &serde_json::Value, bool) {
        match self {
            Self::Merge(value) => (pb::patch_request::Type::Merge, value, false),
            Self::Json(value) => (pb::patch_request::Type::Json, value, false),
            Self::Strategic(value) => (pb::patch_request::Type::Strategic, value, false),
            Self::Apply { object, force } => (pb::patch_request::Type::Apply, object, *force),
        }
    }
}

/// The propagation policy: how a deletion affects the object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The dependents are deleted after the object.
    Background,
    /// The dependents are deleted before the object.
    Foreground,
    /// The dependents stay without their owner.
    Orphan,
}

/// The parameters of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// The required uid.
    pub uid: Option<String>,
    /// The required revision.
    pub resource_version: Option<Revision>,
    /// The grace period in seconds; 0 removes the object at once. `None` for the kind's default.
    pub grace: Option<u32>,
    /// The propagation policy; `None` for the kind's default.
    pub propagation: Option<Propagation>,
}

impl DeleteParams {
    /// Requires this uid.
    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }

    /// Requires this revision.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.resource_version = Some(revision);
        self
    }

    /// Sets the grace period in seconds; 0 removes the object at once.
    #[must_use]
    pub fn grace(mut self, seconds: u32) -> Self {
        self.grace = Some(seconds);
        self
    }

    /// Sets the propagation policy.
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
