//! From a manifest's kind to the resource that stores it, by the cluster's own discovery, so that custom kinds are found as well.

use crate::manifest::ManifestError;
use kstore_client::{ApiError, Client, Gvr};
use serde::Deserialize;

/// Why [`crate::Cluster::apply`] failed. Objects before the named one have been applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The manifest contains no objects of Kubernetes. Nothing was applied.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The cluster does not serve the kind.
    #[error("{api_version} {kind} is not served: apply its CustomResourceDefinition first")]
    UnknownKind {
        /// `apps/v1`.
        api_version: String,
        /// `Deployment`.
        kind: String,
    },
    /// The API server refused an object.
    #[error("{object}: {source}")]
    Refused {
        /// Kind and name.
        object: String,
        /// The refusal.
        source: ApiError,
    },
}

/// A resource and whether its objects are in namespaces.
pub(crate) struct ServedResource {
    pub(crate) gvr: Gvr,
    pub(crate) is_namespaced: bool,
}

/// The part of an `APIResourceList` that is needed here.
#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ResourceEntry>,
}

#[derive(Deserialize)]
struct ResourceEntry {
    /// The plural name; with a slash for subresources.
    name: String,
    namespaced: bool,
    kind: String,
}

/// The resource of a kind; `None` if no such kind is served.
///
/// # Errors
/// If discovery fails for another reason.
pub(crate) async fn find(
    client: &Client,
    api_version: &str,
    kind: &str,
) -> Result<Option<ServedResource>, ApiError> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let root = if group.is_empty() { "/api" } else { "/apis" };
    let document = match client.get_path(&format!("{root}/{api_version}")).await {
        Ok(document) => document,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let list: ResourceList =
        serde_json::from_slice(&document).map_err(|error| ApiError::Json(error.to_string()))?;
    let entry = list.resources.into_iter().find(|entry| entry.kind == kind && !entry.name.contains('/'));
    Ok(entry.map(|entry| ServedResource {
        gvr: Gvr::new(group.to_owned(), version.to_owned(), entry.name),
        is_namespaced: entry.namespaced,
    }))
}
