//! [`Applier`]: stores the objects of manifests. The cluster's discovery maps a kind to its resource, so that
//! custom kinds work as well.

use super::{ManifestError, ManifestObject};
use crate::{ApiError, Client, Gvr, Patch};
use serde::Deserialize;
use serde_json::Value;

/// The namespace of objects without a namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// The reason why an object of a manifest was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The cluster does not serve the kind.
    #[error("no matches for kind \"{kind}\" in version \"{api_version}\": ensure CRDs are installed first")]
    UnknownKind {
        /// The API version, such as `apps/v1`.
        api_version: String,
        /// The kind, such as `Deployment`.
        kind: String,
    },
    /// The API server refused an object.
    #[error("{object}: {source}")]
    Refused {
        /// Kind and name.
        object: String,
        /// The error of the API server.
        source: ApiError,
    },
}

/// A stored object with its resource and namespace.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The object's resource.
    pub gvr: Gvr,
    /// The object's namespace; empty for cluster-scoped resources.
    pub namespace: String,
    /// The object as the server stored it.
    pub object: Value,
}

/// Stores objects of manifests through a client. It caches no discovery: each object may define the next
/// one's kind.
///
/// Unknown and duplicate fields are refused, as by `kubectl apply`.
pub struct Applier {
    client: Client,
}

impl Applier {
    /// An applier that stores objects as the user of this client; the client's agent is the field manager.
    pub fn new(client: &Client) -> Self {
        Self { client: client.strict_fields() }
    }

    /// Applies an object by server-side apply, like `kubectl apply --server-side --force-conflicts`. A
    /// namespaced object without a namespace is created in `default`.
    ///
    /// # Errors
    ///
    /// The object lacks a required field, the server does not serve its kind, or the server refuses the
    /// object.
    pub async fn apply(&self, object: ManifestObject) -> Result<Applied, ApplyError> {
        let target = self.target(&object).await?;
        self.patch(target, object).await
    }

    /// Creates an object, or applies it by server-side apply if it exists already.
    ///
    /// # Errors
    ///
    /// Those of [`Self::apply`].
    pub async fn create_or_apply(&self, object: ManifestObject) -> Result<Applied, ApplyError> {
        let (gvr, namespace) = self.target(&object).await?;
        match self.client.dynamic(gvr.clone()).create(&namespace, &object.value).await {
            Ok(object) => Ok(Applied { gvr, namespace, object }),
            Err(error) if error.is_already_exists() => self.patch((gvr, namespace), object).await,
            Err(source) => Err(refused(&object, source)),
        }
    }

    async fn patch(
        &self,
        (gvr, namespace): (Gvr, String),
        object: ManifestObject,
    ) -> Result<Applied, ApplyError> {
        let name = object.name().to_owned();
        if name.is_empty() {
            let (document, field) = (object.document, "metadata.name");
            return Err(ManifestError::Incomplete { document, field }.into());
        }
        let patch = Patch::Apply { object: object.value.clone(), force: true };
        let stored = self.client.dynamic(gvr.clone()).patch(&namespace, &name, "", &patch).await;
        let stored = stored.map_err(|source| refused(&object, source))?;
        Ok(Applied { gvr, namespace, object: stored })
    }

    /// The resource and namespace of an object.
    async fn target(&self, object: &ManifestObject) -> Result<(Gvr, String), ApplyError> {
        object.check()?;
        let (api_version, kind) = (object.api_version(), object.kind());
        let found = find(&self.client, api_version, kind).await.map_err(|source| refused(object, source))?;
        let Some(resource) = found else {
            return Err(ApplyError::UnknownKind { api_version: api_version.into(), kind: kind.into() });
        };
        let namespace = match (resource.is_namespaced, object.namespace()) {
            (false, _) => "",
            (true, "") => DEFAULT_NAMESPACE,
            (true, namespace) => namespace,
        };
        Ok((resource.gvr, namespace.to_owned()))
    }
}

fn refused(object: &ManifestObject, source: ApiError) -> ApplyError {
    ApplyError::Refused { object: format!("{} {}", object.kind(), object.name()), source }
}

/// A resource and whether it is namespaced.
struct ServedResource {
    gvr: Gvr,
    is_namespaced: bool,
}

/// The needed part of an `APIResourceList`.
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

/// The resource of a kind; `None` if the server does not serve the kind.
///
/// # Errors
///
/// Discovery failed for another reason.
async fn find(client: &Client, api_version: &str, kind: &str) -> Result<Option<ServedResource>, ApiError> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let root = if group.is_empty() { "/api" } else { "/apis" };
    let document = match client.get_path(&format!("{root}/{api_version}")).await {
        Ok(document) => document,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let list: ResourceList = serde_json::from_slice(&document).map_err(ApiError::json)?;
    let entry = list.resources.into_iter().find(|entry| entry.kind == kind && !entry.name.contains('/'));
    Ok(entry.map(|entry| ServedResource {
        gvr: Gvr::new(group.to_owned(), version.to_owned(), entry.name),
        is_namespaced: entry.namespaced,
    }))
}
