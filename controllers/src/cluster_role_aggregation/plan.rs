//! Rules of an aggregated ClusterRole: the rules of all ClusterRoles that its selectors match, by selector
//! and then by name, without duplicates. Pure.

use crate::action::{Action, PatchKind, Target};
use crate::resource::CLUSTERROLES;
use crate::selector::matches;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::json;
use std::collections::BTreeMap;

/// Updates the rules of `role` if it aggregates and they differ. `all` are the ClusterRoles of the cluster,
/// in any order.
///
/// A role that matches its own selector is not part of itself. Roles that aggregate each other converge after
/// some rounds, because each write is a change of the other.
pub(crate) fn plan(role: &ClusterRole, all: &[&ClusterRole]) -> Option<Action> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.as_deref().unwrap_or_default();
    let mut others: Vec<&ClusterRole> =
        all.iter().copied().filter(|other| other.metadata.name != role.metadata.name).collect();
    others.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let none = BTreeMap::new();
    let mut rules: Vec<&PolicyRule> = Vec::new();
    for selector in selectors {
        let parts = others.iter().filter(|o| matches(selector, o.metadata.labels.as_ref().unwrap_or(&none)));
        for rule in parts.flat_map(|part| part.rules.iter().flatten()) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    if rules.iter().copied().eq(role.rules.iter().flatten()) {
        return None;
    }
    let name = role.metadata.name.clone().unwrap_or_default();
    // An empty list is explicit, so that rules of other clients do not stay.
    let patch = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name },
        "rules": rules,
    });
    let (namespace, uid) = (String::new(), role.metadata.uid.clone().unwrap_or_default());
    let target = Target { resource: CLUSTERROLES, namespace, name, uid, resource_version: None };
    Some(Action::Patch { target, status: false, kind: PatchKind::Apply, patch })
}
