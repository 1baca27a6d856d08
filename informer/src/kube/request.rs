//! URLs of list and watch requests. Pure: other modules decide which request to send.

use std::fmt::Write;

/// Resource, namespace and selectors of the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    /// API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub plural: String,
    /// Empty for all namespaces and for cluster-scoped resources.
    pub namespace: String,
    pub labels: String,
    pub fields: String,
}

/// Kind of a list or watch request, in the terms of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiRequest<'a> {
    /// A list of any state (`Some("0")`), the newest state (`None`), or a state not older than `version`.
    List { version: Option<&'a str>, exact: bool, limit: Option<u32> },
    /// The next page of a list.
    Page { token: &'a str, limit: Option<u32> },
    /// A streaming list: a watch that starts with the newest state, or one not older than `version`.
    Initial { version: Option<&'a str>, seconds: u64 },
    /// A watch of the changes after `version`.
    After { version: &'a str, seconds: u64 },
}

impl ResourcePath {
    /// Path and query of a request.
    pub(super) fn url(&self, ask: ApiRequest<'_>) -> String {
        let mut url = self.path();
        let mut separator = '?';
        let mut query = |name: &str, value: &str| {
            url.push(separator);
            url.push_str(name);
            url.push('=');
            escape(value, &mut url);
            separator = '&';
        };
        for (name, value) in [("labelSelector", &self.labels), ("fieldSelector", &self.fields)] {
            if !value.is_empty() {
                query(name, value);
            }
        }
        match ask {
            ApiRequest::List { version, exact, limit } => {
                if let Some(version) = version {
                    query("resourceVersion", version);
                }
                match version {
                    Some(_) if exact => query("resourceVersionMatch", "Exact"),
                    // "0" alone already means any state.
                    Some(version) if version != "0" => query("resourceVersionMatch", "NotOlderThan"),
                    Some(_) | None => {}
                }
                if let Some(limit) = limit {
                    query("limit", &limit.to_string());
                }
            }
            ApiRequest::Page { token, limit } => {
                if let Some(limit) = limit {
                    query("limit", &limit.to_string());
                }
                query("continue", token);
            }
            ApiRequest::Initial { version, seconds } => {
                query("watch", "true");
                query("allowWatchBookmarks", "true");
                query("sendInitialEvents", "true");
                query("resourceVersionMatch", "NotOlderThan");
                if let Some(version) = version {
                    query("resourceVersion", version);
                }
                query("timeoutSeconds", &seconds.to_string());
            }
            ApiRequest::After { version, seconds } => {
                query("watch", "true");
                query("allowWatchBookmarks", "true");
                query("resourceVersion", version);
                query("timeoutSeconds", &seconds.to_string());
            }
        }
        url
    }

    fn path(&self) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if !self.namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(&self.namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }
}

fn escape(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => into.push(byte.into()),
            _ => {
                let _ = write!(into, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> ResourcePath {
        ResourcePath { version: "v1".into(), plural: "pods".into(), ..ResourcePath::default() }
    }

    #[test]
    fn a_url_contains_resource_selectors_and_resource_version() {
        let list = |version, exact, limit| pods().url(ApiRequest::List { version, exact, limit });
        assert_eq!(list(None, false, None), "/api/v1/pods");
        assert_eq!(list(Some("0"), false, Some(500)), "/api/v1/pods?resourceVersion=0&limit=500");
        assert_eq!(
            list(Some("7"), false, None),
            "/api/v1/pods?resourceVersion=7&resourceVersionMatch=NotOlderThan"
        );
        assert_eq!(list(Some("7"), true, None), "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact");
        // A continued list sends neither version nor match: the token contains them.
        assert_eq!(
            pods().url(ApiRequest::Page { token: "a=/b", limit: Some(2) }),
            "/api/v1/pods?limit=2&continue=a%3D%2Fb"
        );
        assert_eq!(
            pods().url(ApiRequest::After { version: "9", seconds: 290 }),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=9&timeoutSeconds=290"
        );
        assert_eq!(
            pods().url(ApiRequest::Initial { version: None, seconds: 290 }),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&\
             resourceVersionMatch=NotOlderThan&timeoutSeconds=290"
        );
    }

    #[test]
    fn urls_contain_group_namespace_and_selectors() {
        let resource = ResourcePath {
            group: "apps".into(),
            version: "v1".into(),
            plural: "deployments".into(),
            namespace: "web".into(),
            labels: "app in (a,b)".into(),
            fields: "metadata.name=x".into(),
        };
        assert_eq!(
            resource.url(ApiRequest::List { version: None, exact: false, limit: None }),
            "/apis/apps/v1/namespaces/web/deployments?labelSelector=app%20in%20%28a%2Cb%29&\
             fieldSelector=metadata.name%3Dx"
        );
    }
}
