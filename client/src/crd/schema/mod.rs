//! Structural schemas of Rust types: [`structural`] rewrites the schema that `schemars` makes to the form
//! that Kubernetes requires of custom resources. The API server validates the objects.
//!
//! | in the type | in the schema |
//! |---|---|
//! | a type within a type | its schema inline, without references |
//! | `Option<T>` | `nullable: true`; a field of an enumeration is not nullable, since API servers refuse null
//! with `enum`, but drop a null field |
//! | an enum without data | `enum`, with the variants' descriptions in the description |
//! | an enum with data, tagged or not | the fields of all variants, and `oneOf` or `anyOf` with the checks
//! that distinguish them |
//! | `#[serde(flatten)]` of a struct or enum | its fields and alternatives, merged with the others |
//! | `#[serde(flatten)]` of a map | `x-kubernetes-preserve-unknown-fields` |
//! | a map | `additionalProperties`; checks of its keys are dropped |
//! | `serde_json::Value` | `x-kubernetes-preserve-unknown-fields` |
//! | a set of scalars | `x-kubernetes-list-type: set` |
//! | `IntOrString`, or an untagged enum of integer and string | `x-kubernetes-int-or-string` |
//! | integers | formats `int32` and `int64`, with bounds for smaller types |
//! | formats that Kubernetes does not check | dropped |
//! | `x-kubernetes-…` from `#[schemars(extend(…))]` | kept |
//! | recursion, tuples of several types, variants of several types | [`SchemaError`] |

mod error;
mod merge;
mod node;
mod numbers;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use error::{SchemaError, SchemaProblem};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use read::Reader;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;
use write::SchemaPosition;

/// The structural schema of a type's JSON, as serde reads it.
///
/// # Errors
///
/// The type has no structural schema; the error names the field.
pub fn structural<T: JsonSchema>() -> Result<JSONSchemaProps, SchemaError> {
    let document = SchemaGenerator::default().into_root_schema_for::<T>();
    let schema = rewrite(document.as_value())?;
    serde_json::from_value(schema).map_err(|error| SchemaProblem::Malformed(error.to_string()).into())
}

/// The structural form of a JSON Schema.
fn rewrite(document: &Value) -> Result<Value, SchemaError> {
    let node = Reader { root: document }.read(document, &[])?;
    write::schema(node, SchemaPosition::Field)
}
