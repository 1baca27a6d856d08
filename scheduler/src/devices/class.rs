//! A DeviceClass as the scheduler caches it.

use super::claim::{SelectorDoc, expressions};
use crate::storage::{MetaDoc, Record};
use kstore_api::lenient;
use serde::Deserialize;
use serde_json::Value;

/// The scheduler's data of a DeviceClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// The CEL expressions that every device of the class satisfies.
    pub selectors: Vec<String>,
    /// The configuration for drivers: entries of `spec.config`.
    pub config: Vec<Value>,
}

/// Decodes a DeviceClass.
///
/// # Errors
///
/// `json` is not a DeviceClass. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<Record<Class>, serde_json::Error> {
    let Doc { metadata, spec } = lenient::from_slice(json)?;
    let selectors = expressions(spec.selectors);
    Ok(Record::of(metadata, Class { selectors, config: spec.config.unwrap_or_default() }))
}

#[derive(Deserialize)]
struct Doc {
    #[serde(default)]
    metadata: MetaDoc,
    #[serde(default)]
    spec: SpecDoc,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecDoc {
    selectors: Option<Vec<SelectorDoc>>,
    config: Option<Vec<Value>>,
}
