//! Tests of the rules of aggregated roles.

use super::plan::plan;
use super::role::Role;
use crate::action::{Action, PatchKind};
use serde_json::{Value, from_value, json};

fn rule(resource: &str) -> Value {
    json!({ "verbs": ["get"], "apiGroups": [""], "resources": [resource] })
}

/// A role with these labels and one rule per resource.
fn part(name: &str, labels: Value, resources: &[&str]) -> Role {
    let rules: Vec<Value> = resources.iter().map(|resource| rule(resource)).collect();
    let role = json!({ "metadata": { "name": name, "labels": labels }, "rules": rules });
    Role::decode(role.to_string().as_bytes()).unwrap()
}

/// A role `sum` with these selectors and one rule per resource.
fn sum(selectors: Value, resources: &[&str]) -> Role {
    let mut role = part("sum", json!({}), resources);
    role.aggregation_rule = Some(from_value(json!({ "clusterRoleSelectors": selectors })).unwrap());
    role
}

/// The resources of the planned rules of `role`; `None` without a write.
fn planned(role: &Role, all: &[&Role]) -> Option<Vec<String>> {
    let Action::Patch { target, status: false, kind: PatchKind::Apply, patch } = plan(role, all)? else {
        panic!("no apply")
    };
    assert_eq!((target.name.as_str(), &patch["metadata"]), ("sum", &json!({ "name": "sum" })));
    let text = |rule: &Value| rule["resources"][0].as_str().unwrap().to_owned();
    Some(patch["rules"].as_array().unwrap().iter().map(text).collect())
}

#[test]
fn aggregated_rules_are_ordered_and_unique() {
    let parts = [
        part("c", json!({ "one": "true" }), &["pods", "nodes"]),
        part("a", json!({ "two": "true" }), &["secrets", "nodes"]),
        part("b", json!({ "one": "true", "two": "true" }), &["events"]),
        part("d", json!({ "one": "false" }), &["services"]),
        part("e", json!(null), &["endpoints"]),
    ];
    let (one, two) =
        (json!({ "matchLabels": { "one": "true" } }), json!({ "matchLabels": { "two": "true" } }));
    let table = [
        (json!([one]), vec!["events", "pods", "nodes"]),
        (json!([one, two]), vec!["events", "pods", "nodes", "secrets"]),
        (json!([two, one]), vec!["secrets", "nodes", "events", "pods"]),
        (
            json!([{ "matchExpressions": [{ "key": "one", "operator": "NotIn", "values": ["true"] }] }]),
            vec!["secrets", "nodes", "services", "endpoints"],
        ),
    ];
    for (selectors, expected) in table {
        let role = sum(selectors.clone(), &["old"]);
        let mut all: Vec<&Role> = parts.iter().collect();
        assert_eq!(planned(&role, &all).unwrap(), expected, "{selectors}");
        all.reverse();
        assert_eq!(planned(&role, &all).unwrap(), expected, "the order of the cache does not count");
        let done = sum(selectors, &expected);
        assert_eq!(planned(&done, &all), None, "nothing is written twice");
    }
}

#[test]
fn an_aggregated_role_without_matches_has_no_rules() {
    let one = json!([{ "matchLabels": { "one": "true" } }]);
    assert_eq!(planned(&sum(one.clone(), &["pods"]), &[]), Some(vec![]));
    assert_eq!(planned(&sum(one, &[]), &[]), None);
}

#[test]
fn a_role_does_not_aggregate_itself_and_plain_roles_are_unchanged() {
    let one = json!([{ "matchLabels": { "one": "true" } }]);
    let mut role = sum(one, &["old"]);
    role.labels = [("one".to_owned(), "true".to_owned())].into();
    let part = part("a", json!({ "one": "true" }), &["pods"]);
    assert_eq!(planned(&role, &[&role, &part]), Some(vec!["pods".to_owned()]));
    assert_eq!(planned(&part, &[&role, &part]), None);
}
