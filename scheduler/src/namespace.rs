//! A namespace as the scheduler caches it: the labels that pod affinity terms may select.

use crate::pod_constraints::Labels;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;

/// The scheduler's data of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// The name.
    pub key: Key,
    /// The uid.
    pub uid: String,
    /// The revision of the decoded object.
    pub revision: Revision,
    /// The labels.
    pub labels: Labels,
}

impl Object for NamespaceInfo {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

/// Decodes a namespace.
///
/// # Errors
///
/// `json` is not a namespace.
pub fn decode(json: &[u8]) -> Result<NamespaceInfo, serde_json::Error> {
    #[derive(Deserialize)]
    struct Doc {
        metadata: ProjectedMeta<Labels>,
    }
    let Doc { metadata } = lenient::from_slice(json)?;
    let (key, revision) = (metadata.key(), metadata.revision());
    Ok(NamespaceInfo { key, uid: metadata.uid, revision, labels: metadata.labels })
}
