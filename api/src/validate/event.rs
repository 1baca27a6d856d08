//! What must hold of core events; the newer shape is judged in `groups::events`.

use serde_json::Value;

use crate::field::{ErrorList, Path};
use crate::meta;
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
