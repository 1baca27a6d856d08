//! What must hold of events. One object has two shapes, core/v1 and events.k8s.io/v1; messages name the members of the first, but for
//! the reporter.

use serde_json::Value;

use super::check::{IMMUTABLE, grammar};
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::name;
use crate::object::{int, semantically_equal, text};

/// Bytes of the texts that name a reporter, an action, a reason.
const WORD_MAX: usize = 128;
/// Bytes of the note.
const NOTE_MAX: usize = 1024;

/// How a shape names its members.
struct Shape {
    about: &'static str,
    note: &'static str,
    reporter: &'static str,
}

const OLD: Shape = Shape { about: "involvedObject", note: "message", reporter: "reportingComponent" };
const NEW: Shape = Shape { about: "regarding", note: "note", reporter: "reportingController" };

/// An event in the shape of core/v1, at any time.
pub(super) fn content(object: &Value, errors: &mut ErrorList) {
    common(errors, object, &OLD);
}

/// A new event in the shape of events.k8s.io/v1.
pub(super) fn strict(object: &Value, errors: &mut ErrorList) {
    common(errors, object, &NEW);
    series(errors, &object["series"]);
    if object["eventTime"].is_null() {
        errors.required(&Path::new("eventTime"), "");
    }
    let kind = text(&object["type"]);
    if !["Normal", "Warning"].contains(&kind) {
        errors.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
    }
    let source = &object["deprecatedSource"];
    let sourced = !text(&source["component"]).is_empty() || !text(&source["host"]).is_empty();
    for (member, set) in [
        ("firstTimestamp", !object["deprecatedFirstTimestamp"].is_null()),
        ("lastTimestamp", !object["deprecatedLastTimestamp"].is_null()),
        ("count", int(&object["deprecatedCount"]) != 0),
        ("source", sourced),
    ] {
        if set {
            errors.invalid(&Path::new(member), "", "needs to be unset");
        }
    }
}

/// A successor in the shape of events.k8s.io/v1: only the series goes on.
pub(super) fn strict_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    common(errors, new, &NEW);
    if !semantically_equal(&new["series"], &old["series"]) {
        series(errors, &new["series"]);
    }
    for (member, shown) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if !semantically_equal(&new[member], &old[member]) {
            errors.invalid(&Path::new(shown), &new[member], IMMUTABLE);
        }
    }
}

/// An event lives in the namespace of the object it is about; events about cluster-scoped objects in a system namespace. Events with a
/// time of their own also say who reports what.
fn common(errors: &mut ErrorList, object: &Value, shape: &Shape) {
    let (own, about) = (meta::namespace(object), text(&object[shape.about]["namespace"]));
    let timed = !object["eventTime"].is_null();
    let fits = match about {
        "" if timed => matches!(own, "default" | "kube-system"),
        "" => matches!(own, "" | "default"),
        about => timed || own == about,
    };
    if !fits {
        errors.invalid(&Path::new("involvedObject.namespace"), about, "does not match event.namespace");
    }
    if timed {
        words(errors, object, shape);
    }
    grammar(errors, &Path::new("namespace"), own, name::dns1123_subdomain(own));
}

fn words(errors: &mut ErrorList, object: &Value, shape: &Shape) {
    let (path, reporter) = (Path::new(shape.reporter), text(&object[shape.reporter]));
    if reporter.is_empty() {
        errors.required(&path, "");
    }
    grammar(errors, &path, reporter, name::qualified_name(reporter));
    for member in ["reportingInstance", "action", "reason"] {
        let (path, word) = (Path::new(member), text(&object[member]));
        if word.is_empty() {
            errors.required(&path, "");
        }
        if word.len() > WORD_MAX {
            errors.invalid(&path, "", format!("can have at most {WORD_MAX} characters"));
        }
    }
    if text(&object[shape.note]).len() > NOTE_MAX {
        errors.invalid(&Path::new("message"), "", format!("can have at most {NOTE_MAX} characters"));
    }
}

fn series(errors: &mut ErrorList, series: &Value) {
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
