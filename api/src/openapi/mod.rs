//! OpenAPI v3 documents, one per group and version, and the index that names them. kubectl reads them for `explain`, to
//! learn which patch types a resource takes and how its lists merge, and whether the server validates fields.
//!
//! Types and descriptions come from `k8s-openapi`, list and patch facts from the field table, paths from the resources
//! handed in. Nothing is cached here: a document is large and made on demand; the [`fingerprint`] is cheap and changes
//! whenever the document would.

mod operation;
mod parameters;
mod paths;
mod roots;
mod schemas;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};

use crate::kind::Resource;
use crate::schema;

/// A group and version; the group is empty for `v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersion {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
}

impl GroupVersion {
    /// Path below the root, which is also the document's name: `api/v1` or `apis/apps/v1`.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { group, version } = self;
        if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
    }
}

/// What a document says about one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceDoc {
    /// URL segment.
    pub plural: String,
    /// Kind of its objects.
    pub kind: String,
    /// Name of its type among the schemas.
    pub schema_name: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs as discovery lists them.
    pub verbs: Vec<String>,
    /// Paths below an object.
    pub subresources: Vec<SubresourceDoc>,
    /// The schema of a custom resource; `None` for built-in kinds.
    pub custom: Option<Value>,
}

/// What a document says about a path below an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubresourceDoc {
    /// URL segment.
    pub name: String,
    /// Group, version and kind of the body.
    pub body: (String, String, String),
    /// Name of the body's type among the schemas; `None` where the answer is no object (logs, exec).
    pub schema_name: Option<String>,
    /// Verbs as discovery lists them.
    pub verbs: Vec<String>,
}

impl From<&Resource> for ResourceDoc {
    fn from(resource: &Resource) -> Self {
        let owned = |verbs: &[&str]| verbs.iter().map(|v| (*v).to_owned()).collect();
        let subresources = resource.subresources.iter().map(|sub| SubresourceDoc {
            name: sub.name.to_owned(),
            body: (sub.group.to_owned(), sub.version.to_owned(), sub.kind.to_owned()),
            schema_name: schema::of(sub.group, sub.version, sub.kind)
                .filter(|_| !matches!(sub.name, "log" | "exec" | "attach" | "portforward" | "proxy"))
                .map(schema::Type::openapi_name),
            verbs: owned(sub.verbs),
        });
        Self {
            plural: resource.plural.to_owned(),
            kind: resource.kind.to_owned(),
            schema_name: resource.schema.to_owned(),
            namespaced: resource.namespaced,
            verbs: owned(resource.verbs),
            subresources: subresources.collect(),
            custom: None,
        }
    }
}

/// The document of one group and version.
#[must_use]
pub fn document(gv: &GroupVersion, resources: &[ResourceDoc]) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths::paths(gv, resources),
        "components": {"schemas": schemas::schemas(gv, resources)},
    })
}

/// The document at `/openapi/v3`: where each group and version has its document, with its fingerprint.
#[must_use]
pub fn index<'a>(documents: impl IntoIterator<Item = (&'a GroupVersion, &'a [ResourceDoc])>) -> Value {
    let paths = documents.into_iter().map(|(gv, resources)| {
        let path = gv.path();
        let url = format!("/openapi/v3/{path}?hash={}", fingerprint(gv, resources));
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": Value::Object(paths.collect())})
}

/// A text that changes when the document does; for the `hash` parameter and the ETag. It does not make the document.
#[must_use]
pub fn fingerprint(gv: &GroupVersion, resources: &[ResourceDoc]) -> String {
    let mut hash = Sha512::new();
    // Built-in schemas change with the program only.
    hash.update(env!("CARGO_PKG_VERSION"));
    hash.update(format!("{gv:?}{resources:?}"));
    hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// A reference to a schema of the same document.
fn reference(schema_name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema_name}")})
}

/// Schema names that every document uses.
mod common {
    /// Options of delete requests.
    pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    /// Metadata of lists.
    pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
    /// Metadata of objects.
    pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    /// Any patch.
    pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
    /// The answer that is no object.
    pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
}
