//! [`LoadRecord`]: a ServiceLoad in the informer's cache.

use super::spec::{LoadDoc, LoadSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A load.
#[derive(Debug)]
pub(crate) struct LoadRecord {
    key: Key,
    revision: Revision,
    uid: String,
    pub(crate) created: Timestamp,
    /// The spec, or what is wrong with it.
    pub(crate) spec: Result<LoadSpec, String>,
}

/// The fields of a ServiceLoad.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadObject {
    metadata: ProjectedMeta<IgnoredAny, IgnoredAny, IgnoredAny, Time>,
    spec: LoadDoc,
}

impl LoadRecord {
    pub(crate) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let LoadObject { metadata, spec } = lenient::from_slice(json)?;
        let (key, revision) = (metadata.key(), metadata.revision());
        let created = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        Ok(Self { key, revision, uid: metadata.uid, created, spec: LoadSpec::check(&spec) })
    }
}

impl Object for LoadRecord {
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
