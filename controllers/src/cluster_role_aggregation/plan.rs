//! The rules of a ClusterRole that aggregates others: those of all ClusterRoles that its selectors match, one selector after the
//! other, each in the order of names; a rule that is there already is left out. Pure.

use crate::action::{Action, PatchKind, Target};
use crate::resource::CLUSTERROLES;
use crate::selector::matches;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::json;
use std::collections::BTreeMap;

/// Gives `role` its rules, if it aggregates and has others. `all` are the ClusterRoles of the cluster, in any order.
///
/// A role that matches a selector of its own is no part of itself. Roles that aggregate each other have the rules of both after
/// some rounds, since each write is a change to the other.
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
    // An empty list is said, so that rules which another client wrote do not stay.
    let patch = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name },
        "rules": rules,
    });
    let (namespace, uid) = (String::new(), role.metadata.uid.clone().unwrap_or_default());
    let target = Target { resource: CLUSTERROLES, namespace, name, uid, resource_version: None };
    Some(Action::Patch { target, status: false, kind: PatchKind::Apply, patch })
}
