//! What must hold of events, in both shapes.

use serde_json::Value;

use super::check::{grammar, one_of};
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::name;
use crate::object::text;

/// An event lives in the namespace of the object it is about; events about cluster-scoped objects in a system namespace.
pub(super) fn content(object: &Value, errors: &mut ErrorList) {
    let (own, about) = (meta::namespace(object), text(&object["involvedObject"]["namespace"]));
    let fits = match about {
        "" => matches!(own, "" | "default" | "kube-system"),
        about => own == about,
    };
    if !fits {
        errors.invalid(&Path::new("involvedObject.namespace"), about, "does not match event.namespace");
    }
}

/// Bytes of the texts that name a reporter, an action, a reason.
const WORD_MAX: usize = 128;
/// Bytes of the note.
const NOTE_MAX: usize = 1024;

/// What the new shape demands and the old one does not.
pub(super) fn strict(object: &Value, errors: &mut ErrorList) {
    if object["eventTime"].is_null() {
        errors.required(&Path::new("eventTime"), "");
    }
    let controller = text(&object["reportingController"]);
    if controller.is_empty() {
        errors.required(&Path::new("reportingController"), "");
    } else {
        grammar(errors, &Path::new("reportingController"), controller, name::qualified_name(controller));
    }
    for member in ["reportingInstance", "action", "reason"] {
        match text(&object[member]) {
            "" => errors.required(&Path::new(member), ""),
            word if word.len() > WORD_MAX => {
                errors.invalid(&Path::new(member), "", format!("can have at most {WORD_MAX} characters"));
            }
            _ => {}
        }
    }
    if text(&object["note"]).len() > NOTE_MAX {
        errors.invalid(&Path::new("note"), "", format!("can have at most {NOTE_MAX} characters"));
    }
    one_of(errors, &Path::new("type"), &object["type"], &["Normal", "Warning"]);
    let (own, about) = (meta::namespace(object), text(&object["regarding"]["namespace"]));
    if !matches!((about, own), ("", "default" | "kube-system")) && about != own {
        errors.invalid(&Path::new("regarding.namespace"), about, "does not match event.namespace");
    }
}
