//! Resource and scale of a workload of any kind with the subresource `scale`, built-in or custom. The autoscaler
//! scales by it, and disruption budgets read the desired number of pods from it.

use crate::resource::Resource;
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use kstore_api::group_version::split_api_version;
use kstore_api::kind::lookup_api_version;
use kstore_client::{ApiError, Client};
use serde_json::Value;

/// The resource of a reference. Custom kinds are looked up in the server's discovery: in the version of the
/// reference, or in the preferred version of its group.
///
/// # Errors
/// A message: the kind is not served, or discovery failed.
pub(crate) async fn resource(client: &Client, to: &CrossVersionObjectReference) -> Result<Resource, String> {
    let api_version = to.api_version.as_deref().unwrap_or_default();
    let (group, version) = split_api_version(api_version);
    let unknown = || format!("no matches for kind {:?} in group {group:?}", to.kind);
    if let Some(found) =
        resource_in_version(client, api_version, &to.kind).await.map_err(|e| e.to_string())?
    {
        return Ok(found);
    }
    if group.is_empty() {
        return Err(unknown());
    }
    let served = document(client, &format!("/apis/{group}")).await.map_err(|error| error.to_string())?;
    let preferred = served.as_ref().and_then(|group| group["preferredVersion"]["version"].as_str());
    let Some(preferred) = preferred.filter(|preferred| *preferred != version) else { return Err(unknown()) };
    let found = in_version(client, (group, preferred), &to.kind).await.map_err(|e| e.to_string())?;
    found.ok_or_else(unknown)
}

/// The resource of a kind in exactly this version, if it is served.
pub(crate) async fn resource_in_version(
    client: &Client,
    api_version: &str,
    kind: &str,
) -> Result<Option<Resource>, ApiError> {
    if let Some(row) = lookup_api_version(api_version, kind) {
        return Ok(Some(Resource::named(row.group, row.version, row.plural)));
    }
    let (group, version) = split_api_version(api_version);
    if group.is_empty() {
        return Ok(None);
    }
    in_version(client, (group, version), kind).await
}

/// Whether objects of the resource have the subresource `scale`.
pub(crate) async fn serves_scale(client: &Client, resource: &Resource) -> Result<bool, ApiError> {
    let name = format!("{}/scale", resource.plural);
    let served = document(client, &root(resource)).await?;
    let resources = served.as_ref().and_then(|list| list["resources"].as_array());
    Ok(resources.into_iter().flatten().any(|one| one["name"] == name.as_str()))
}

/// Path below which the resource is served.
fn root(Resource { group, version, .. }: &Resource) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

async fn in_version(
    client: &Client,
    (group, version): (&str, &str),
    kind: &str,
) -> Result<Option<Resource>, ApiError> {
    let Some(list) = document(client, &format!("/apis/{group}/{version}")).await? else { return Ok(None) };
    let named = list["resources"].as_array().into_iter().flatten().find_map(|one| {
        let name = one["name"].as_str().filter(|name| !name.contains('/'))?;
        (one["kind"] == kind).then(|| name.to_owned())
    });
    Ok(named.map(|plural| Resource::named(group.to_owned(), version.to_owned(), plural)))
}

/// A discovery document, if it is served.
async fn document(client: &Client, path: &str) -> Result<Option<Value>, ApiError> {
    match client.get_path(path).await {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The scale of a workload as read from the server; written back with another number of replicas.
pub(crate) struct ReadScale(Value);

impl ReadScale {
    /// Reads the scale of an object.
    pub(crate) async fn read(
        client: &Client,
        resource: &Resource,
        (namespace, name): (&str, &str),
    ) -> Result<Self, ApiError> {
        let (root, plural) = (root(resource), &resource.plural);
        let bytes = client.get_path(&format!("{root}/namespaces/{namespace}/{plural}/{name}/scale")).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| ApiError::Json(error.to_string()))
    }

    /// Uid of the workload.
    pub(crate) fn uid(&self) -> &str {
        self.0["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Desired replicas.
    pub(crate) fn replicas(&self) -> i32 {
        number(&self.0["spec"]["replicas"])
    }

    /// Current replicas.
    pub(crate) fn status_replicas(&self) -> i32 {
        number(&self.0["status"]["replicas"])
    }

    /// Selector of the workload's pods; empty if it has none.
    pub(crate) fn selector(&self) -> &str {
        self.0["status"]["selector"].as_str().unwrap_or_default()
    }

    /// The scale with another number of replicas, at the resourceVersion that was read.
    pub(crate) fn with(mut self, replicas: i32) -> Value {
        self.0["spec"]["replicas"] = replicas.into();
        self.0
    }
}

fn number(value: &Value) -> i32 {
    value.as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default()
}
