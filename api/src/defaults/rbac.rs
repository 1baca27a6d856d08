//! Defaults of role bindings.

use serde_json::Value;

use super::{default, items, member};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn binding(object: &mut Value) {
    if let Some(role) = member(object, "roleRef") {
        default(role, "apiGroup", GROUP);
    }
    for subject in items(object, "subjects") {
        if subject["kind"] == "User" || subject["kind"] == "Group" {
            default(subject, "apiGroup", GROUP);
        }
    }
}
