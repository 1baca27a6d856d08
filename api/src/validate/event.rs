//! Validation of core events. [`super::groups`] validates those of events.k8s.io.
//!
//! Follows `legacyValidateEvent`.

use crate::check::grammar;
use crate::field::{ErrorList, Path};
use crate::limits::{EVENT_NOTE_MAX, EVENT_WORD_MAX};
use crate::object::text;
use crate::{meta, name};
use serde_json::Value;

/// Checks an event on create and update.
pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    namespace(errors, object);
    if !object["eventTime"].is_null() {
        reporter(errors, object);
    }
    let own = meta::namespace(object);
    grammar(errors, &Path::new("namespace"), own, name::dns1123_subdomain(own));
}

/// Checks the event's namespace: that of the object it is about, or a system namespace for cluster-scoped
/// objects.
fn namespace(errors: &mut ErrorList, object: &Value) {
    let (own, about) = (meta::namespace(object), text(&object["involvedObject"]["namespace"]));
    let timed = !object["eventTime"].is_null();
    let fits = match about {
        "" if timed => matches!(own, "default" | "kube-system"),
        "" => matches!(own, "" | "default"),
        about => timed || own == about,
    };
    if !fits {
        errors.invalid(&Path::new("involvedObject.namespace"), about, "does not match event.namespace");
    }
}

/// Checks that events with an `eventTime` name their reporter, action and reason.
fn reporter(errors: &mut ErrorList, object: &Value) {
    let (path, reporter) = (Path::new("reportingComponent"), text(&object["reportingComponent"]));
    if reporter.is_empty() {
        errors.required(&path, "");
    }
    grammar(errors, &path, reporter, name::qualified_name(reporter));
    for member in ["reportingInstance", "action", "reason"] {
        let (path, word) = (Path::new(member), text(&object[member]));
        if word.is_empty() {
            errors.required(&path, "");
        }
        if word.len() > EVENT_WORD_MAX {
            errors.invalid(&path, "", format!("can have at most {EVENT_WORD_MAX} characters"));
        }
    }
    if text(&object["message"]).len() > EVENT_NOTE_MAX {
        errors.invalid(&Path::new("message"), "", format!("can have at most {EVENT_NOTE_MAX} characters"));
    }
}
