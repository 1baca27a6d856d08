//! [`Definition`]: one CustomResourceDefinition, compiled once and then shared. It holds what serving the kind needs; the JSON of the
//! schemas for OpenAPI stays in the stored object.

use std::sync::Arc;

use serde_json::Value;

use crate::structural::Tree;

use super::columns::ObjectColumn;
use super::scale::ScalePaths;
use super::selectable::SelectableField;

/// Names of a kind, as in `spec.names` and `status.acceptedNames`. Absent names are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Lower-case plural, the URL segment.
    pub plural: Arc<str>,
    /// Lower-case singular.
    pub singular: Arc<str>,
    /// Kind of the objects.
    pub kind: Arc<str>,
    /// Kind of their lists.
    pub list_kind: Arc<str>,
    /// Short names kubectl accepts, as written.
    pub short_names: Vec<Arc<str>>,
    /// Categories, such as `all`, as written.
    pub categories: Vec<Arc<str>>,
}

/// How objects get from one version of their kind to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// A webhook converts.
    Webhook {
        /// `spec.conversion.webhook.clientConfig`, unchanged.
        client_config: Value,
        /// Version of `ConversionReview` to send: the first listed of `v1` and `v1beta1`.
        review_version: Arc<str>,
    },
}

/// One version of a custom kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// Name, such as `v1`.
    pub name: Arc<str>,
    /// Whether requests for it are served.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// Whether it is deprecated.
    pub deprecated: bool,
    /// Text of the `Warning` header of each request, complete; present exactly for deprecated versions.
    pub warning: Option<Arc<str>>,
    /// SHA-256 of the schema's JSON: versions and definitions with equal schemas share one tree.
    pub schema_hash: [u8; 32],
    /// Compiled schema of whole objects.
    pub tree: Arc<Tree>,
    /// Whether `status` is written through its own path.
    pub has_status: bool,
    /// Paths of the scale subresource, where it is enabled.
    pub scale: Option<Arc<ScalePaths>>,
    /// Columns of tables, `Name` included.
    pub columns: Arc<[ObjectColumn]>,
    /// Fields that field selectors know besides `metadata.name` and `metadata.namespace`.
    pub selectable: Arc<[SelectableField]>,
}

/// One compiled CustomResourceDefinition. Immutable; a change of the stored object makes another one.
#[derive(Clone, Debug)]
pub struct Definition {
    /// `metadata.name`: `<plural>.<group>`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// API group.
    pub group: Arc<str>,
    /// Names that were asked for.
    pub names: Names,
    /// Names that were granted; empty ones were not (yet).
    pub accepted: Names,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// All versions, served or not, by priority: the first served one is the preferred.
    pub versions: Vec<Version>,
    /// Index of the storage version in `versions`.
    pub storage: usize,
    /// Conversion between versions.
    pub conversion: Conversion,
    /// SHA-256 over what governs the form of stored bytes: all schemas, the storage version, conversion and scope. Stored
    /// bytes that were normalised under the same hash need no second look.
    pub spec_hash: [u8; 32],
    /// Condition `NamesAccepted` is true.
    pub names_accepted: bool,
    /// Condition `Established` is true.
    pub established: bool,
    /// The definition has a deletion timestamp, or its condition `Terminating` is true.
    pub terminating: bool,
    /// `status.storedVersions`.
    pub stored_versions: Vec<Arc<str>>,
}

/// Why an object is no definition that could be served. Stored definitions passed validation, so it means damaged data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct CompileError {
    /// Path of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Definition {
    /// Whether requests for the kind are served: its names are accepted, or it is established.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.names_accepted || self.established
    }

    /// Served versions, preferred first.
    pub fn served(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|version| version.served)
    }

    /// The version of this name, served or not.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| &*version.name == name)
    }

    /// The version in which objects are stored.
    #[must_use]
    pub fn storage_version(&self) -> &Version {
        &self.versions[self.storage]
    }

    /// `<group>/<version>`, the `apiVersion` of objects of a version.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        format!("{}/{version}", self.group)
    }
}
