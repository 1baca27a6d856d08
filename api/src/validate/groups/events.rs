//! Validation of events in events.k8s.io.
//!
//! Follows `ValidateEventCreate` and `ValidateEventUpdate`.

use crate::check::{IMMUTABLE, grammar};
use crate::field::{ErrorList, Path};
use crate::limits::{EVENT_NOTE_MAX, EVENT_WORD_MAX};
use crate::object::{int, semantically_equal, text};
use crate::{meta, name};
use serde_json::Value;

/// Checks the event's namespace, and the reporter fields of events with an `eventTime`.
pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let (own, about) = (meta::namespace(object), text(&object["regarding"]["namespace"]));
    let path = Path::new("involvedObject.namespace");
    let misplaced = match (object["eventTime"].is_null(), about) {
        (true, "") => !matches!(own, "" | "default"),
        (true, about) => own != about,
        (false, "") => !matches!(own, "default" | "kube-system"),
        (false, _) => false,
    };
    if misplaced {
        errors.invalid(&path, about, "does not match event.namespace");
    }
    if object["eventTime"].is_null() {
        return;
    }
    let controller = text(&object["reportingController"]);
    let at = Path::new("reportingController");
    if controller.is_empty() {
        errors.required(&at, "");
    }
    grammar(errors, &at, controller, name::qualified_name(controller));
    for member in ["reportingInstance", "action", "reason"] {
        match text(&object[member]) {
            "" => errors.required(&Path::new(member), ""),
            word => bounded(errors, member, word, EVENT_WORD_MAX),
        }
    }
    bounded(errors, "message", text(&object["note"]), EVENT_NOTE_MAX);
}

fn bounded(errors: &mut ErrorList, member: &str, value: &str, max: usize) {
    if value.len() > max {
        errors.invalid(&Path::new(member), "", format!("can have at most {max} characters"));
    }
}

/// Members of the core API that new events must not set, with their names in messages.
const OLD: [(&str, &str); 4] = [
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("deprecatedSource", "source"),
];

pub(crate) fn create(object: &Value, errors: &mut ErrorList) {
    series(object, errors);
    if object["eventTime"].is_null() {
        errors.required(&Path::new("eventTime"), "");
    }
    let kind = text(&object["type"]);
    if !["Normal", "Warning"].contains(&kind) {
        errors.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
    }
    for (member, called) in OLD {
        let value = &object[member];
        if *value != 0 && !semantically_equal(value, &Value::Null) {
            errors.invalid(&Path::new(called), "", "needs to be unset");
        }
    }
}

fn series(object: &Value, errors: &mut ErrorList) {
    let series = &object["series"];
    if series.is_null() {
        return;
    }
    if int(&series["count"]) < 2 {
        errors.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        errors.required(&Path::new("series.lastObservedTime"), "");
    }
}

/// Checks that an update changes only the series.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if !semantically_equal(&new["series"], &old["series"]) {
        series(new, errors);
    }
    let renamed = [("regarding", "involvedObject"), ("reason", "reason"), ("note", "message")];
    let rest = ["type", "eventTime", "action", "related", "reportingController", "reportingInstance"];
    let rest = rest.map(|member| (member, member));
    let old_shape = [OLD[3], OLD[0], OLD[1], OLD[2]];
    for (member, called) in renamed.into_iter().chain(old_shape).chain(rest) {
        if !semantically_equal(&new[member], &old[member]) {
            errors.invalid(&Path::new(called), &new[member], IMMUTABLE);
        }
    }
}
