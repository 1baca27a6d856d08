//! [`Gvr`]: the group, version and plural name of a resource, as in URLs and calls.

use k8s_openapi::Resource;
use kstore_proto::kstore::v1 as pb;
use std::borrow::Cow;
use std::fmt;

/// Group, version and plural name of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvr {
    /// The group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The version, such as `v1`.
    pub version: Cow<'static, str>,
    /// The plural name in lower case, such as `pods`.
    pub resource: Cow<'static, str>,
}

impl Gvr {
    /// The resource with these names.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        resource: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// The resource of a type.
    pub fn of<K: Resource>() -> Self {
        Self::new(K::GROUP, K::VERSION, K::URL_PATH_SEGMENT)
    }

    /// The reference in a call to an object; with an empty name, to all objects of the namespace.
    pub(crate) fn reference(&self, namespace: &str, name: &str, subresource: &str) -> pb::Ref {
        pb::Ref {
            group: self.group.to_string(),
            version: self.version.to_string(),
            resource: self.resource.to_string(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

impl fmt::Display for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_ref() {
            "" => write!(f, "{}/{}", self.version, self.resource),
            group => write!(f, "{group}/{}/{}", self.version, self.resource),
        }
    }
}
