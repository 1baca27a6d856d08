//! Resource and scale of a scale target, of any kind with the subresource `scale`.

use super::plan::Scale;
use crate::resource::Resource;
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use kstore_api::kind::{lookup_api_version, split_api_version};
use kstore_client::{ApiError, Client};
use serde_json::Value;

/// The resource of a reference. Custom kinds are looked up in the server's discovery: in the version of the
/// reference, or in the preferred version of its group.
///
/// # Errors
/// A message: the kind is not served, or discovery failed.
pub(super) async fn resource(client: &Client, to: &CrossVersionObjectReference) -> Result<Resource, String> {
    let api_version = to.api_version.as_deref().unwrap_or_default();
    if let Some(row) = lookup_api_version(api_version, &to.kind) {
        return Ok(Resource::named(row.group, row.version, row.plural));
    }
    let (group, version) = split_api_version(api_version);
    let unknown = || format!("no matches for kind {:?} in group {group:?}", to.kind);
    if group.is_empty() {
        return Err(unknown());
    }
    if let Some(found) = in_version(client, (group, version), &to.kind).await.map_err(|e| e.to_string())? {
        return Ok(found);
    }
    let served = document(client, &format!("/apis/{group}")).await.map_err(|error| error.to_string())?;
    let preferred = served.as_ref().and_then(|group| group["preferredVersion"]["version"].as_str());
    let Some(preferred) = preferred.filter(|preferred| *preferred != version) else { return Err(unknown()) };
    let found = in_version(client, (group, preferred), &to.kind).await.map_err(|e| e.to_string())?;
    found.ok_or_else(unknown)
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

/// The scale of the target as read from the server; written back with another number of replicas.
pub(super) struct ReadScale(Value);

impl ReadScale {
    /// Reads the scale of an object.
    pub(super) async fn read(
        client: &Client,
        resource: &Resource,
        (namespace, name): (&str, &str),
    ) -> Result<Self, ApiError> {
        let Resource { group, version, plural, .. } = resource;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let bytes = client.get_path(&format!("{root}/namespaces/{namespace}/{plural}/{name}/scale")).await?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| ApiError::Json(error.to_string()))
    }

    /// The decoded scale.
    pub(super) fn scale(&self) -> Scale {
        let number = |value: &Value| value.as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or_default();
        Scale {
            replicas: number(&self.0["spec"]["replicas"]),
            status_replicas: number(&self.0["status"]["replicas"]),
            selector: self.0["status"]["selector"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// The scale with another number of replicas, at the resourceVersion that was read.
    pub(super) fn with(mut self, replicas: i32) -> Value {
        self.0["spec"]["replicas"] = replicas.into();
        self.0
    }
}
