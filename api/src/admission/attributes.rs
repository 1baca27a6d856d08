//! [`Attributes`]: everything that admission sees of one request. Values only; who decides what is in the modules beside this one.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::kind::{Resource, Subresource};

/// What the request does, in the words of `admission.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A new object, also by an update or apply of a name that does not exist.
    Create,
    /// A change of an object, of the whole or through a subresource.
    Update,
    /// The deletion of one object; a collection is deleted object by object.
    Delete,
    /// A stream to an object: exec, attach, port forwarding, proxy.
    Connect,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Create, Self::Update, Self::Delete, Self::Connect];

    /// The word in rules and reviews.
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

/// Group, version and plural of a resource, as a request or a review names it.
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
    /// `apps/v1`, or the bare version in the core group.
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

/// The caller, with the fields of `authentication.k8s.io/v1 UserInfo`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UserInfo<'a> {
    /// The unique name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub username: &'a str,
    /// An identifier that outlives renames; often empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: &'a str,
    /// The groups, `system:authenticated` included.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub groups: &'a [String],
    /// What else the authenticator knows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// One request as admission sees it. Object and old object are in the version of the request.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// What the request does.
    pub operation: Operation,
    /// The resource of the request's path, without the subresource.
    pub resource: GroupVersionResource<'a>,
    /// The subresource of the request's path; empty for the object itself.
    pub subresource: &'a str,
    /// The kind of the object in the request: for a subresource that of its body, such as `autoscaling/v1, Kind=Scale`.
    pub kind: GroupVersionKind<'a>,
    /// Empty for cluster-scoped objects. A request for a Namespace has that namespace's own name here.
    pub namespace: &'a str,
    /// Name of the object; empty while a generated name is not known, and for a deletion of a collection.
    pub name: &'a str,
    /// Who asks.
    pub user: UserInfo<'a>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The options of the request with `apiVersion` and `kind`, such as a `meta.k8s.io/v1` `CreateOptions`.
    pub options: Option<&'a Value>,
    /// The object after the write; absent for a deletion. The options of the stream for `Connect`.
    pub object: Option<&'a Value>,
    /// The stored object; absent for a creation.
    pub old_object: Option<&'a Value>,
}

/// Kinds that configure admission: were they admitted by what they configure, a mistake could not be taken back.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

impl Attributes<'_> {
    /// Whether the request is about the configuration of admission, which no webhook and no policy sees.
    #[must_use]
    pub fn is_exempt(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&self.kind.kind)
    }

    /// Whether the request is for a Namespace object or a subresource of one.
    #[must_use]
    pub fn is_of_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }
}
