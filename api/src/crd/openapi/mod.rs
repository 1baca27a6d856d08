//! OpenAPI of custom kinds: models and paths of one version of one definition, for v3 and v2.

use serde_json::{Map, Value};

use super::definition::Definition;

/// What a definition adds to a document: members to be merged into `components.schemas` (v3) or `definitions` (v2), and into `paths`.
/// Types of `io.k8s.…` that they refer to are named, not contained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fragment {
    /// Models by name.
    pub schemas: Map<String, Value>,
    /// Path items by path.
    pub paths: Map<String, Value>,
    /// Names of the built-in models that this fragment refers to, sorted.
    pub references: Vec<String>,
}

/// Name of the model of a kind, such as `com.example.v1.Foo`.
#[must_use]
pub fn model_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// The part of `/openapi/v3/apis/<group>/<version>` that is about one definition; `crd` is its stored object.
#[must_use]
pub fn v3(definition: &Definition, crd: &Value, version: &str) -> Fragment {
    let _ = (definition, crd, version);
    todo!()
}

/// The part of `/openapi/v2` that is about one version of one definition; `crd` is its stored object.
#[must_use]
pub fn v2(definition: &Definition, crd: &Value, version: &str) -> Fragment {
    let _ = (definition, crd, version);
    todo!()
}
