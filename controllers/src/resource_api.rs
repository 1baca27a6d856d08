//! [`ResourceApi`]: the calls of a resource that is known only at run time, of this API server over gRPC or of
//! an aggregated one over REST.

use crate::resource::{Resource, gvr};
use kstore_api::lenient;
use kstore_client::{ApiError, Client, DeleteParams, DynamicApi, ListParams, Patch, RestApi};
use kstore_informer::Revision;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The calls of one resource.
pub(crate) enum ResourceApi {
    /// This API server stores the objects.
    Own(DynamicApi),
    /// An aggregated API server stores the objects.
    Aggregated(RestApi),
}

impl ResourceApi {
    /// The calls of this resource through `client`.
    pub(crate) fn of(client: &Client, resource: &Resource) -> Self {
        match resource.is_aggregated {
            false => Self::Own(client.dynamic(gvr(resource))),
            true => Self::Aggregated(client.rest(gvr(resource))),
        }
    }

    /// Gets an object.
    pub(crate) async fn get(&self, namespace: &str, name: &str) -> Result<Value, ApiError> {
        match self {
            Self::Own(api) => api.get(namespace, name).await,
            Self::Aggregated(api) => api.get(namespace, name).await,
        }
    }

    /// Lists all objects of a namespace, those that wait for initializers included. Decodes of each what `T` has.
    pub(crate) async fn list<T: DeserializeOwned>(&self, namespace: &str) -> Result<Vec<T>, ApiError> {
        match self {
            Self::Own(api) => {
                let all = ListParams::default().include_uninitialized();
                Ok(api.list_as(namespace, &all).await?.0)
            }
            Self::Aggregated(api) => decode(&api.list(namespace).await?),
        }
    }

    /// Patches an object, or only a subresource of it (else empty). Returns the revision of the write, by
    /// this API server's count: zero if another server stores the object.
    pub(crate) async fn patch(
        &self,
        (namespace, name, subresource): (&str, &str, &str),
        patch: &Patch,
    ) -> Result<Revision, ApiError> {
        match self {
            Self::Own(api) => Ok(revision_in(&api.patch(namespace, name, subresource, patch).await?)),
            Self::Aggregated(api) => {
                debug_assert!(subresource.is_empty(), "no controller patches {subresource} elsewhere");
                api.patch(namespace, name, patch).await.map(|_| Revision::default())
            }
        }
    }

    /// Deletes an object, or starts its deletion. Returns the revision like [`Self::patch`].
    pub(crate) async fn delete(
        &self,
        namespace: &str,
        name: &str,
        params: &DeleteParams,
    ) -> Result<Revision, ApiError> {
        match self {
            Self::Own(api) => api.delete(namespace, name, params).await,
            Self::Aggregated(api) => api.delete(namespace, name, params).await.map(|()| Revision::default()),
        }
    }
}

/// Decodes of each object what `T` has.
pub(crate) fn decode<T: DeserializeOwned>(items: &[Value]) -> Result<Vec<T>, ApiError> {
    let items = items.iter().map(lenient::from_value);
    items.collect::<Result<_, _>>().map_err(|error: serde_json::Error| ApiError::Json(error.to_string()))
}

/// The revision of an object of this API server.
pub(crate) fn revision_in(object: &Value) -> Revision {
    let version = object["metadata"]["resourceVersion"].as_str();
    Revision(version.and_then(|v| v.parse().ok()).unwrap_or_default())
}
