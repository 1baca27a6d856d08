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
    /// What its condition `Invalid` says is wrong; `None` if the condition is not true.
    pub(crate) shown: Option<String>,
}

/// The fields of a ServiceLoad.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadObject {
    metadata: ProjectedMeta<IgnoredAny, IgnoredAny, IgnoredAny, Time>,
    spec: LoadDoc,
    status: LoadStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadStatus {
    conditions: Vec<LoadCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

impl LoadRecord {
    pub(crate) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let LoadObject { metadata, spec, status } = lenient::from_slice(json)?;
        let is_invalid = |one: &LoadCondition| one.kind == "Invalid" && one.status == "True";
        let shown = status.conditions.into_iter().find(is_invalid).map(|condition| condition.message);
        let (key, revision) = (metadata.key(), metadata.revision());
        let created = metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        Ok(Self { key, revision, uid: metadata.uid, created, spec: LoadSpec::check(&spec), shown })
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
