//! [`Api`]: the calls of one Kubernetes type.

use std::{marker::PhantomData, ops::Deref};

use k8s_openapi::{Metadata, Resource, api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kstore_api::lenient;
use kstore_informer::{Key, Object, Revision};
use kstore_proto::kstore::v1 as pb;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    ApiError, Client, DeleteParams, Gvr, ListParams, Patch, Source, WatchParams,
    calls::{Calls, Json},
    client::bounded,
    trimmed,
};

/// A Kubernetes type that the client supports. All suitable types implement it.
pub trait Kind:
    Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// The calls of type `K`. In all calls, `ns` is empty for cluster-scoped types. A failed write has not
/// happened unless the error is [`ApiError::Transport`].
pub struct Api<K> {
    calls: Calls,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), kind: PhantomData }
    }
}

impl<K: Kind> Api<K> {
    pub(crate) fn new(client: Client) -> Self {
        Self { calls: Calls { client, gvr: Gvr::of::<K>() }, kind: PhantomData }
    }

    /// Gets the newest state of an object.
    pub async fn get(&self, ns: &str, name: &str) -> Result<K, ApiError> {
        decode(&self.calls.get(ns, name).await?)
    }

    /// Lists all matching objects in key order, with the revision of the read. An empty `ns` means all
    /// namespaces.
    pub async fn list(&self, ns: &str, params: &ListParams) -> Result<(Vec<K>, Revision), ApiError> {
        let (items, revision) = self.calls.list(ns, params).await?;
        let items = items.iter().map(|json| lenient::from_slice(json).map_err(ApiError::json));
        Ok((items.collect::<Result<_, _>>()?, revision))
    }

    /// Creates an object and returns the stored one. The name may be empty if the object has a
    /// `generateName`.
    pub async fn create(&self, ns: &str, object: &K) -> Result<K, ApiError> {
        let name = object.metadata().name.as_deref().unwrap_or_default();
        decode(&self.calls.create(ns, name, encode(object)?).await?)
    }

    /// Replaces an object, identified by its namespace and name. A `resourceVersion` in it must still be the
    /// newest.
    pub async fn update(&self, object: &K) -> Result<K, ApiError> {
        self.replace(object, "").await
    }

    /// Replaces only the status.
    pub async fn update_status(&self, object: &K) -> Result<K, ApiError> {
        self.replace(object, "status").await
    }

    async fn replace(&self, object: &K, subresource: &str) -> Result<K, ApiError> {
        let meta = object.metadata();
        let ns = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        decode(&self.calls.update(ns, name, subresource, encode(object)?).await?)
    }

    /// Patches an object.
    pub async fn patch(&self, ns: &str, name: &str, patch: &Patch) -> Result<K, ApiError> {
        decode(&self.calls.patch(ns, name, "", patch).await?)
    }

    /// Patches only the status.
    pub async fn patch_status(&self, ns: &str, name: &str, patch: &Patch) -> Result<K, ApiError> {
        decode(&self.calls.patch(ns, name, "status", patch).await?)
    }

    /// Deletes an object, or starts its deletion. Returns the revision that the server made, or zero if the
    /// server did not report one.
    pub async fn delete(&self, ns: &str, name: &str, params: &DeleteParams) -> Result<Revision, ApiError> {
        Ok(self.calls.delete(ns, name, params).await?.revision)
    }

    /// A source of whole objects for an informer.
    pub fn source(&self, params: WatchParams) -> Source<Obj<K>> {
        Source::new(self.calls.clone(), params, |json| {
            lenient::from_slice(json).map(Obj::new).map_err(ApiError::json)
        })
    }

    /// A source of objects without their `metadata.managedFields`.
    pub(crate) fn trimmed(&self, params: WatchParams) -> Source<Obj<K>> {
        let decode = |json: &[u8]| trimmed::decode(json).map(Obj::new).map_err(ApiError::json);
        Source::new(self.calls.clone(), params, decode)
    }

    /// A source for an informer whose objects hold only selected data: `decode` gets the JSON of each.
    pub fn project<T: Object, E: std::fmt::Display + 'static>(
        &self,
        params: WatchParams,
        decode: fn(&[u8]) -> Result<T, E>,
    ) -> Source<T> {
        Source::new(self.calls.clone(), params, move |json| {
            decode(json).map_err(|error| ApiError::Json(error.to_string()))
        })
    }
}

impl Api<Pod> {
    /// Binds a pod to a node, if the pod still has this uid (empty for any). Returns the revision of the
    /// bind.
    pub async fn bind(&self, ns: &str, pod: &str, uid: &str, node: &str) -> Result<Revision, ApiError> {
        let message =
            pb::BindRequest { namespace: ns.into(), pod: pod.into(), uid: uid.into(), node: node.into() };
        let mut grpc = self.calls.client.grpc();
        let object = bounded(grpc.bind(self.calls.client.request(message))).await?;
        Ok(Json::from(object).revision)
    }
}

fn encode<K: Serialize>(object: &K) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(object).map_err(ApiError::json)
}

fn decode<K: DeserializeOwned>(object: &Json) -> Result<K, ApiError> {
    lenient::from_slice(&object.json).map_err(ApiError::json)
}

/// The revision of an object's state; zero if it was never stored.
pub fn revision_of<K: Metadata<Ty = ObjectMeta>>(object: &K) -> Revision {
    Revision(object.metadata().resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or_default())
}

/// The key of an object.
pub fn key_of<K: Metadata<Ty = ObjectMeta>>(object: &K) -> Key {
    let meta = object.metadata();
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// A Kubernetes object in an informer. Dereferences to the object.
#[derive(Debug)]
pub struct Obj<K> {
    key: Key,
    revision: Revision,
    object: K,
}

impl<K: Metadata<Ty = ObjectMeta>> Obj<K> {
    /// Wraps an object.
    pub fn new(object: K) -> Self {
        Self { key: key_of(&object), revision: revision_of(&object), object }
    }

    /// The object without its informer key.
    pub fn into_inner(self) -> K {
        self.object
    }
}

impl<K> Deref for Obj<K> {
    type Target = K;
    fn deref(&self) -> &K {
        &self.object
    }
}

impl<K: Metadata<Ty = ObjectMeta> + Send + Sync + 'static> Object for Obj<K> {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        self.object.metadata().uid.as_deref().unwrap_or_default()
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn generation(&self) -> Option<i64> {
        self.object.metadata().generation
    }

    fn controller(&self) -> Option<(String, Key)> {
        let meta = self.object.metadata();
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
        Some((owner.uid.clone(), Key::new(self.key.namespace(), &owner.name)))
    }
}
