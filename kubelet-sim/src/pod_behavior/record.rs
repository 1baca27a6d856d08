//! [`BehaviorRecord`]: a PodBehavior in the informer's cache.

use super::spec::{BehaviorDoc, BehaviorSpec};
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;

/// A rule.
#[derive(Debug)]
pub(crate) struct BehaviorRecord {
    key: Key,
    revision: Revision,
    uid: String,
    /// The spec, or what is wrong with it.
    pub(crate) spec: Result<BehaviorSpec, String>,
}

/// The fields of a PodBehavior.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BehaviorObject {
    metadata: ProjectedMeta,
    spec: BehaviorDoc,
}

impl BehaviorRecord {
    pub(crate) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let BehaviorObject { metadata, spec } = lenient::from_slice(json)?;
        let (key, revision) = (metadata.key(), metadata.revision());
        Ok(Self { key, revision, uid: metadata.uid, spec: BehaviorSpec::check(&spec) })
    }

    pub(crate) fn name(&self) -> &str {
        self.key.name()
    }
}

impl Object for BehaviorRecord {
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
