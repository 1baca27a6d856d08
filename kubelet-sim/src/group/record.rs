//! [`GroupRecord`]: a NodeGroup in the informer's cache.

use super::REMOVE_ANNOTATION;
use super::spec::GroupDoc;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// A group.
#[derive(Debug)]
pub(crate) struct GroupRecord {
    key: Key,
    revision: Revision,
    pub(crate) object: GroupObject,
}

/// The fields of a NodeGroup.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupObject {
    pub(crate) metadata: ProjectedMeta<IgnoredAny, BTreeMap<String, String>, IgnoredAny, Time>,
    pub(crate) spec: GroupDoc,
    pub(crate) status: GroupStatus,
}

/// The fields of the status that outlive this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupStatus {
    /// What the instances have cost, as a decimal number.
    pub(crate) spent: String,
    /// Up to which time `spent` counts.
    pub(crate) spent_time: Option<Time>,
}

impl GroupRecord {
    pub(crate) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let object: GroupObject = lenient::from_slice(json)?;
        Ok(Self { key: object.metadata.key(), revision: object.metadata.revision(), object })
    }

    pub(crate) fn name(&self) -> &str {
        &self.object.metadata.name
    }

    /// Whether a Node with this uid is to be given up before all others.
    pub(crate) fn is_removing(&self, uid: &str) -> bool {
        let uids = self.object.metadata.annotations.get(REMOVE_ANNOTATION);
        uids.is_some_and(|uids| uids.split(',').any(|one| one == uid))
    }
}

impl Object for GroupRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.object.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}
