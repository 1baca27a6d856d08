//! Rules of an aggregated ClusterRole: the rules of all ClusterRoles that its selectors match, by selector
//! and then by name, without duplicates. Pure.

use super::role::Role;
use crate::action::{Action, PatchKind, Target};
use crate::resource::CLUSTERROLES;
use crate::selector::matches;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kstore_informer::Object as _;
use serde_json::json;

/// Updates the rules of `role` if it aggregates and they differ. `all` are the ClusterRoles of the cluster,
/// in any order.
///
/// A role that matches its own selector is not part of itself. Roles that aggregate each other converge after
/// some rounds, because each write is a change of the other.
pub(crate) fn plan(role: &Role, all: &[&Role]) -> Option<Action> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.as_deref().unwrap_or_default();
    let mut others: Vec<&Role> = all.iter().copied().filter(|other| other.name != role.name).collect();
    others.sort_by(|a, b| a.name.cmp(&b.name));
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let parts = others.iter().filter(|other| matches(selector, &other.labels));
        for rule in parts.flat_map(|part| part.rules()) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    if rules == role.rules() {
        return None;
    }
    let name = role.name.clone();
    // An empty list is explicit, so that rules of other clients do not stay.
    let patch = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name },
        "rules": rules,
    });
    let (namespace, uid) = (String::new(), role.uid().to_owned());
    let target = Target { resource: CLUSTERROLES, namespace, name, uid, resource_version: None };
    Some(Action::Patch { target, status: false, kind: PatchKind::Apply, patch })
}
