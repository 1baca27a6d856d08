//! Tests of the selection of requests for webhooks.

use super::super::attributes::{Attributes, GroupVersionKind, GroupVersionResource, Operation};
use super::super::equivalent::{Equivalent, equivalents};
use super::super::selection::ClusterFacts;
use super::super::webhook::{Hooks, Phase};
use super::{hook, request};
use crate::kind::{Kinds, lookup};
use serde_json::{Value, json};

fn rule(rule: &Value) -> Value {
    let mut whole =
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]});
    for (name, value) in rule.as_object().unwrap() {
        whole[name] = value.clone();
    }
    json!({"rules": [whole]})
}

fn matches(members: &Value, attributes: &Attributes<'_>, facts: &ClusterFacts<'_>) -> bool {
    hook(Phase::Validating, members).matches(attributes, facts).unwrap().is_some()
}

#[test]
fn rules_match_by_operation_group_version_resource_and_scope() {
    let configmap = request(None);
    let exec = Attributes { operation: Operation::Connect, subresource: "exec", ..request(None) };
    let namespace = Attributes {
        resource: GroupVersionResource { group: "", version: "v1", resource: "namespaces" },
        ..request(None)
    };
    let node = Attributes {
        resource: GroupVersionResource { group: "", version: "v1", resource: "nodes" },
        namespace: "",
        ..request(None)
    };
    let cases = [
        (json!({}), &configmap, true),
        (json!({"operations": ["UPDATE", "CREATE"]}), &configmap, true),
        (json!({"operations": ["UPDATE", "DELETE", "CONNECT"]}), &configmap, false),
        (json!({"operations": ["FLY"]}), &configmap, false),
        (json!({"apiGroups": ["", "apps"]}), &configmap, true),
        (json!({"apiGroups": ["apps"]}), &configmap, false),
        (json!({"apiVersions": ["v2"]}), &configmap, false),
        (json!({"resources": ["configmaps"]}), &configmap, true),
        (json!({"resources": ["configmaps/*"]}), &configmap, true),
        (json!({"resources": ["configmaps/exec"]}), &configmap, false),
        (json!({"resources": ["*"]}), &exec, false),
        (json!({"resources": ["*/*"]}), &exec, true),
        (json!({"resources": ["*/exec"]}), &exec, true),
        (json!({"resources": ["configmaps/*"]}), &exec, true),
        (json!({"resources": ["configmaps/exec"]}), &exec, true),
        (json!({"resources": ["configmaps"]}), &exec, false),
        (json!({"scope": "*"}), &node, true),
        (json!({"scope": "Namespaced"}), &configmap, true),
        (json!({"scope": "Cluster"}), &configmap, false),
        (json!({"scope": "Namespaced"}), &node, false),
        (json!({"scope": "Cluster"}), &node, true),
        (json!({"scope": "Namespaced"}), &namespace, false),
        (json!({"scope": "Cluster"}), &namespace, true),
        (json!({"scope": "World"}), &node, false),
    ];
    for (members, attributes, expected) in cases {
        assert_eq!(matches(&rule(&members), attributes, &ClusterFacts::default()), expected, "{members}");
    }
    assert!(!matches(&json!({"rules": []}), &configmap, &ClusterFacts::default()), "no rules, no request");
}

#[test]
fn namespace_selectors_match_labels_and_cluster_scoped_objects() {
    let selector = json!({"namespaceSelector": {"matchLabels": {"team": "a"}},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]});
    let of = |team: &str| json!({"metadata": {"labels": {"team": team}}});
    let (a, b) = (of("a"), of("b"));
    let stored = |namespace| ClusterFacts { namespace, ..ClusterFacts::default() };
    let namespaces = GroupVersionResource { group: "", version: "v1", resource: "namespaces" };
    let update =
        Attributes { resource: namespaces, operation: Operation::Update, object: Some(&a), ..request(None) };
    let cases = [
        (request(None), stored(Some(&a)), true),
        (request(None), stored(Some(&b)), false),
        (Attributes { namespace: "", ..request(None) }, stored(None), true),
        (Attributes { namespace: "", ..update }, stored(None), true),
        (update, stored(Some(&b)), true),
        (Attributes { object: Some(&b), ..update }, stored(Some(&a)), false),
        (Attributes { operation: Operation::Delete, object: None, ..update }, stored(Some(&a)), true),
        (Attributes { operation: Operation::Delete, object: None, ..update }, stored(Some(&b)), false),
        (Attributes { subresource: "status", ..update }, stored(Some(&b)), false),
    ];
    for (at, (attributes, facts, expected)) in cases.into_iter().enumerate() {
        let mut members = selector.clone();
        members["rules"][0]["resources"] = json!(["*/*"]);
        assert_eq!(matches(&members, &attributes, &facts), expected, "case {at}");
    }
    let missing = hook(Phase::Validating, &selector).matches(&request(None), &ClusterFacts::default());
    assert_eq!(missing.unwrap_err().message, "namespaces \"default\" not found");
    let mut other = selector;
    other["rules"][0]["resources"] = json!(["pods"]);
    let unmatched = hook(Phase::Validating, &other).matches(&request(None), &ClusterFacts::default());
    assert!(unmatched.unwrap().is_none(), "a namespace is missed only for requests that a rule matches");
}

#[test]
fn object_selectors_match_the_new_or_the_old_object() {
    let selector = json!({"objectSelector": {"matchLabels": {"x": "y"}}});
    let (with, without) = (json!({"metadata": {"labels": {"x": "y"}}}), json!({"metadata": {}}));
    let options = json!({"kind": "PodExecOptions"});
    let negative =
        json!({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}});
    let cases = [
        (&selector, Some(&with), None, true),
        (&selector, Some(&without), None, false),
        (&selector, Some(&without), Some(&with), true),
        (&selector, None, Some(&with), true),
        (&selector, None, None, false),
        (&negative, Some(&without), None, true),
        (&negative, Some(&options), None, false),
        (&json!({"objectSelector": {}}), Some(&options), None, true),
    ];
    for (at, (members, object, old_object, expected)) in cases.into_iter().enumerate() {
        let attributes = Attributes { object, old_object, ..request(None) };
        assert_eq!(matches(members, &attributes, &ClusterFacts::default()), expected, "case {at}");
    }
}

fn autoscalers(version: &str) -> (Attributes<'_>, Vec<Equivalent>) {
    let attributes = Attributes {
        resource: GroupVersionResource {
            group: "autoscaling",
            version,
            resource: "horizontalpodautoscalers",
        },
        kind: GroupVersionKind { group: "autoscaling", version, kind: "HorizontalPodAutoscaler" },
        ..request(None)
    };
    let row = lookup("autoscaling", version, "horizontalpodautoscalers").unwrap();
    (attributes, equivalents(&Kinds::built_in(), row, ""))
}

#[test]
fn equivalent_resources_match_unless_the_policy_is_exact() {
    let (attributes, equivalents) = autoscalers("v2");
    let facts = ClusterFacts { equivalents: &equivalents, ..ClusterFacts::default() };
    let v1 = json!([{"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["*"], "operations": ["*"]}]);
    let found = hook(Phase::Validating, &json!({"rules": v1})).matches(&attributes, &facts).unwrap().unwrap();
    assert_eq!((found.resource.version, found.kind.version), ("v1", "v1"));
    assert!(!matches(&json!({"rules": v1, "matchPolicy": "Exact"}), &attributes, &facts));
    let own = json!({"rules": [v1[0], {"apiGroups": ["*"], "apiVersions": ["v2"], "resources": ["*"], "operations": ["*"]}]});
    let found = hook(Phase::Validating, &own).matches(&attributes, &facts).unwrap().unwrap();
    assert_eq!(found.resource.version, "v2", "the request's own version before equivalent ones");
}

#[test]
fn events_of_both_groups_are_equivalent_and_subresources_keep_their_kind() {
    let kinds = Kinds::built_in();
    let groups = |list: Vec<Equivalent>| list.iter().map(|e| e.resource().group).collect::<Vec<_>>();
    let events = equivalents(&kinds, lookup("", "v1", "events").unwrap(), "");
    assert_eq!(groups(events), ["", "events.k8s.io"]);
    let scale = equivalents(&kinds, lookup("apps", "v1", "deployments").unwrap(), "scale");
    assert_eq!(scale[0].kind(), GroupVersionKind { group: "autoscaling", version: "v1", kind: "Scale" });
    let reviews = lookup("authorization.k8s.io", "v1", "subjectaccessreviews").unwrap();
    assert_eq!(equivalents(&kinds, reviews, "").len(), 1);
}

#[test]
fn admission_configuration_is_exempt() {
    let of =
        |group, kind| Attributes { kind: GroupVersionKind { group, version: "v1", kind }, ..request(None) };
    assert!(of("admissionregistration.k8s.io", "ValidatingWebhookConfiguration").is_exempt());
    assert!(of("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding").is_exempt());
    assert!(!of("", "ConfigMap").is_exempt());
    assert!(!of("apps", "ValidatingWebhookConfiguration").is_exempt());
}

#[test]
fn candidates_are_found_by_plural_in_calling_order() {
    let hook = |name: &str, resources: &[&str], operations: &[&str]| json!({"name": name, "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": operations}]});
    let configurations = [
        json!({"metadata": {"name": "z"}, "webhooks": [hook("z1", &["pods", "*"], &["CREATE"]), hook("z2", &["nodes"], &["*"])]}),
        json!({"metadata": {"name": "a"}, "webhooks": [hook("a1", &["pods/exec", "pods"], &["CREATE"]), hook("a2", &["*/*"], &["DELETE"])]}),
    ];
    let hooks = Hooks::new(Phase::Mutating, &configurations);
    let names = |operation, plural| {
        hooks.candidates(operation, plural).map(|hook| hook.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(Operation::Create, "pods"), ["a1", "a2", "z1"]);
    assert_eq!(names(Operation::Create, "nodes"), ["a2", "z1", "z2"]);
    assert_eq!(names(Operation::Delete, "secrets"), ["a2", "z1"]);
    assert_eq!(names(Operation::Update, "secrets"), Vec::<String>::new());
    assert!(
        !hooks.has_candidates(Operation::Connect, "pods")
            && hooks.has_candidates(Operation::Connect, "nodes")
    );
    let indexes: Vec<_> = hooks.iter().map(|hook| (hook.index, hook.uid.to_string())).collect();
    assert_eq!(indexes[0], (0, "a/a1/0".to_owned()));
    assert_eq!(indexes[3], (3, "z/z2/1".to_owned()));
}
