//! Preparation of resource slices, device taint rules and claims: times of device taints, and statuses of devices that a claim no longer
//! holds.

use crate::meta;
use crate::object::{list, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Sets the missing times of taints in a new slice to its creation time.
pub(crate) fn date_taints(slice: &mut Value) {
    let created = meta::creation_timestamp(slice).to_owned();
    taints(slice).for_each(|taint| date(taint, &created));
}

/// Sets the missing times of known taints in an updated slice to the stored times. A taint is known by its device, key
/// and effect.
pub(crate) fn keep_dates(new: &mut Value, old: &Value) {
    let id = |device: &Value, taint: &Value| {
        [&device["name"], &taint["key"], &taint["effect"]].map(|member| text(member).to_owned())
    };
    let times = list(&old["spec"]["devices"]).iter().flat_map(|device| {
        list(&device["taints"]).iter().map(move |taint| (id(device, taint), text(&taint["timeAdded"])))
    });
    // Of taints with the same key and effect, the first counts.
    let times: BTreeMap<_, &str> = times.rev().collect();
    for device in devices(new) {
        let name = json!({ "name": device["name"] });
        for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
            date(taint, times.get(&id(&name, taint)).copied().unwrap_or_default());
        }
    }
}

/// Sets the missing times of taints in an updated slice to `now`: they are new.
pub(crate) fn date_new_taints(new: &mut Value, _: &Value, now: &str) {
    taints(new).for_each(|taint| date(taint, now));
}

/// Sets the missing time of a new rule's taint to its creation time.
pub(crate) fn date_rule(rule: &mut Value) {
    let created = meta::creation_timestamp(rule).to_owned();
    date(&mut rule["spec"]["taint"], &created);
}

/// Sets the time of an updated rule's taint to `now` if it is missing, and if the effect changed without a new time: the time says since
/// when the taint has its effect.
pub(crate) fn date_changed_rule(new: &mut Value, old: &Value, now: &str) {
    let (taint, before) = (&mut new["spec"]["taint"], &old["spec"]["taint"]);
    if taint.is_object() && taint["effect"] != before["effect"] && taint["timeAdded"] == before["timeAdded"] {
        taint["timeAdded"] = now.into();
    }
    date(taint, now);
}

fn date(taint: &mut Value, since: &str) {
    if taint.is_object() && taint["timeAdded"].is_null() && !since.is_empty() {
        taint["timeAdded"] = since.into();
    }
}

fn devices(slice: &mut Value) -> impl Iterator<Item = &mut Value> {
    slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut).into_iter().flatten()
}

fn taints(slice: &mut Value) -> impl Iterator<Item = &mut Value> {
    devices(slice).filter_map(|device| device.get_mut("taints").and_then(Value::as_array_mut)).flatten()
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
