//! The JSON of an object of a custom kind: `apiVersion` and `kind` from its type, `metadata`, `spec` and `status` from its fields. Shared
//! by [`crate::Custom`] and the types that `derive(CustomResource)` makes.

use k8s_openapi::{Resource, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize, Serializer};

/// What an object is read into. `apiVersion` and `kind` are not compared: a client asks for one kind.
#[derive(Deserialize)]
pub struct ObjectParts<S, T> {
    /// Empty if the object has none.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: S,
    /// What is, if something has been reported.
    #[serde(default = "Option::default")]
    pub status: Option<T>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'o, S, T> {
    api_version: &'static str,
    kind: &'static str,
    metadata: &'o ObjectMeta,
    spec: &'o S,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'o T>,
}

/// Writes an object of the kind `K` with these fields. Without a status, it has no such field.
///
/// # Errors
/// Those of the serializer.
pub fn serialize_object<K: Resource, S: Serialize, T: Serialize, Z: Serializer>(
    metadata: &ObjectMeta,
    spec: &S,
    status: Option<&T>,
    serializer: Z,
) -> Result<Z::Ok, Z::Error> {
    Written { api_version: K::API_VERSION, kind: K::KIND, metadata, spec, status }.serialize(serializer)
}
