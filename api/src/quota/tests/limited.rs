//! Kinds whose objects need a quota that covers them.

use super::{NOW, container, pod, pods, quota};
use crate::quota::{Change, DeviceNames, Evaluator, LimitedResource, Quota, Selector, charge};
use serde_json::{Value, json};

fn limited(contains: &[&str], scopes: &[Value]) -> LimitedResource {
    LimitedResource {
        group: String::new(),
        plural: "pods".to_owned(),
        match_contains: contains.iter().map(ToString::to_string).collect(),
        match_scopes: scopes.iter().map(Selector::of).collect(),
    }
}

/// The refusal of a pod that requests one CPU, in this priority class.
fn refusal(limited: &[LimitedResource], quotas: &[Quota], class: &str) -> Option<String> {
    let mut new = pod(json!([container("a", json!({"cpu": "1"}), json!({}))]), json!([]));
    new["spec"]["priorityClassName"] = json!(class);
    let change = Change {
        evaluator: &pods(),
        old: None,
        new: &new,
        names: &DeviceNames::default(),
        is_report: false,
        limited,
    };
    charge(quotas, &change, NOW).err().map(|refusal| refusal.to_string())
}

fn priority(values: &[&str]) -> Value {
    json!({"scopeName": "PriorityClass", "operator": "In", "values": values})
}

#[test]
fn limited_resources_need_a_quota_that_bounds_them() {
    let cpu = [limited(&["cpu"], &[])];
    let refused = "insufficient quota to consume: cpu,requests.cpu";
    assert_eq!(refusal(&cpu, &[], ""), Some(refused.to_owned()));
    let exact = [limited(&["requests.cpu", "requests.memory"], &[])];
    let missing = "insufficient quota to consume: requests.cpu";
    assert_eq!(refusal(&exact, &[], ""), Some(missing.to_owned()), "memory is not used");
    let bounds = |name: &str| quota(json!({"hard": {name: "5"}}), json!({name: "0"}));
    assert_eq!(refusal(&exact, &[bounds("pods")], ""), Some(missing.to_owned()));
    assert_eq!(refusal(&exact, &[bounds("pods"), bounds("requests.cpu")], ""), None);
    assert_eq!(refusal(&[], &[], ""), None);
}

#[test]
fn limited_scopes_need_a_quota_with_the_same_scope() {
    let critical = [limited(&[], &[priority(&["a", "b"])])];
    assert_eq!(
        refusal(&critical, &[], "a"),
        Some("insufficient quota to match these scopes: [{PriorityClass In [a b]}]".to_owned())
    );
    assert_eq!(refusal(&critical, &[], "c"), None, "the class is not limited");
    let scoped = |values: &[&str]| {
        let selector = json!({"matchExpressions": [priority(values)]});
        quota(json!({"hard": {"pods": "5"}, "scopeSelector": selector}), json!({"pods": "0"}))
    };
    assert_eq!(refusal(&critical, &[scoped(&["a"])], "a"), None);
    assert!(refusal(&critical, &[scoped(&["b"])], "a").is_some(), "the quota is for another class");
    assert!(
        refusal(&critical, &[quota(json!({"hard": {"pods": "5"}}), json!({"pods": "0"}))], "a").is_some()
    );
}

#[test]
fn a_limited_resource_concerns_one_kind() {
    let pods = limited(&["pods"], &[]);
    assert!(pods.concerns("", "pods"));
    assert!(!pods.concerns("", "services"));
    assert!(!pods.concerns("metrics.k8s.io", "pods"));
    let maps = Evaluator::of("", "configmaps");
    let scopes = [limited(&[], &[priority(&["a"])])];
    let change = Change {
        evaluator: &maps,
        old: None,
        new: &json!({}),
        names: &DeviceNames::default(),
        is_report: false,
        limited: &scopes,
    };
    assert!(charge(&[], &change, NOW).is_ok(), "scopes match no ConfigMaps");
}
