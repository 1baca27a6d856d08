//! Defaults of role bindings.
//!
//! Follows `SetDefaults_RoleBinding` and `SetDefaults_ClusterRoleBinding`.

use super::{default, items, make};
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn binding(object: &mut Value) {
    default(make(object, "roleRef"), "apiGroup", GROUP);
    for subject in items(object, "subjects") {
        if subject["kind"] == "User" || subject["kind"] == "Group" {
            default(subject, "apiGroup", GROUP);
        }
    }
}
