//! Preparation of resource slices and claims: times of device taints, and statuses of devices that a claim no
//! longer holds.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::meta;
use crate::object::{list, text};

/// Sets the missing times of taints in a new slice to its creation time.
pub(crate) fn date_taints(slice: &mut Value) {
    let created = meta::creation_timestamp(slice).to_owned();
    taints(slice).for_each(|taint| date(taint, &created));
}

/// Sets the missing times of taints in an updated slice: the stored time for known taints, else the slice's
/// creation time, since this crate has no clock.
pub(crate) fn keep_dates(new: &mut Value, old: &Value) {
    let devices = list(&old["spec"]["devices"]).iter();
    let key = |taint: &Value| [taint["key"].to_string(), taint["effect"].to_string()];
    // Of taints with the same key and effect, the first counts.
    let stored = devices.flat_map(|device| list(&device["taints"])).rev();
    let stored: BTreeMap<_, &Value> = stored.map(|taint| (key(taint), &taint["timeAdded"])).collect();
    let created = meta::creation_timestamp(old).to_owned();
    for taint in taints(new) {
        let since = stored.get(&key(taint)).map_or(created.clone(), |added| text(added).to_owned());
        date(taint, &since);
    }
}

fn date(taint: &mut Value, since: &str) {
    if taint["timeAdded"].is_null() && !since.is_empty() {
        taint["timeAdded"] = since.into();
    }
}

fn taints(slice: &mut Value) -> impl Iterator<Item = &mut Value> {
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut).into_iter().flatten();
    devices
        .filter_map(|device| device.get_mut("taints").and_then(Value::as_array_mut))
        .flatten()
        .filter(|taint| taint.is_object())
}

/// Removes the statuses of devices that the claim no longer holds. The writer that deallocates them may not
/// know that drivers report device statuses.
pub(crate) fn drop_deallocated_devices(new: &mut Value, old: &Value) {
    let id = |device: &Value| ["driver", "pool", "device", "shareID"].map(|m| text(&device[m]).to_owned());
    let allocated = |claim: &Value| -> BTreeSet<_> {
        list(&claim["status"]["allocation"]["devices"]["results"]).iter().map(id).collect()
    };
    let (before, after) = (allocated(old), allocated(new));
    let Some(reported) = new.pointer_mut("/status/devices").and_then(Value::as_array_mut) else { return };
    reported.retain(|device| !before.contains(&id(device)) || after.contains(&id(device)));
    if reported.is_empty()
        && let Some(status) = new["status"].as_object_mut()
    {
        status.remove("devices");
    }
}
