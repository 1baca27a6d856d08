//! Conversion of events between core and events.k8s.io: the same fields under other names.

use super::{put, take};
use serde_json::Value;

/// Member names in core and in events.k8s.io.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

pub(crate) fn to_new(event: &mut Value) {
    for (core, new) in NAMES {
        let value = take(event, core);
        put(event, new, value);
    }
    // Core always prints them; here they are left out when empty.
    for member in ["reportingController", "reportingInstance"] {
        if event[member] == "" {
            take(event, member);
        }
    }
}

pub(crate) fn to_core(event: &mut Value) {
    for (core, new) in NAMES {
        let value = take(event, new);
        put(event, core, value);
    }
}
