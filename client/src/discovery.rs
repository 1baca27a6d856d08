//! [`Client::discover`]: the groups, versions and resources that the server lists, those of aggregated API
//! servers included. [`Client::server_version`]: its version of Kubernetes.

use crate::{ApiError, Client};
use http::{Request, header};
use serde::Deserialize;

/// Aggregated discovery: all groups in one document.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// One version of an API group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredVersion {
    /// The group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// Whether the server of this version does not answer: `resources` may be outdated or incomplete.
    pub is_stale: bool,
    /// The resources, without subresources.
    pub resources: Vec<DiscoveredResource>,
}

/// One resource of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredResource {
    /// The plural name in lower case.
    pub plural: String,
    /// The kind of its objects.
    pub kind: String,
    /// Whether its objects are namespaced.
    pub is_namespaced: bool,
    /// The verbs that the server supports, such as `list`.
    pub verbs: Vec<String>,
}

/// The version of Kubernetes that a server states.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ServerVersion {
    /// The major version.
    pub major: String,
    /// The minor version; vendors append `+`.
    pub minor: String,
}

impl Client {
    /// The version of Kubernetes that the server serves, by its `/version`.
    ///
    /// # Errors
    ///
    /// The server refuses the request or answers with another document.
    pub async fn server_version(&self) -> Result<ServerVersion, ApiError> {
        let request = Request::get("/version").header(header::ACCEPT, "application/json");
        let document = self.send_path(request, bytes::Bytes::new()).await?;
        serde_json::from_slice(&document).map_err(ApiError::json)
    }

    /// All versions of all groups except the core group: the groups in the order of their priority, the
    /// versions of a group by preference.
    ///
    /// # Errors
    ///
    /// The server refuses the request or does not serve aggregated discovery.
    pub async fn discover(&self) -> Result<Vec<DiscoveredVersion>, ApiError> {
        let request = Request::get("/apis").header(header::ACCEPT, AGGREGATED);
        parse(&self.send_path(request, bytes::Bytes::new()).await?)
    }
}

#[derive(Deserialize)]
struct GroupList {
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct GroupMeta {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    #[serde(default)]
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

fn parse(document: &[u8]) -> Result<Vec<DiscoveredVersion>, ApiError> {
    let list: GroupList = serde_json::from_slice(document).map_err(ApiError::json)?;
    let resource = |resource: Resource| DiscoveredResource {
        plural: resource.resource,
        kind: resource.response_kind.kind,
        is_namespaced: resource.scope == "Namespaced",
        verbs: resource.verbs,
    };
    let versions = |group: Group| {
        let name = group.metadata.name;
        group.versions.into_iter().map(move |version| DiscoveredVersion {
            group: name.clone(),
            version: version.version,
            is_stale: version.freshness == "Stale",
            resources: version.resources.into_iter().map(resource).collect(),
        })
    };
    Ok(list.items.into_iter().flat_map(versions).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_aggregated_document_is_read_version_by_version() {
        let resource = json!({ "resource": "flunders", "scope": "Namespaced", "verbs": ["get", "list"],
            "responseKind": { "group": "", "version": "", "kind": "Flunder" }, "singularResource": "flunder" });
        let document = json!({ "kind": "APIGroupDiscoveryList", "items": [
            { "metadata": { "name": "wardle.example.com" }, "versions": [
                { "version": "v1", "freshness": "Current", "resources": [resource] },
                { "version": "v1alpha1", "freshness": "Stale" }] }] });
        let [first, second] = parse(document.to_string().as_bytes()).unwrap().try_into().unwrap();
        let flunders = &first.resources[0];
        assert_eq!((&*first.group, &*first.version, first.is_stale), ("wardle.example.com", "v1", false));
        assert_eq!(
            (&*flunders.plural, &*flunders.kind, flunders.is_namespaced),
            ("flunders", "Flunder", true)
        );
        assert_eq!(flunders.verbs, ["get", "list"]);
        assert_eq!((&*second.version, second.is_stale, second.resources.len()), ("v1alpha1", true, 0));
        // A server without aggregated discovery answers with a list of groups.
        assert!(parse(br#"{ "kind": "APIGroupList", "groups": [] }"#).is_err());
    }
}
