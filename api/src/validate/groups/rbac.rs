//! Validation of roles and role bindings.
//!
//! Follows `ValidateRole`, `ValidateClusterRole` and `ValidateRoleBinding`.

use super::reference::segment;
use crate::check::{each, grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, semantically_equal, text};
use crate::validate::selector::label_selector;
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn role(object: &Value, errors: &mut ErrorList) {
    rules(object, true, errors);
}

pub(crate) fn cluster_role(object: &Value, errors: &mut ErrorList) {
    rules(object, false, errors);
    aggregation(&object["aggregationRule"], errors);
}

pub(crate) fn role_binding(object: &Value, errors: &mut ErrorList) {
    binding(object, &["Role", "ClusterRole"], errors);
}

pub(crate) fn cluster_role_binding(object: &Value, errors: &mut ErrorList) {
    binding(object, &["ClusterRole"], errors);
}

fn aggregation(rule: &Value, errors: &mut ErrorList) {
    if rule.is_null() {
        return;
    }
    let path = Path::new("aggregationRule");
    if list(&rule["clusterRoleSelectors"]).is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.required(&path.child("clusterRoleSelectors"), detail);
    }
    each(&path, rule, "clusterRoleSelectors", |path, selector| {
        let before = errors.len();
        label_selector(errors, path, selector);
        if errors.len() > before {
            errors.invalid(path, &Value::Null, "invalid label selector.");
        }
    });
}

fn rules(object: &Value, namespaced: bool, errors: &mut ErrorList) {
    each(&Path::ROOT, object, "rules", |path, rule| {
        if list(&rule["verbs"]).is_empty() {
            errors.required(&path.child("verbs"), "verbs must contain at least one value");
        }
        let urls = list(&rule["nonResourceURLs"]);
        if !urls.is_empty() {
            let path = path.child("nonResourceURLs");
            let resources = ["apiGroups", "resources", "resourceNames"];
            if namespaced {
                errors.invalid(&path, urls, "namespaced rules cannot apply to non-resource URLs");
            }
            if resources.iter().any(|member| !list(&rule[*member]).is_empty()) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&path, urls, detail);
            }
            return;
        }
        if list(&rule["apiGroups"]).is_empty() {
            errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if list(&rule["resources"]).is_empty() {
            errors.required(&path.child("resources"), "resource rules must supply at least one resource");
        }
    });
}

fn binding(object: &Value, kinds: &[&str], errors: &mut ErrorList) {
    let (path, role) = (Path::new("roleRef"), &object["roleRef"]);
    if role["apiGroup"] != GROUP {
        errors.not_supported(&path.child("apiGroup"), text(&role["apiGroup"]), &[GROUP]);
    }
    if !kinds.contains(&text(&role["kind"])) {
        errors.not_supported_as_listed(&path.child("kind"), text(&role["kind"]), kinds);
    }
    segment(errors, &path.child("name"), &role["name"]);
    let namespaced = object["kind"] == "RoleBinding";
    each(&Path::ROOT, object, "subjects", |path, value| subject(errors, path, value, namespaced));
}

fn subject(errors: &mut ErrorList, path: &Path<'_>, subject: &Value, namespaced: bool) {
    let (own, group) = (text(&subject["name"]), text(&subject["apiGroup"]));
    if own.is_empty() {
        errors.required(&path.child("name"), "");
    }
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !own.is_empty() {
                grammar(errors, &path.child("name"), own, name::dns1123_subdomain(own));
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if text(&subject["namespace"]).is_empty() && !namespaced {
                errors.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.not_supported_as_listed(&path.child("kind"), other, &kinds);
        }
    }
}

/// Checks that the role reference of a binding does not change.
pub(crate) fn binding_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    if !semantically_equal(&new["roleRef"], &old["roleRef"]) {
        errors.invalid(&Path::new("roleRef"), &new["roleRef"], "cannot change roleRef");
    }
}
