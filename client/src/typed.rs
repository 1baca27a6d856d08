//! [`Api`]: the calls of one resource, and the Kubernetes types that it may have.

use crate::calls::{Calls, Json};
use crate::client::bounded;
use crate::limits::DELETE_PAGE;
use crate::{ApiError, Client, DeleteParams, Gvr, ListParams, Patch, Source, WatchParams};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use kstore_api::lenient;
use kstore_informer::{Key, Object, Revision};
use kstore_proto::kstore::v1 as pb;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::Deref;

/// A Kubernetes type that the client supports. All suitable types implement it.
pub trait Kind:
    Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// The kind of objects that an [`Api`] reads and writes: a type of Kubernetes ([`Kind`]), or JSON values
/// ([`Dynamic`](crate::Dynamic)). This crate implements it for both.
pub trait ApiType: 'static {
    /// An object in calls.
    type Object;

    /// An object in an informer.
    type Cached: Object;

    /// Decodes an object.
    ///
    /// # Errors
    /// The JSON is not an object of this kind.
    fn decode(json: &[u8]) -> Result<Self::Object, serde_json::Error>;

    /// Encodes an object as JSON.
    ///
    /// # Errors
    /// The object has a value that JSON cannot represent.
    fn encode(object: &Self::Object) -> Result<Vec<u8>, serde_json::Error>;

    /// The namespace and the name of an object; empty where it has none.
    fn location(object: &Self::Object) -> (&str, &str);

    /// Wraps an object for an informer.
    fn cached(object: Self::Object) -> Self::Cached;
}

impl<K: Kind> ApiType for K {
    type Object = K;
    type Cached = Obj<K>;

    fn decode(json: &[u8]) -> Result<K, serde_json::Error> {
        lenient::from_slice(json)
    }

    fn encode(object: &K) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(object)
    }

    fn location(object: &K) -> (&str, &str) {
        let meta = object.metadata();
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    fn cached(object: K) -> Obj<K> {
        Obj::new(object)
    }
}

/// The calls of one resource on objects of type `K`; [`DynamicApi`](crate::DynamicApi) has JSON values. In all calls,
/// `ns` is empty for cluster-scoped resources. A failed write has not happened unless the error is
/// [`ApiError::Transport`].
pub struct Api<K> {
    pub(crate) calls: Calls,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone(), kind: PhantomData }
    }
}

impl<K: ApiType> Api<K> {
    pub(crate) fn new(client: Client, gvr: Gvr) -> Self {
        Self { calls: Calls { client, gvr }, kind: PhantomData }
    }

    /// The resource.
    pub fn gvr(&self) -> &Gvr {
        &self.calls.gvr
    }

    /// Gets the newest state of an object.
    pub async fn get(&self, ns: &str, name: &str) -> Result<K::Object, ApiError> {
        Self::decode(&self.calls.get(ns, name).await?)
    }

    /// Gets the newest state of an object like [`Api::get`], and decodes of it only what `T` has.
    pub async fn get_as<T: DeserializeOwned>(&self, ns: &str, name: &str) -> Result<T, ApiError> {
        lenient::from_slice(&self.calls.get(ns, name).await?.json).map_err(ApiError::json)
    }

    /// Lists all matching objects in key order, with the revision of the read. An empty `ns` means all
    /// namespaces.
    pub async fn list(&self, ns: &str, params: &ListParams) -> Result<(Vec<K::Object>, Revision), ApiError> {
        let (items, revision) = self.calls.list(ns, params).await?;
        let items = items.iter().map(|json| K::decode(json).map_err(ApiError::json));
        Ok((items.collect::<Result<_, _>>()?, revision))
    }

    /// Lists like [`Api::list`], and decodes of each object only what `T` has.
    pub async fn list_as<T: DeserializeOwned>(
        &self,
        ns: &str,
        params: &ListParams,
    ) -> Result<(Vec<T>, Revision), ApiError> {
        let (items, revision) = self.calls.list(ns, params).await?;
        let items = items.iter().map(|json| lenient::from_slice(json).map_err(ApiError::json));
        Ok((items.collect::<Result<_, _>>()?, revision))
    }

    /// Lists the first matching objects in key order, at most `limit`.
    pub async fn list_first(
        &self,
        ns: &str,
        params: &ListParams,
        limit: NonZeroU32,
    ) -> Result<Vec<K::Object>, ApiError> {
        let page = self.calls.page(ns, params, limit.get(), "").await?;
        page.items.iter().map(|json| K::decode(json).map_err(ApiError::json)).collect()
    }

    /// Creates an object and returns the stored one. The name may be empty if the object has a
    /// `generateName`.
    pub async fn create(&self, ns: &str, object: &K::Object) -> Result<K::Object, ApiError> {
        let (_, name) = K::location(object);
        Self::decode(&self.calls.create(ns, name, encode::<K>(object)?).await?)
    }

    /// Replaces an object, identified by its namespace and name. A `resourceVersion` in it must still be the
    /// newest.
    pub async fn update(&self, object: &K::Object) -> Result<K::Object, ApiError> {
        self.replace(object, "").await
    }

    /// Replaces only the status.
    pub async fn update_status(&self, object: &K::Object) -> Result<K::Object, ApiError> {
        self.replace(object, "status").await
    }

    /// Replaces a subresource (`status`, `finalize`; empty: the object itself).
    pub async fn replace(&self, object: &K::Object, subresource: &str) -> Result<K::Object, ApiError> {
        let (ns, name) = K::location(object);
        Self::decode(&self.calls.update(ns, name, subresource, encode::<K>(object)?).await?)
    }

    /// Patches only the status.
    pub async fn patch_status(&self, ns: &str, name: &str, patch: &Patch) -> Result<K::Object, ApiError> {
        self.patch_subresource(ns, name, "status", patch).await
    }

    /// Patches only the status, and does not decode the stored object: a caller without a use for it need not have the code that decodes
    /// all members of its type. Returns the revision of the write.
    pub async fn write_status_patch(
        &self,
        ns: &str,
        name: &str,
        patch: &Patch,
    ) -> Result<Revision, ApiError> {
        Ok(self.calls.patch(ns, name, "status", patch).await?.revision)
    }

    /// Patches only the status by a merge patch that is encoded at once, without a JSON value in between. Returns the revision of the
    /// write, like [`Api::write_status_patch`].
    pub async fn write_status_merge(
        &self,
        ns: &str,
        name: &str,
        patch: &impl Serialize,
    ) -> Result<Revision, ApiError> {
        let json = serde_json::to_vec(patch).map_err(ApiError::json)?;
        let merge = (pb::patch_request::Type::Merge, false);
        Ok(self.calls.patch_json(ns, (name, "status"), merge, json).await?.revision)
    }

    /// Patches a subresource (`status`, `finalize`; empty: the object itself).
    pub async fn patch_subresource(
        &self,
        ns: &str,
        name: &str,
        subresource: &str,
        patch: &Patch,
    ) -> Result<K::Object, ApiError> {
        Self::decode(&self.calls.patch(ns, name, subresource, patch).await?)
    }

    /// Deletes an object, or starts its deletion. Returns the revision that the server made, or zero if the
    /// server did not report one.
    pub async fn delete(&self, ns: &str, name: &str, params: &DeleteParams) -> Result<Revision, ApiError> {
        Ok(self.calls.delete(ns, name, params).await?.revision)
    }

    /// Deletes all matching objects of a namespace, one page per call, so that no call exceeds the server's
    /// time limit. Objects created meanwhile may stay. An empty `ns` means all namespaces.
    ///
    /// # Errors
    ///
    /// The first failure ends the deletion; objects deleted before stay deleted.
    pub async fn delete_collection(
        &self,
        ns: &str,
        which: &ListParams,
        params: &DeleteParams,
    ) -> Result<(), ApiError> {
        let mut next = String::new();
        loop {
            next = self.calls.delete_page(ns, which, params, DELETE_PAGE, &next).await?;
            if next.is_empty() {
                return Ok(());
            }
        }
    }

    /// A source of whole objects for an informer.
    pub fn source(&self, params: WatchParams) -> Source<K::Cached> {
        Source::new(self.calls.clone(), params, |json| K::decode(json).map(K::cached).map_err(ApiError::json))
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

    fn decode(object: &Json) -> Result<K::Object, ApiError> {
        K::decode(&object.json).map_err(ApiError::json)
    }
}

impl<K: Kind> Api<K> {
    /// Patches an object.
    pub async fn patch(&self, ns: &str, name: &str, patch: &Patch) -> Result<K, ApiError> {
        self.patch_subresource(ns, name, "", patch).await
    }

    /// A source of objects without their `metadata.managedFields`.
    pub(crate) fn trimmed(&self, params: WatchParams) -> Source<Obj<K>> {
        let decode =
            |json: &[u8]| lenient::without_managed_fields(json).map(Obj::new).map_err(ApiError::json);
        Source::new(self.calls.clone(), params, decode)
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

fn encode<K: ApiType>(object: &K::Object) -> Result<Vec<u8>, ApiError> {
    K::encode(object).map_err(ApiError::json)
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
