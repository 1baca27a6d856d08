//! A DeviceClass as the scheduler caches it.

use super::claim::{SelectorDoc, expressions};
use crate::storage::Record;
use jiff::Timestamp;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The scheduler's data of a DeviceClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// The CEL expressions that every device of the class satisfies.
    pub selectors: Vec<String>,
    /// The configuration for drivers: entries of `spec.config`.
    pub config: Vec<Value>,
    /// The extended resource that devices of the class satisfy, besides the one that names the class.
    pub extended_resource: Option<String>,
    /// The time at which the class was created: of the classes with one extended resource the newest counts.
    pub created: Timestamp,
}

/// Decodes a DeviceClass.
///
/// # Errors
///
/// `json` is not a DeviceClass. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<Record<Class>, serde_json::Error> {
    let Doc { metadata, spec } = lenient::from_slice(json)?;
    let fields = Class {
        selectors: expressions(spec.selectors),
        config: spec.config.unwrap_or_default(),
        extended_resource: spec.extended_resource_name,
        created: metadata.creation_timestamp.unwrap_or_default(),
    };
    Ok(Record { key: metadata.key(), revision: metadata.revision(), uid: metadata.uid, fields })
}

#[derive(Deserialize)]
struct Doc {
    #[serde(default)]
    metadata: ProjectedMeta<IgnoredAny, IgnoredAny, IgnoredAny, Timestamp>,
    #[serde(default)]
    spec: SpecDoc,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecDoc {
    selectors: Option<Vec<SelectorDoc>>,
    config: Option<Vec<Value>>,
    extended_resource_name: Option<String>,
}
