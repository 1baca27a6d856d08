//! [`DynamicApi`]: the calls of a resource that is known only at run time, on JSON values.

use crate::calls::Json;
use crate::{Api, ApiError, ApiType, Patch};
use kstore_api::json;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde_json::Value;

/// The type of an [`Api`] of JSON values. It has no values.
#[derive(Debug)]
pub enum Dynamic {}

/// The calls of one resource on JSON values: of a resource that is known only at run time.
pub type DynamicApi = Api<Dynamic>;

impl ApiType for Dynamic {
    type Object = Value;
    type Cached = DynamicObject;

    fn decode(json: &[u8]) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(json)
    }

    fn encode(object: &Value) -> Result<Vec<u8>, serde_json::Error> {
        Ok(json::value_to_vec(object))
    }

    fn location(object: &Value) -> (&str, &str) {
        (text(object, "namespace"), text(object, "name"))
    }

    fn cached(object: Value) -> DynamicObject {
        DynamicObject::new(object)
    }
}

impl Api<Dynamic> {
    /// Posts to a subresource of an object (`token`, `eviction`) and returns the response.
    pub async fn create_subresource(
        &self,
        ns: &str,
        name: &str,
        subresource: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let json = Dynamic::encode(object).map_err(ApiError::json)?;
        let answer = self.calls.create_below(ns, name, subresource, json).await?;
        Dynamic::decode(&answer.json).map_err(ApiError::json)
    }

    /// Creates an object from JSON text. `name` is the name in the text, or empty if the server generates it
    /// from `generateName`.
    pub async fn create_text(&self, ns: &str, name: &str, json: &str) -> Result<Stored, ApiError> {
        Ok(Stored(self.calls.create(ns, name, json.into()).await?))
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
        Ok(Stored(self.calls.update(ns, name, subresource, json.into()).await?))
    }

    /// Patches an object, or only a subresource of it (`status`, `finalize`; else empty).
    pub async fn patch(
        &self,
        ns: &str,
        name: &str,
        subresource: &str,
        patch: &Patch,
    ) -> Result<Value, ApiError> {
        self.patch_subresource(ns, name, subresource, patch).await
    }
}

/// An object as the server stored it. It decodes only the fields that the caller asks for.
#[derive(Debug)]
pub struct Stored(pub(crate) Json);

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
