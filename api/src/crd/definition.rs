//! [`Definition`]: one CustomResourceDefinition, compiled once and then shared. It has what serving the kind
//! needs; schemas for OpenAPI stay in the stored object.

use super::columns::ObjectColumn;
use super::scale::ScalePaths;
use super::selectable::SelectableField;
use crate::structural::Tree;
use serde_json::Value;
use std::sync::Arc;

/// Names of a kind, from `spec.names` or `status.acceptedNames`. Absent names are empty.
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
    /// Short names kubectl accepts, in the given spelling.
    pub short_names: Vec<Arc<str>>,
    /// Categories, such as `all`, in the given spelling.
    pub categories: Vec<Arc<str>>,
}

/// Strategy that converts objects between versions of their kind.
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
    /// Name of the version, such as `v1`.
    pub name: Arc<str>,
    /// Whether the version is served.
    pub served: bool,
    /// Whether objects are stored in this version.
    pub storage: bool,
    /// Whether the version is deprecated.
    pub deprecated: bool,
    /// Text of the `Warning` header for requests in a deprecated version; `None` for other versions.
    pub warning: Option<Arc<str>>,
    /// SHA-256 of the schema's JSON. Versions and definitions with equal schemas share one compiled schema.
    pub schema_hash: [u8; 32],
    /// Compiled schema of whole objects.
    pub tree: Arc<Tree>,
    /// Whether `status` is a subresource.
    pub has_status: bool,
    /// Paths of the scale subresource, if it is enabled.
    pub scale: Option<Arc<ScalePaths>>,
    /// Table columns, `Name` included.
    pub columns: Arc<[ObjectColumn]>,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`.
    pub selectable: Arc<[SelectableField]>,
}

/// Compiled CustomResourceDefinition. It is immutable; a change of the stored object makes a new one.
#[derive(Clone, Debug)]
pub struct Definition {
    /// `metadata.name`: `<plural>.<group>`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// API group.
    pub group: Arc<str>,
    /// Requested names (`spec.names`).
    pub names: Names,
    /// Accepted names (`status.acceptedNames`); names not accepted yet are empty.
    pub accepted: Names,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// All versions, served or not, by priority; the first served one is the preferred version.
    pub versions: Vec<Version>,
    /// Index of the storage version in `versions`.
    pub storage: usize,
    /// Conversion between versions.
    pub conversion: Conversion,
    /// SHA-256 over everything that determines the stored form of objects: all schemas, the storage version,
    /// conversion and scope. Objects stored under the same hash need no second normalization.
    pub spec_hash: [u8; 32],
    /// Whether the condition `NamesAccepted` is true.
    pub names_accepted: bool,
    /// Whether the condition `Established` is true.
    pub established: bool,
    /// Whether the definition has a deletion timestamp, or the condition `Terminating` is true.
    pub terminating: bool,
    /// `status.storedVersions`.
    pub stored_versions: Vec<Arc<str>>,
}

/// Error: the object cannot be compiled into a served definition. Stored definitions passed validation, so
/// this means damaged data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct CompileError {
    /// Path of the field.
    pub field: String,
    /// Problem of the field.
    pub problem: String,
}

impl Definition {
    /// Whether the kind is served: its names are accepted, or it is established.
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

    /// The `apiVersion` of objects of a version: `<group>/<version>`.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        format!("{}/{version}", self.group)
    }
}
