//! [`Resource`]: group, version and plural of a resource, as plans use them. The table of resources is
//! `kstore_api::kind`.

use kstore_client::{Gvr, Kind};
use std::borrow::Cow;

/// A resource by group, version and plural.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub group: Cow<'static, str>,
    /// For example `v1`.
    pub version: Cow<'static, str>,
    /// Lower-case plural.
    pub plural: Cow<'static, str>,
    /// Whether an aggregated API server serves it.
    pub is_aggregated: bool,
}

impl Resource {
    const fn new(group: &'static str, plural: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed("v1"),
            plural: Cow::Borrowed(plural),
            is_aggregated: false,
        }
    }

    /// A resource with these names, of this API server.
    pub(crate) fn named(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { group: group.into(), version: version.into(), plural: plural.into(), is_aggregated: false }
    }
}

/// The resource of a kind.
pub(crate) fn resource_of<K: Kind>() -> Resource {
    Resource::named(K::GROUP, K::VERSION, K::URL_PATH_SEGMENT)
}

/// The resource in the client's type.
pub(crate) fn gvr(resource: &Resource) -> Gvr {
    Gvr::new(resource.group.clone(), resource.version.clone(), resource.plural.clone())
}

pub(crate) const PODS: Resource = Resource::new("", "pods");
pub(crate) const EVENTS: Resource = Resource::new("", "events");
pub(crate) const NAMESPACES: Resource = Resource::new("", "namespaces");
pub(crate) const NODES: Resource = Resource::new("", "nodes");
pub(crate) const ENDPOINTS: Resource = Resource::new("", "endpoints");
pub(crate) const ENDPOINTSLICES: Resource = Resource::new("discovery.k8s.io", "endpointslices");
pub(crate) const IPADDRESSES: Resource = Resource::new("networking.k8s.io", "ipaddresses");
pub(crate) const SERVICECIDRS: Resource = Resource::new("networking.k8s.io", "servicecidrs");
pub(crate) const POLICIES: Resource =
    Resource::new("admissionregistration.k8s.io", "validatingadmissionpolicies");
pub(crate) const DEFINITIONS: Resource = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
pub(crate) const CLUSTERROLES: Resource = Resource::new("rbac.authorization.k8s.io", "clusterroles");
#[cfg(test)]
pub(crate) const CONFIGMAPS: Resource = Resource::new("", "configmaps");
