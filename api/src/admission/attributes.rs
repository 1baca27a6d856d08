//! [`Attributes`]: the facts about one request that admission uses. Values only, without decisions.

use crate::resource::{Resource, Subresource};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Operation of a request, in the terms of `admission.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A new object, also by an update or apply of a name that does not exist.
    Create,
    /// A change of an object, as a whole or through a subresource.
    Update,
    /// The deletion of one object; a collection is deleted object by object.
    Delete,
    /// A stream to an object: exec, attach, port forwarding, proxy.
    Connect,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Create, Self::Update, Self::Delete, Self::Connect];

    /// Name of the operation in rules and reviews.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Group, version and plural of a resource in a request or review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupVersionResource<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Version inside the group.
    pub version: &'a str,
    /// Lower-case plural.
    pub resource: &'a str,
}

/// Group, version and kind of an object. `Display` is Go's form: `apps/v1, Kind=Deployment`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupVersionKind<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Version inside the group.
    pub version: &'a str,
    /// Kind of the object.
    pub kind: &'a str,
}

impl fmt::Display for GroupVersionKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl GroupVersionKind<'_> {
    /// The `apiVersion`: `apps/v1`, or the bare version in the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl From<&'static Resource> for GroupVersionResource<'static> {
    fn from(row: &'static Resource) -> Self {
        Self { group: row.group, version: row.version, resource: row.plural }
    }
}

impl From<&'static Resource> for GroupVersionKind<'static> {
    fn from(row: &'static Resource) -> Self {
        Self { group: row.group, version: row.version, kind: row.kind }
    }
}

impl From<&'static Subresource> for GroupVersionKind<'static> {
    fn from(sub: &'static Subresource) -> Self {
        Self { group: sub.group, version: sub.version, kind: sub.kind }
    }
}

/// User of a request, with the fields of `authentication.k8s.io/v1 UserInfo`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UserInfo<'a> {
    /// Unique name of the user.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub username: &'a str,
    /// Identifier that outlives renames; often empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: &'a str,
    /// Groups, `system:authenticated` included.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub groups: &'a [String],
    /// Additional values from the authenticator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// One request as admission sees it. Object and old object have the version of the request.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Operation of the request.
    pub operation: Operation,
    /// Resource in the request's path, without the subresource.
    pub resource: GroupVersionResource<'a>,
    /// Subresource in the request's path; empty for the object itself.
    pub subresource: &'a str,
    /// Kind of the request's object. For a subresource it is the kind of the body, such as `autoscaling/v1,
    /// Kind=Scale`.
    pub kind: GroupVersionKind<'a>,
    /// Namespace; empty for cluster-scoped objects. Requests for a Namespace have its own name here.
    pub namespace: &'a str,
    /// Name of the object; empty before a generated name is known, and for the deletion of a collection.
    pub name: &'a str,
    /// User of the request.
    pub user: UserInfo<'a>,
    /// Whether this is a dry run.
    pub dry_run: bool,
    /// Options of the request with `apiVersion` and `kind`, such as a `meta.k8s.io/v1` `CreateOptions`.
    pub options: Option<&'a Value>,
    /// The object after the write; absent for a deletion. For `Connect` these are the options of the stream.
    pub object: Option<&'a Value>,
    /// The stored object; absent on create.
    pub old_object: Option<&'a Value>,
}

/// Kinds that configure admission. If admission applied to them, a mistake could block its own correction.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

impl Attributes<'_> {
    /// Whether the request is for the configuration of admission, which webhooks and policies never see.
    #[must_use]
    pub fn is_exempt(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&self.kind.kind)
    }

    /// Whether the request is for a Namespace object or its subresource.
    #[must_use]
    pub fn is_of_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }
}
