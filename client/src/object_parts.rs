//! The JSON of an object of a custom kind: `apiVersion` and `kind` from its type, `metadata`, `spec` and
//! `status` from its fields. [`crate::Custom`] and the types of `derive(CustomResource)` share it.

use k8s_openapi::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize, Serializer};

/// The decoded fields of an object. The decoder ignores `apiVersion` and `kind`: a client requests one kind.
#[derive(Deserialize)]
pub struct ObjectParts<S, T> {
    /// The metadata; empty if the object has none.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: S,
    /// The reported state, if any.
    #[serde(default = "Option::default")]
    pub status: Option<T>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SerializedObject<'o, S, T> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'o ObjectMeta,
    spec: &'o S,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'o T>,
}

/// Serializes an object of the kind `K` with these fields. Without a status it writes no such field.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize_object<K: Resource, S: Serialize, T: Serialize, Z: Serializer>(
    metadata: &ObjectMeta,
    spec: &S,
    status: Option<&T>,
    serializer: Z,
) -> Result<Z::Ok, Z::Error> {
    SerializedObject { api_version: K::API_VERSION, kind: K::KIND, metadata, spec, status }
        .serialize(serializer)
}
