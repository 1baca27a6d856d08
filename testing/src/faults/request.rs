//! Classification of requests for fault injection: the verb, and whether the request is for objects. Pure.

use http::{Method, Uri};

/// Path prefix of kstore's gRPC methods.
const GRPC: &str = "/kstore.v1.Kstore/";

/// Verb of a request for objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    /// Update or patch.
    Change,
    Delete,
}

impl Verb {
    pub(super) fn is_write(self) -> bool {
        matches!(self, Self::Create | Self::Change | Self::Delete)
    }

    /// The verb of an HTTP request or gRPC call; `None` if it is not for objects.
    pub(super) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        if let Some(call) = uri.path().strip_prefix(GRPC) {
            return Self::of_call(call);
        }
        let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
        match segments.next()? {
            "api" => drop(segments.next()?),
            "apis" => drop((segments.next()?, segments.next()?)),
            _ => return None,
        }
        let rest: Vec<&str> = segments.collect();
        let is_collection = match rest[..] {
            [] => return None,
            ["namespaces", _, _] | [_] => true,
            _ => false,
        };
        let is_watch = || query(uri, "watch").is_some_and(|value| value == "true" || value == "1");
        match *method {
            Method::GET if is_watch() => Some(Self::Watch),
            Method::GET if is_collection => Some(Self::List),
            Method::GET => Some(Self::Get),
            Method::POST => Some(Self::Create),
            Method::PUT | Method::PATCH => Some(Self::Change),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }

    fn of_call(call: &str) -> Option<Self> {
        Some(match call {
            "Get" => Self::Get,
            "List" => Self::List,
            "Watch" => Self::Watch,
            "Create" | "Bind" => Self::Create,
            "Update" | "UpdateStatus" | "Patch" | "Transact" | "Each" => Self::Change,
            "Delete" | "DeleteCollection" => Self::Delete,
            _ => return None,
        })
    }
}

/// Whether the request is a gRPC call.
pub(super) fn is_call(uri: &Uri) -> bool {
    uri.path().starts_with(GRPC)
}

/// Value of a query parameter, not decoded.
fn query<'u>(uri: &'u Uri, name: &str) -> Option<&'u str> {
    let mut pairs = uri.query()?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The URI of the same list at exactly this revision; `None` unless the list accepts any revision (`resourceVersion=0`).
pub(super) fn at_revision(uri: &Uri, revision: i64) -> Option<Uri> {
    query(uri, "resourceVersion").filter(|version| *version == "0")?;
    let is_version =
        |pair: &&str| pair.starts_with("resourceVersion=") || pair.starts_with("resourceVersionMatch=");
    let others = uri.query()?.split('&').filter(|pair| !is_version(pair));
    let version = [format!("resourceVersion={revision}"), "resourceVersionMatch=Exact".to_owned()];
    let query: Vec<&str> = others.chain(version.iter().map(String::as_str)).collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), query.join("&")).parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_follow_from_method_path_and_query() {
        let verb = |method: Method, uri: &str| Verb::of(&method, &uri.parse().unwrap());
        assert_eq!(verb(Method::GET, "/api/v1/namespaces"), Some(Verb::List));
        assert_eq!(verb(Method::GET, "/api/v1/namespaces/a"), Some(Verb::Get));
        assert_eq!(verb(Method::GET, "/apis/apps/v1/namespaces/a/deployments"), Some(Verb::List));
        assert_eq!(verb(Method::GET, "/apis/apps/v1/namespaces/a/deployments/b"), Some(Verb::Get));
        assert_eq!(verb(Method::GET, "/api/v1/pods?limit=5&watch=1"), Some(Verb::Watch));
        assert_eq!(verb(Method::GET, "/api/v1/pods?watch=false"), Some(Verb::List));
        assert_eq!(verb(Method::POST, "/api/v1/namespaces/a/pods"), Some(Verb::Create));
        assert_eq!(verb(Method::PATCH, "/api/v1/namespaces/a/pods/p/status"), Some(Verb::Change));
        assert_eq!(verb(Method::POST, "/kstore.v1.Kstore/Update"), Some(Verb::Change));
        let others =
            ["/", "/healthz", "/api", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/kstore.v1.Kstore/Other"];
        for none in others {
            assert_eq!(verb(Method::GET, none), None, "{none}");
        }
    }

    #[test]
    fn lists_that_accept_any_state_are_read_at_a_revision() {
        let at = |uri: &str| at_revision(&uri.parse().unwrap(), 7).map(|uri| uri.to_string());
        assert_eq!(
            at("/api/v1/pods?resourceVersion=0&limit=5&resourceVersionMatch=NotOlderThan").as_deref(),
            Some("/api/v1/pods?limit=5&resourceVersion=7&resourceVersionMatch=Exact")
        );
        assert_eq!((at("/api/v1/pods"), at("/api/v1/pods?resourceVersion=5")), (None, None));
    }
}
