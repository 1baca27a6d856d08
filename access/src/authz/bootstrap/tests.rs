//! Compares the defaults with those recorded from a kube-apiserver 1.36.2. `KSTORE_TRANSCRIPTS` names the
//! folder of recordings; without it the test prints that it is skipped, and passes.

use super::{objects, objects_with};
use kstore_api::kind::OptIn;
use kstore_api::version::Minor;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Recorded defaults that kstore leaves out, with the reason.
const LEFT_OUT: [(&str, &str); 2] = [
    (
        "ClusterRole system:openshift:public-info-viewer",
        "an addition of the recorded build, not of Kubernetes",
    ),
    (
        "ClusterRoleBinding system:openshift:public-info-viewer",
        "an addition of the recorded build, not of Kubernetes",
    ),
];
/// Prefixes of the names of defaults that Kubernetes does not have.
const OWN: [&str; 2] = ["system:kstore:", "kstore:"];

/// An object's identity: kind, namespace (if it has one) and name.
fn identity(kind: &str, object: &Value) -> String {
    let text = |member: &str| object["metadata"][member].as_str();
    let name = text("name").unwrap();
    text("namespace").map_or(format!("{kind} {name}"), |namespace| format!("{kind} {namespace}/{name}"))
}

/// A form for comparison: lists within a rule, and subjects, are sets; rules are ordered.
fn normal(object: &Value) -> Value {
    let set = |list: &Value| -> BTreeSet<String> {
        list.as_array().into_iter().flatten().map(ToString::to_string).collect()
    };
    let rule = |rule: &Value| -> BTreeMap<String, BTreeSet<String>> {
        rule.as_object().unwrap().iter().map(|(member, list)| (member.clone(), set(list))).collect()
    };
    let rules: Vec<_> = object["rules"].as_array().into_iter().flatten().map(rule).collect();
    json!({
        "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"], "rules": rules,
        "aggregationRule": object["aggregationRule"], "roleRef": object["roleRef"], "subjects": set(&object["subjects"]),
    })
}

#[test]
fn the_default_roles_and_bindings_are_those_of_kubernetes() {
    let Some(folder) = std::env::var_os("KSTORE_TRANSCRIPTS") else {
        eprintln!("skipped: KSTORE_TRANSCRIPTS does not name the folder of recordings");
        return;
    };
    let text = std::fs::read_to_string(std::path::Path::new(&folder).join("rbac-defaults.json")).unwrap();
    let recorded: BTreeMap<String, Vec<Value>> = serde_json::from_str(&text).unwrap();
    let of_kind = |(kind, list): (&String, &Vec<Value>)| -> Vec<(String, Value)> {
        list.iter().map(|object| (identity(kind, object), normal(object))).collect()
    };
    let mut recorded: BTreeMap<String, Value> = recorded.iter().flat_map(of_kind).collect();
    for (left_out, _) in LEFT_OUT {
        assert!(recorded.remove(left_out).is_some(), "{left_out} is not recorded");
    }
    let ours: BTreeMap<String, Value> = objects_with(&OptIn::version(Minor::V36))
        .iter()
        .filter(|object| {
            let name = object["metadata"]["name"].as_str().unwrap();
            !OWN.iter().any(|prefix| name.starts_with(prefix))
        })
        .map(|object| (identity(object["kind"].as_str().unwrap(), object), normal(object)))
        .collect();
    let names = |map: &BTreeMap<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&recorded));
    for (identity, object) in &recorded {
        assert_eq!(&ours[identity], object, "{identity}");
    }
}

#[test]
fn the_role_of_users_who_read_the_history_is_bound_to_nobody() {
    let objects = objects();
    let role = objects.iter().find(|object| object["metadata"]["name"] == "kstore:see").unwrap();
    assert_eq!(role["rules"], json!([{ "verbs": ["get"], "nonResourceURLs": ["/kstore/v1/*"] }]));
    assert!(!objects.iter().any(|object| object["roleRef"]["name"] == "kstore:see"));
}

#[test]
fn defaults_have_distinct_kinds_namespaces_and_names() {
    let objects = objects();
    let identities: BTreeSet<String> =
        objects.iter().map(|object| identity(object["kind"].as_str().unwrap(), object)).collect();
    assert_eq!(identities.len(), objects.len());
}
