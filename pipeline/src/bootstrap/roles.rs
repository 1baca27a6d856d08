//! Reconciliation of the default roles and bindings at every start, as in Kubernetes: missing grants
//! are added to stored objects, and additions of users are kept. Objects annotated
//! `rbac.authorization.kubernetes.io/autoupdate: "false"` are left alone.
//! <https://kubernetes.io/docs/reference/access-authn-authz/rbac/#auto-reconciliation>

use super::server_identity;
use crate::pipeline::Pipeline;
use futures::future::join_all;
use kstore_access::authz::rule::Rule;
use kstore_api::object::list;
use kstore_api::status::Status;
use serde_json::{Value, json};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Reconciles stored objects with the default ones.
pub(super) async fn reconcile(pipeline: &Pipeline, wanted: &[Value]) -> Result<(), Status> {
    let kept = join_all(wanted.iter().map(|wanted| {
        server_identity::reconcile_with(pipeline, wanted, |_, stored| {
            let next = reconciled(stored, wanted);
            (next != *stored).then_some(next)
        })
    }));
    kept.await.into_iter().collect()
}

/// The stored object after reconciliation.
fn reconciled(stored: &Value, wanted: &Value) -> Value {
    let mut next = stored.clone();
    if stored["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return next;
    }
    for marks in ["labels", "annotations"] {
        add_members(&mut next["metadata"], marks, &wanted["metadata"][marks]);
    }
    match wanted["kind"].as_str() {
        // The controller writes the rules of an aggregating role from the aggregated roles; rules removed
        // there must not return here.
        Some("ClusterRole") if wanted.get("aggregationRule").is_some() => add_selectors(&mut next, wanted),
        Some("ClusterRole" | "Role") => add_rules(&mut next, wanted),
        _ => add_subjects(&mut next, wanted),
    }
    next
}

/// Adds missing members; existing values are kept.
fn add_members(object: &mut Value, field: &str, wanted: &Value) {
    for (name, value) in wanted.as_object().into_iter().flatten() {
        if object[field].get(name).is_none() {
            object[field][name] = value.clone();
        }
    }
}

/// Adds rules for permissions that no stored rule grants; a default rule is added as a whole if none of it is
/// granted.
fn add_rules(role: &mut Value, wanted: &Value) {
    let existing: Vec<Rule> = list(&role["rules"]).iter().map(Rule::from_value).collect();
    let is_missing = |atom: &Rule| !existing.iter().any(|rule| rule.covers(atom));
    let missing = list(&wanted["rules"]).iter().flat_map(|value| {
        let rule = Rule::from_value(value);
        let atoms: Vec<Rule> = rule.atoms().collect();
        let missing: Vec<Rule> = atoms.iter().filter(|atom| is_missing(atom)).cloned().collect();
        if missing.len() == atoms.len() {
            vec![value.clone()]
        } else {
            missing.iter().map(Rule::to_value).collect()
        }
    });
    append(role, "rules", missing.collect());
}

fn add_selectors(role: &mut Value, wanted: &Value) {
    let selectors = |role: &Value| list(&role["aggregationRule"]["clusterRoleSelectors"]).to_vec();
    let existing = selectors(role);
    let missing: Vec<Value> = selectors(wanted).into_iter().filter(|one| !existing.contains(one)).collect();
    if !missing.is_empty() {
        append(&mut role["aggregationRule"], "clusterRoleSelectors", missing);
    }
}

/// Adds missing subjects. A binding to another role is reset to the default, because its role defines its
/// purpose.
fn add_subjects(binding: &mut Value, wanted: &Value) {
    if binding["roleRef"] != wanted["roleRef"] {
        binding["roleRef"] = wanted["roleRef"].clone();
        binding["subjects"] = json!([]);
    }
    let existing = list(&binding["subjects"]).to_vec();
    let missing = list(&wanted["subjects"]).iter().filter(|subject| !existing.contains(subject));
    append(binding, "subjects", missing.cloned().collect());
}

fn append(object: &mut Value, field: &str, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    match &mut object[field] {
        Value::Array(items) => items.extend(more),
        none => *none = Value::Array(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_access::authz::bootstrap;

    fn default(kind: &str, name: &str) -> Value {
        let of_name = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
        bootstrap::objects().into_iter().find(of_name).unwrap()
    }

    #[test]
    fn up_to_date_roles_stay_unchanged() {
        for object in bootstrap::objects() {
            assert_eq!(reconciled(&object, &object), object);
        }
    }

    #[test]
    fn an_older_role_gains_missing_grants_and_keeps_added_ones() {
        let wanted = json!({
            "kind": "ClusterRole",
            "metadata": { "labels": { "one": "default", "two": "default" }, "annotations": { AUTO_UPDATE: "true" } },
            "rules": [
                { "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "services"] },
                { "verbs": ["create", "delete"], "apiGroups": ["apps"], "resources": ["deployments"] },
                { "verbs": ["get"], "nonResourceURLs": ["/healthz"] },
            ],
        });
        let added = json!({ "verbs": ["*"], "apiGroups": ["mine"], "resources": ["*"] });
        let stored = json!({
            "kind": "ClusterRole",
            "metadata": { "labels": { "one": "mine" } },
            "rules": [
                { "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] },
                { "verbs": ["get"], "apiGroups": [""], "resources": ["*"] },
                { "verbs": ["get"], "nonResourceURLs": ["/health*"] },
                added,
            ],
        });
        let next = reconciled(&stored, &wanted);
        assert_eq!(next["metadata"]["labels"], json!({ "one": "mine", "two": "default" }));
        assert_eq!(next["metadata"]["annotations"], wanted["metadata"]["annotations"]);
        let (existing, gained) = list(&next["rules"]).split_at(4);
        assert_eq!(existing, list(&stored["rules"]));
        let of_services = json!({ "verbs": ["list"], "apiGroups": [""], "resources": ["services"] });
        assert_eq!(gained, [of_services, wanted["rules"][1].clone()]);
        assert_eq!(reconciled(&next, &wanted), next, "once is enough");
    }

    #[test]
    fn a_role_annotated_against_auto_update_is_left_alone() {
        let mut stored = default("ClusterRole", "system:basic-user");
        stored["metadata"]["annotations"][AUTO_UPDATE] = json!("false");
        stored["rules"] = json!(null);
        assert_eq!(reconciled(&stored, &default("ClusterRole", "system:basic-user")), stored);
    }

    #[test]
    fn a_missing_selector_of_an_aggregating_role_is_restored() {
        let wanted = default("ClusterRole", "edit");
        let mine = json!({ "matchLabels": { "mine": "true" } });
        let mut stored = wanted.clone();
        stored["aggregationRule"]["clusterRoleSelectors"] = json!([mine]);
        stored["rules"] = json!([]);
        let next = reconciled(&stored, &wanted);
        assert_eq!(next["rules"], json!([]), "the controller writes the rules from the selectors");
        let selectors = next["aggregationRule"]["clusterRoleSelectors"].clone();
        assert_eq!(selectors, json!([mine, wanted["aggregationRule"]["clusterRoleSelectors"][0]]));
    }

    #[test]
    fn subjects_and_role_of_a_default_binding_are_restored() {
        let wanted = default("ClusterRoleBinding", "system:public-info-viewer");
        let mine = json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mine" });
        let mut stored = wanted.clone();
        stored["subjects"] = json!([mine, wanted["subjects"][1]]);
        let next = reconciled(&stored, &wanted);
        assert_eq!(next["subjects"], json!([mine, wanted["subjects"][1], wanted["subjects"][0]]));
        stored["roleRef"]["name"] = json!("cluster-admin");
        assert_eq!(
            reconciled(&stored, &wanted),
            wanted,
            "subjects of a binding to another role do not get the default role"
        );
        assert_eq!(
            reconciled(
                &json!({ "kind": "ClusterRoleBinding", "metadata": {}, "roleRef": wanted["roleRef"] }),
                &wanted
            )["subjects"],
            wanted["subjects"]
        );
    }
}
