//! [`DynamicApi`]: the calls of a resource that is known only at run time, on JSON values.

use std::num::NonZeroU32;

use kstore_api::lenient;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    ApiError, Client, DeleteParams, Gvr, ListParams, Patch, Source, WatchParams,
    calls::{Calls, Json},
    limits::DELETE_PAGE,
};

/// The calls of one resource on JSON values. In all calls, `ns` is empty for cluster-scoped resources.
#[derive(Clone)]
pub struct DynamicApi(Calls);

impl DynamicApi {
    pub(crate) fn new(client: Client, gvr: Gvr) -> Self {
        Self(Calls { client, gvr })
    }

    /// The resource.
    pub fn gvr(&self) -> &Gvr {
        &self.0.gvr
    }

    /// Gets the newest state of an object.
    pub async fn get(&self, ns: &str, name: &str) -> Result<Value, ApiError> {
        decode(&self.0.get(ns, name).await?)
    }

    /// Lists all matching objects in key order, with the revision of the read. An empty `ns` means all
    /// namespaces.
    pub async fn list(&self, ns: &str, params: &ListParams) -> Result<(Vec<Value>, Revision), ApiError> {
        let (items, revision) = self.0.list(ns, params).await?;
        let items = items.iter().map(|json| serde_json::from_slice(json).map_err(ApiError::json));
        Ok((items.collect::<Result<_, _>>()?, revision))
    }

    /// Lists like [`DynamicApi::list`], and decodes of each object only what `T` has.
    pub async fn list_as<T: DeserializeOwned>(
        &self,
        ns: &str,
        params: &ListParams,
    ) -> Result<(Vec<T>, Revision), ApiError> {
        let (items, revision) = self.0.list(ns, params).await?;
        let items = items.iter().map(|json| lenient::from_slice(json).map_err(ApiError::json));
        Ok((items.collect::<Result<_, _>>()?, revision))
    }

    /// Lists the first matching objects in key order, at most `limit`.
    pub async fn list_first(
        &self,
        ns: &str,
        params: &ListParams,
        limit: NonZeroU32,
    ) -> Result<Vec<Value>, ApiError> {
        let page = self.0.page(ns, params, limit.get(), "").await?;
        page.items.iter().map(|json| serde_json::from_slice(json).map_err(ApiError::json)).collect()
    }

    /// Creates an object and returns the stored one.
    pub async fn create(&self, ns: &str, object: &Value) -> Result<Value, ApiError> {
        decode(&self.0.create(ns, text(object, "name"), encode(object)?).await?)
    }

    /// Posts to a subresource of an object (`token`, `eviction`) and returns the response.
    pub async fn create_subresource(
        &self,
        ns: &str,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        decode(&self.0.create_below(ns, name, subresource, encode(object)?).await?)
    }

    /// Creates an object from JSON text. `name` is the name in the text, or empty if the server generates it
    /// from `generateName`.
    pub async fn create_text(&self, ns: &str, name: &str, json: &str) -> Result<Stored, ApiError> {
        Ok(Stored(self.0.create(ns, name, json.into()).await?))
    }

    /// Replaces an object by JSON text, or only a subresource of it (`status`; else empty). A
    /// `resourceVersion` in the text must still be the newest.
    pub async fn replace_text(
        &self,
        ns: &str,
        name: &str,
        subresource: &str,
        json: &str,
    ) -> Result<Stored, ApiError> {
        Ok(Stored(self.0.update(ns, name, subresource, json.into()).await?))
    }

    /// Replaces an object, identified by its namespace and name. A `resourceVersion` in it must still be the
    /// newest.
    pub async fn update(&self, object: &Value) -> Result<Value, ApiError> {
        self.replace(object, "").await
    }

    /// Replaces only the status.
    pub async fn update_status(&self, object: &Value) -> Result<Value, ApiError> {
        self.replace(object, "status").await
    }

    /// Replaces a subresource (`status`, `finalize`; empty: the object itself).
    pub async fn replace(&self, object: &Value, subresource: &str) -> Result<Value, ApiError> {
        let (ns, name) = (text(object, "namespace"), text(object, "name"));
        decode(&self.0.update(ns, name, subresource, encode(object)?).await?)
    }

    /// Patches an object, or only a subresource of it (`status`, `finalize`; else empty).
    pub async fn patch(
        &self,
        ns: &str,
        name: &str,
        subresource: &str,
        patch: &Patch,
    ) -> Result<Value, ApiError> {
        decode(&self.0.patch(ns, name, subresource, patch).await?)
    }

    /// Deletes an object, or starts its deletion. Returns the revision that the server made, or zero if the
    /// server did not report one.
    pub async fn delete(&self, ns: &str, name: &str, params: &DeleteParams) -> Result<Revision, ApiError> {
        Ok(self.0.delete(ns, name, params).await?.revision)
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
            next = self.0.delete_page(ns, which, params, (DELETE_PAGE, &next)).await?;
            if next.is_empty() {
                return Ok(());
            }
        }
    }

    /// A source of whole objects for an informer.
    pub fn source(&self, params: WatchParams) -> Source<DynamicObject> {
        Source::new(self.0.clone(), params, |json| {
            serde_json::from_slice(json).map(DynamicObject::new).map_err(ApiError::json)
        })
    }

    /// A source for an informer whose objects hold only selected data: `decode` gets the JSON of each.
    pub fn project<T: Object, E: std::fmt::Display + 'static>(
        &self,
        params: WatchParams,
        decode: fn(&[u8]) -> Result<T, E>,
    ) -> Source<T> {
        Source::new(self.0.clone(), params, move |json| {
            decode(json).map_err(|error| ApiError::Json(error.to_string()))
        })
    }
}

/// An object as the server stored it. It decodes only the fields that the caller asks for.
#[derive(Debug)]
pub struct Stored(Json);

impl Stored {
    /// The revision of this state: its `resourceVersion`.
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// The object's name, which the server may have generated.
    ///
    /// # Errors
    ///
    /// [`ApiError::Json`] if the object has no name: the server does not implement Kubernetes' API.
    pub fn name(&self) -> Result<String, ApiError> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        #[derive(Deserialize)]
        struct NamedObject {
            metadata: Named,
        }
        let whole: NamedObject = serde_json::from_slice(&self.0.json).map_err(ApiError::json)?;
        Ok(whole.metadata.name)
    }
}

fn encode(object: &Value) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(object).map_err(ApiError::json)
}

fn decode(object: &Json) -> Result<Value, ApiError> {
    serde_json::from_slice(&object.json).map_err(ApiError::json)
}

/// A string of the metadata, or an empty one.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// A JSON object in an informer.
#[derive(Debug)]
pub struct DynamicObject {
    key: Key,
    revision: Revision,
    value: Value,
}

impl DynamicObject {
    /// Wraps a value.
    pub fn new(value: Value) -> Self {
        let key = Key::new(text(&value, "namespace"), text(&value, "name"));
        let revision = Revision(text(&value, "resourceVersion").parse().unwrap_or_default());
        Self { key, revision, value }
    }

    /// The value itself.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl Object for DynamicObject {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        text(&self.value, "uid")
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn controller(&self) -> Option<(String, Key)> {
        let owners = self.value["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        Some((owner["uid"].as_str()?.to_owned(), Key::new(self.key.namespace(), owner["name"].as_str()?)))
    }
}
