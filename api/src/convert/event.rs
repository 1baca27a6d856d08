//! Events: the same facts under other names.

use serde_json::Value;

use super::{put, take};

/// Core name, new name.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

pub(super) fn to_new(event: &mut Value) {
    for (core, new) in NAMES {
        let value = take(event, core);
        put(event, new, value);
    }
}

pub(super) fn to_core(event: &mut Value) {
    for (core, new) in NAMES {
        let value = take(event, new);
        put(event, core, value);
    }
}
