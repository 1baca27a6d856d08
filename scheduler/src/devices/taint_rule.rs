//! A DeviceTaintRule as the scheduler caches it: a taint for devices that an administrator selects, besides those in ResourceSlices.

use super::DeviceId;
use super::slice::TaintDoc;
use crate::storage::{MetaDoc, Record};
use crate::taint::Taint;
use kstore_api::lenient;
use serde::Deserialize;

/// The scheduler's data of a DeviceTaintRule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaintRule {
    /// The devices with the taint; `None` if the rule has no selector and so selects none.
    pub selector: Option<DeviceSelector>,
    /// The taint; `None` if it has no effect on scheduling.
    pub taint: Option<Taint>,
}

/// The devices with these names. A name that is not given is any.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    /// The name of the driver.
    pub driver: Option<String>,
    /// The name of the pool.
    pub pool: Option<String>,
    /// The name of the device.
    pub device: Option<String>,
}

impl TaintRule {
    /// The taint that the rule gives a device.
    pub fn taint_of(&self, device: &DeviceId) -> Option<&Taint> {
        let is = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
        let selector = self.selector.as_ref()?;
        let is_selected = is(&selector.driver, &device.driver)
            && is(&selector.pool, &device.pool)
            && is(&selector.device, &device.device);
        self.taint.as_ref().filter(|_| is_selected)
    }
}

/// Decodes a DeviceTaintRule.
///
/// # Errors
///
/// `json` is not a DeviceTaintRule. The apiserver stores no such object.
pub fn decode(json: &[u8]) -> Result<Record<TaintRule>, serde_json::Error> {
    let Doc { metadata, spec } = lenient::from_slice(json)?;
    let taint = spec.taint.and_then(TaintDoc::taint);
    Ok(Record::of(metadata, TaintRule { selector: spec.device_selector, taint }))
}

#[derive(Deserialize)]
struct Doc {
    #[serde(default)]
    metadata: MetaDoc,
    #[serde(default)]
    spec: SpecDoc,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecDoc {
    device_selector: Option<DeviceSelector>,
    taint: Option<TaintDoc>,
}
