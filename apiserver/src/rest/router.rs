//! Routing: URL and method → operation, by the grammar of Kubernetes' paths. Pure; it reads no bodies and
//! knows no handlers.

use http::Method;
use kstore_access::percent_encoding::decode;
use kstore_access::resource_location::{PathRemainder, ResourceLocation};
use kstore_api::resource::Resource;
use kstore_registry::kinds::{CustomVersion, Kinds};

/// The meaning of a path.
#[derive(Clone, Debug)]
pub enum Route {
    /// A resource that is served.
    Resource(ResourcePath),
    /// A path outside the resource API: discovery, health, OpenAPI, our own endpoints.
    Path,
    /// A resource path in an unknown group.
    UnknownGroup(ResourceLocation),
    /// A resource path with an unknown version or plural.
    UnknownResource(ResourceLocation),
}

/// A location in the resource tree whose resource is served.
#[derive(Clone, Debug)]
pub struct ResourcePath {
    /// The row of the resource in the table of kinds.
    pub resource: &'static Resource,
    /// The definition of a custom kind.
    pub custom: Option<CustomVersion>,
    /// The subresource, or "".
    pub subresource: String,
    /// The namespace, or "".
    pub namespace: String,
    /// The object's name, or "".
    pub name: String,
    /// Whether the path has the deprecated `/watch/` form.
    pub watch: bool,
}

impl ResourcePath {
    /// The location for authorization.
    pub(super) fn location(&self) -> ResourceLocation {
        ResourceLocation {
            group: self.resource.group.to_owned(),
            resource: self.resource.plural.to_owned(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            watch: self.watch,
        }
    }
}

/// The operation of a method on a resource path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// GET or HEAD with a name.
    Get,
    /// GET without a name.
    List,
    /// GET with `watch`.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE with a name.
    Delete,
    /// DELETE without a name.
    DeleteCollection,
}

impl Operation {
    /// The verb for authorization and metrics.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// The name of the operation's options in refusals.
    pub(super) fn options(self) -> &'static str {
        match self {
            Self::Get => "GetOptions",
            Self::List | Self::Watch => "ListOptions",
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch => "PatchOptions",
            Self::Delete | Self::DeleteCollection => "DeleteOptions",
        }
    }
}

/// Routes a path, which is still percent-encoded.
pub fn route(kinds: &Kinds, path: &str) -> Route {
    let segments: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => resource_path(kinds, "", version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => resource_path(kinds, group, version, rest),
        _ => Route::Path,
    }
}

/// The operation of `method` on `path`; `None` if the method is not allowed there.
pub fn operation(method: &Method, path: &ResourcePath, watch: bool) -> Option<Operation> {
    let named = !path.name.is_empty();
    let watch = watch || path.watch;
    // Across all namespaces, only reading is allowed.
    let everywhere = path.resource.namespaced && path.namespace.is_empty() && !named;
    Some(match *method {
        Method::GET | Method::HEAD if watch && path.subresource.is_empty() => Operation::Watch,
        Method::GET | Method::HEAD if named => Operation::Get,
        Method::GET | Method::HEAD => Operation::List,
        Method::POST if (!named && !everywhere) || !path.subresource.is_empty() => Operation::Create,
        Method::PUT if named => Operation::Update,
        Method::PATCH if named => Operation::Patch,
        Method::DELETE if named => Operation::Delete,
        Method::DELETE if !everywhere => Operation::DeleteCollection,
        _ => return None,
    })
}

fn resource_path(kinds: &Kinds, group: &str, version: &str, rest: &[&str]) -> Route {
    let Some(remainder) = PathRemainder::read(rest) else { return Route::Path };
    let (plural, namespace, name) = (remainder.plural, remainder.namespace, remainder.name);
    let served = kinds.lookup(group, version, plural).filter(|served| served.resource.is_served());
    let served = served.map(|served| (served.resource, served.custom));
    match served {
        // An object in a namespace has no path outside of it.
        Some((resource, _)) if resource.namespaced && namespace.is_empty() && !name.is_empty() => {
            Route::UnknownResource(remainder.location(group))
        }
        Some((resource, custom)) if resource.namespaced || namespace.is_empty() => {
            Route::Resource(ResourcePath {
                resource,
                custom,
                subresource: remainder.subresource,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                watch: remainder.watch,
            })
        }
        None if !kinds.rows().groups().any(|known| known == group) => {
            Route::UnknownGroup(remainder.location(group))
        }
        // In groups that only custom kinds have, Kubernetes answers unknown resources like unknown paths.
        None if !kinds.rows().is_built_in_group(group) => Route::UnknownGroup(remainder.location(group)),
        _ => Route::UnknownResource(remainder.location(group)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(path: &str) -> String {
        match route(&Kinds::built_in(), path) {
            Route::Resource(p) => {
                let watch = if p.watch { " watch" } else { "" };
                format!(
                    "{}/{} ns={} name={} sub={}{watch}",
                    p.resource.group, p.resource.plural, p.namespace, p.name, p.subresource
                )
            }
            Route::Path => "path".into(),
            Route::UnknownGroup(_) => "unknown group".into(),
            Route::UnknownResource(_) => "unknown".into(),
        }
    }

    #[test]
    fn urls_are_routed_as_in_kubernetes() {
        let table = [
            ("/api/v1/pods", "/pods ns= name= sub="),
            ("/api/v1/namespaces/a/pods/b", "/pods ns=a name=b sub="),
            ("/api/v1/namespaces/a/pods/b/status", "/pods ns=a name=b sub=status"),
            ("/api/v1/namespaces/a", "/namespaces ns= name=a sub="),
            ("/api/v1/namespaces/a/finalize", "/namespaces ns= name=a sub=finalize"),
            ("/api/v1/watch/namespaces/a/pods", "/pods ns=a name= sub= watch"),
            ("/apis/apps/v1/namespaces/a/deployments/x/scale", "apps/deployments ns=a name=x sub=scale"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "rbac.authorization.k8s.io/clusterroles ns= name=system:node sub=",
            ),
            ("/api", "path"),
            ("/api/v1", "path"),
            ("/apis/apps/v1", "path"),
            ("/version", "path"),
            ("/apis/apps/v1/gadgets", "unknown"),
            ("/apis/apps/v9/deployments", "unknown"),
            ("/apis/none.io/v1/dogs", "unknown group"),
            ("/api/v1/namespaces/a/nodes/b", "unknown"),
            ("/api/v1/pods/b", "unknown"),
            ("/api/v1/watch/namespaces/a/pods/b", "/pods ns=a name=b sub= watch"),
            ("/api/v1/watch/namespaces/a", "/namespaces ns= name=a sub= watch"),
        ];
        for (path, want) in table {
            assert_eq!(describe(path), want, "{path}");
        }
    }
}
