//! [`Custom`]: an object of a custom kind as a Rust type, defined by three constants and serde. For a kind
//! whose definition is also written in Rust, use `derive(CustomResource)` of the crate `kstore-derive`, which
//! makes both.

use crate::object_parts::{ObjectParts, serialize_object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource, ResourceScope};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The `spec` of a custom kind, with its API version, kind and plural name.
///
/// # Examples
/// ```
/// use k8s_openapi::NamespaceResourceScope;
/// use kstore_client::{Custom, CustomSpec};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, Serialize, Deserialize)]
/// struct LampSpec {
///     watts: i64,
/// }
///
/// impl CustomSpec for LampSpec {
///     const API_VERSION: &'static str = "shop.example.com/v1";
///     const KIND: &'static str = "Lamp";
///     const PLURAL: &'static str = "lamps";
///     type Scope = NamespaceResourceScope;
///     type Status = serde_json::Value;
/// }
///
/// # async fn set(client: kstore_client::Client) -> Result<(), kstore_client::ApiError> {
/// let lamps = client.api::<Custom<LampSpec>>();
/// lamps.create("default", &Custom::new("hall", LampSpec { watts: 5 })).await?;
/// # Ok(())
/// # }
/// ```
pub trait CustomSpec: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Group and version of the definition, such as `shop.example.com/v1`.
    const API_VERSION: &'static str;
    /// The kind, such as `Lamp`.
    const KIND: &'static str;
    /// The plural name, such as `lamps`.
    const PLURAL: &'static str;
    /// [`k8s_openapi::NamespaceResourceScope`] or [`k8s_openapi::ClusterResourceScope`], according to the
    /// definition.
    type Scope: ResourceScope;
    /// The type of `status`; `serde_json::Value` if unknown.
    type Status: Serialize + DeserializeOwned + Send + Sync + 'static;
}

/// An object of the custom kind whose `spec` is `S`. [`crate::Api`], informers and kube-rs accept it like a
/// built-in type.
///
/// It keeps no fields other than `metadata`, `spec` and `status`: to keep others, update by a patch or
/// through [`crate::DynamicApi`].
#[derive(Clone, Debug, PartialEq)]
pub struct Custom<S: CustomSpec> {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: S,
    /// The reported state, if any.
    pub status: Option<S::Status>,
}

impl<S: CustomSpec> Custom<S> {
    /// An object without other metadata and without status.
    pub fn new(name: &str, spec: S) -> Self {
        Self {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec,
            status: None,
        }
    }
}

impl<S: CustomSpec> Serialize for Custom<S> {
    fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serialize_object::<Self, _, _, _>(&self.metadata, &self.spec, self.status.as_ref(), serializer)
    }
}

impl<'de, S: CustomSpec> Deserialize<'de> for Custom<S> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ObjectParts { metadata, spec, status } = ObjectParts::deserialize(deserializer)?;
        Ok(Self { metadata, spec, status })
    }
}

impl<S: CustomSpec> Resource for Custom<S> {
    const API_VERSION: &'static str = S::API_VERSION;
    const GROUP: &'static str = group_and_version(S::API_VERSION).0;
    const KIND: &'static str = S::KIND;
    const VERSION: &'static str = group_and_version(S::API_VERSION).1;
    const URL_PATH_SEGMENT: &'static str = S::PLURAL;
    type Scope = S::Scope;
}

impl<S: CustomSpec> Metadata for Custom<S> {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The parts of an `apiVersion`.
///
/// # Panics
///
/// Without a group; a custom kind has one. The compiler reports the panic, since it evaluates this function
/// for constants.
const fn group_and_version(api_version: &'static str) -> (&'static str, &'static str) {
    let bytes = api_version.as_bytes();
    let mut slash = 0;
    while slash < bytes.len() && bytes[slash] != b'/' {
        slash += 1;
    }
    assert!(slash < bytes.len(), "API_VERSION of a custom kind is <group>/<version>");
    (api_version.split_at(slash).0, api_version.split_at(slash + 1).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gvr;
    use k8s_openapi::NamespaceResourceScope;
    use serde_json::{Value, from_value, json, to_value};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct LampSpec {
        watts: i64,
    }

    impl CustomSpec for LampSpec {
        const API_VERSION: &'static str = "shop.example.com/v1beta1";
        const KIND: &'static str = "Lamp";
        const PLURAL: &'static str = "lamps";
        type Scope = NamespaceResourceScope;
        type Status = Value;
    }

    #[test]
    fn a_custom_type_has_its_resource_and_keeps_its_fields() {
        assert_eq!(Gvr::of::<Custom<LampSpec>>().to_string(), "shop.example.com/v1beta1/lamps");
        let stored = json!({"apiVersion": "shop.example.com/v1beta1", "kind": "Lamp",
            "metadata": {"name": "hall", "labels": {"floor": "1"}}, "spec": {"watts": 5}, "status": {"lit": true}});
        let lamp: Custom<LampSpec> = from_value(stored.clone()).unwrap();
        assert_eq!((lamp.spec.watts, lamp.status.as_ref().unwrap()), (5, &json!({"lit": true})));
        assert_eq!(to_value(&lamp).unwrap(), stored);
        let new = to_value(Custom::new("hall", LampSpec { watts: 5 })).unwrap();
        assert_eq!(
            new,
            json!({"apiVersion": "shop.example.com/v1beta1", "kind": "Lamp",
            "metadata": {"name": "hall"}, "spec": {"watts": 5}})
        );
        assert!(
            from_value::<Custom<LampSpec>>(json!({"metadata": {}, "spec": {}})).is_err(),
            "watts is missing"
        );
    }
}
