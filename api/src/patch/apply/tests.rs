//! Tests of field ownership: short sequences of writes by several managers.

use super::{ApplyError, Conflict, ObjectType, Write, apply, reset_fields, touch, touch_all, track_update};
use crate::resource::Reset;
use crate::schema::fill::fill;
use crate::structural::Tree;
use crate::{kind, schema};
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: &str = "2024-05-01T10:00:00Z";
const LATER: &str = "2024-05-01T11:00:00Z";

fn by<'a>(manager: &'a str, now: &'a str) -> Write<'a> {
    Write { manager, subresource: "", api_version: "apps/v1", now, reset: Reset::Fields(&["status"]) }
}

fn deployment() -> ObjectType<'static> {
    ObjectType::BuiltIn(schema::of("apps", "v1", "Deployment").unwrap())
}

fn config(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

fn applied(live: Option<&Value>, manager: &str, spec: &Value) -> Result<Value, ApplyError> {
    apply(live, &config(spec), &by(manager, NOW), false, deployment())
}

fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let found: Vec<_> = entries.iter().filter(|e| e["manager"] == manager).collect();
    assert!(found.len() <= 1, "{manager} has {} entries", found.len());
    found.first().map_or(Value::Null, |e| e["fieldsV1"].clone())
}

#[test]
fn create_records_the_same_managed_fields_entry_as_kubernetes() {
    let ports = json!([{"containerPort": 80, "protocol": "TCP"}]);
    let container = json!({"name": "nginx", "image": "nginx", "imagePullPolicy": "Always", "resources": {}, "ports": ports});
    let mut new = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "uid": "u", "generation": 1},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container], "dnsPolicy": "ClusterFirst", "securityContext": {}}}},
        "status": {},
    });
    track_update(None, &mut new, &by("kubectl-create", NOW), deployment());
    let port = json!({".": {}, "f:containerPort": {}, "f:protocol": {}});
    let container = json!({".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {},
        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": port}});
    let labels = json!({".": {}, "f:app": {}});
    let want = json!({
        "f:metadata": {"f:labels": labels},
        "f:spec": {"f:replicas": {}, "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {"f:metadata": {"f:labels": labels}, "f:spec": {"f:dnsPolicy": {}, "f:securityContext": {},
                "f:containers": {"k:{\"name\":\"nginx\"}": container}}}},
    });
    assert_eq!(owned(&new, "kubectl-create"), want);
    let entry = &new["metadata"]["managedFields"][0];
    let rest = (&entry["operation"], &entry["apiVersion"], &entry["time"], &entry["fieldsType"]);
    assert_eq!(rest, (&json!("Update"), &json!("apps/v1"), &json!(NOW), &json!("FieldsV1")));
}

#[test]
fn applying_creates_and_applying_again_changes_nothing() {
    let spec = json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}});
    let first = applied(None, "me", &spec).unwrap();
    let want = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers":
        {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}});
    assert_eq!(owned(&first, "me"), want);
    let again = apply(Some(&first), &config(&spec), &by("me", LATER), false, deployment()).unwrap();
    assert_eq!(again, first);
}

#[test]
fn changing_a_field_of_another_manager_is_a_conflict_unless_forced() {
    let live = applied(None, "one", &json!({"replicas": 1, "paused": true})).unwrap();
    let error = applied(Some(&live), "two", &json!({"replicas": 2})).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    let shared = applied(Some(&live), "two", &json!({"replicas": 1})).unwrap();
    assert_eq!(owned(&shared, "two"), json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(owned(&shared, "one"), json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
    let forced =
        apply(Some(&live), &config(&json!({"replicas": 2})), &by("two", LATER), true, deployment()).unwrap();
    assert_eq!(forced["spec"], json!({"replicas": 2, "paused": true}));
    assert_eq!(owned(&forced, "one"), json!({"f:spec": {"f:paused": {}}}));
}

#[test]
fn conflicts_are_listed_by_owner_in_a_409_status() {
    let mut live = applied(None, "one", &json!({"paused": true})).unwrap();
    let before = live.clone();
    live["spec"]["replicas"] = json!(3);
    live["spec"]["minReadySeconds"] = json!(5);
    track_update(Some(&before), &mut live, &by("kubectl-scale", NOW), deployment());
    let error = applied(Some(&live), "two", &json!({"paused": false, "replicas": 1, "minReadySeconds": 1}))
        .unwrap_err();
    let want = "Apply failed with 3 conflicts: conflicts with \"kubectl-scale\" using apps/v1:\n- .spec.minReadySeconds\n\
        - .spec.replicas\nconflicts with \"one\":\n- .spec.paused";
    assert_eq!(error.to_string(), want);
    let row = kind::lookup("apps", "v1", "deployments").unwrap();
    let status = serde_json::to_value(error.to_status(row, "web")).unwrap();
    assert_eq!((&status["code"], &status["reason"]), (&json!(409), &json!("Conflict")));
    let cause = json!({"reason": "FieldManagerConflict", "field": ".spec.minReadySeconds",
        "message": "conflict with \"kubectl-scale\" using apps/v1"});
    assert_eq!(status["details"]["causes"][0], cause);
}

#[test]
fn apply_removes_unstated_fields_without_another_owner() {
    let two = json!([{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}, {"name": "b", "image": "y"}]);
    let live =
        applied(None, "one", &json!({"replicas": 1, "template": {"spec": {"containers": two}}})).unwrap();
    let other = json!({"template": {"spec": {"containers": [{"name": "a", "image": "x"}]}}});
    let live = applied(Some(&live), "two", &other).unwrap();
    let less = applied(Some(&live), "one", &json!({"paused": true})).unwrap();
    let want = json!({"paused": true, "template": {"spec": {"containers": [{"name": "a", "image": "x"}]}}});
    assert_eq!(less["spec"], want);
    assert_eq!(owned(&less, "one"), json!({"f:spec": {"f:paused": {}}}));
}

#[test]
fn list_elements_are_removed_with_their_last_owner_and_follow_the_configurations_order() {
    let containers = |names: &[&str]| {
        let items: Vec<_> = names.iter().map(|n| json!({"name": n, "image": "x"})).collect();
        json!({"template": {"spec": {"containers": items}}})
    };
    let names = |object: &Value| -> Vec<String> {
        let items = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        items.iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    let live = applied(None, "one", &containers(&["a", "b", "c"])).unwrap();
    let live = applied(Some(&live), "sidecar", &containers(&["s"])).unwrap();
    assert_eq!(names(&live), ["a", "b", "c", "s"]);
    let live = applied(Some(&live), "one", &containers(&["new", "c", "a"])).unwrap();
    assert_eq!(names(&live), ["new", "c", "s", "a"], "s keeps its place after c");
    let live = applied(Some(&live), "one", &containers(&[])).unwrap();
    assert_eq!(names(&live), ["s"]);
}

#[test]
fn updates_own_the_fields_they_change_and_release_those_they_remove() {
    let live = applied(None, "one", &json!({"replicas": 1, "paused": true, "minReadySeconds": 3})).unwrap();
    let mut new = live.clone();
    new["spec"] = json!({"replicas": 5, "minReadySeconds": 3});
    track_update(Some(&live), &mut new, &by("hpa", LATER), deployment());
    assert_eq!(owned(&new, "one"), json!({"f:spec": {"f:minReadySeconds": {}}}));
    assert_eq!(owned(&new, "hpa"), json!({"f:spec": {"f:replicas": {}}}));
    let order: Vec<_> =
        new["metadata"]["managedFields"].as_array().unwrap().iter().map(|e| &e["manager"]).collect();
    assert_eq!(order, ["one", "hpa"], "apply entries come first");
    let mut same = new.clone();
    track_update(Some(&new), &mut same, &by("hpa", "2030-01-01T00:00:00Z"), deployment());
    assert_eq!(same, new, "a write that changes nothing keeps the managed fields");
}

#[test]
fn status_and_spec_have_separate_entries() {
    let row = kind::lookup("apps", "v1", "deployments").unwrap();
    let live = applied(None, "one", &json!({"replicas": 1})).unwrap();
    let mut new = live.clone();
    new["status"] = json!({"replicas": 1});
    new["spec"]["replicas"] = json!(7);
    let reset = reset_fields(row, "status");
    let write = Write { manager: "kcm", subresource: "status", api_version: "apps/v1", now: NOW, reset };
    track_update(Some(&live), &mut new, &write, deployment());
    assert_eq!(owned(&new, "kcm"), json!({"f:status": {"f:replicas": {}}}));
    assert_eq!(owned(&new, "one"), json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn first_apply_records_existing_fields_under_before_first_apply() {
    let mut live = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {"replicas": 1, "paused": true}});
    fill(&mut live, schema::of("apps", "v1", "Deployment").unwrap());
    let mut written = live.clone();
    track_update(Some(&live), &mut written, &by("old", NOW), deployment());
    assert_eq!(written, live, "an object without managed fields gets none");
    let error = applied(Some(&live), "one", &json!({"replicas": 2})).unwrap_err();
    let owner = "\"before-first-apply\" using apps/v1".to_owned();
    assert_eq!(error, ApplyError::Conflicts(vec![Conflict { owner, path: ".spec.replicas".into() }]));
    let agreed = applied(Some(&live), "one", &json!({"replicas": 1})).unwrap();
    assert_eq!(owned(&agreed, "before-first-apply"), json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
}

#[test]
fn kubectl_takes_over_fields_of_its_client_side_apply() {
    let last = config(&json!({"replicas": 1})).to_string();
    let mut live = config(&json!({"replicas": 1, "paused": true}));
    live["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    let mut tracked = live.clone();
    track_update(None, &mut tracked, &by("kubectl-client-side-apply", NOW), deployment());
    let taken = applied(Some(&tracked), "kubectl", &json!({"replicas": 4})).unwrap();
    assert_eq!(taken["spec"]["replicas"], 4);
    let error = applied(Some(&tracked), "kubectl", &json!({"replicas": 4, "paused": false})).unwrap_err();
    assert!(matches!(error, ApplyError::Conflicts(c) if c.len() == 1 && c[0].path == ".spec.paused"));
}

#[test]
fn clients_can_reset_managed_fields() {
    let live = applied(None, "one", &json!({"replicas": 1})).unwrap();
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    track_update(Some(&live), &mut new, &by("two", NOW), deployment());
    assert_eq!(new["metadata"].get("managedFields"), None);
    let mut on_status = live.clone();
    on_status["metadata"]["managedFields"] = json!([{}]);
    track_update(
        Some(&live),
        &mut on_status,
        &Write { subresource: "status", ..by("two", NOW) },
        deployment(),
    );
    assert_eq!(on_status, live, "a subresource does not change managed fields");
}

#[test]
fn oldest_update_entries_are_merged_beyond_the_limit() {
    let mut live = applied(None, "one", &json!({"replicas": 0})).unwrap();
    for at in 0..15 {
        let mut new = live.clone();
        new["metadata"]["labels"][format!("l{at}")] = json!("x");
        let (manager, now) = (format!("m{at:02}"), format!("2024-05-01T10:00:{at:02}Z"));
        track_update(Some(&live), &mut new, &by(&manager, &now), deployment());
        live = new;
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 11, "ten updates and one apply");
    let ancient = owned(&live, "ancient-changes");
    assert!(ancient["f:metadata"]["f:labels"]["f:l0"].is_object());
    for at in 0..15 {
        let label = format!("f:l{at}");
        let owners = entries.iter().filter(|e| e["fieldsV1"]["f:metadata"]["f:labels"].get(&label).is_some());
        assert_eq!(owners.count(), 1, "{label}");
    }
}

#[test]
fn an_element_without_its_key_has_the_default_of_the_key() {
    let spec = json!({"template": {"spec": {
        "containers": [{"image": "x", "ports": [{"name": "p"}]}], "imagePullSecrets": [{}]}}});
    let config =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
    let ty = schema::of("apps", "v1", "Deployment").unwrap();
    let write =
        Write { manager: "m", subresource: "", api_version: "apps/v1", now: "", reset: Reset::Fields(&[]) };
    let made = apply(None, &config, &write, false, ObjectType::BuiltIn(ty)).unwrap();
    let pod = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"];
    let container = &pod["f:containers"][r#"k:{"name":""}"#];
    assert!(container["f:ports"][r#"k:{"containerPort":0,"protocol":"TCP"}"#].is_object(), "{pod}");
    assert!(pod["f:imagePullSecrets"][r#"k:{"name":""}"#].is_object(), "{pod}");
}

#[test]
fn malformed_configurations_are_refused() {
    let containers = |items: Value| json!({"template": {"spec": {"containers": items}}});
    let cases = [
        (
            containers(json!([{"name": "a"}, {"name": "a"}])),
            ".spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (json!({"replicaz": 1}), ".spec.replicaz: field not declared in schema"),
        (
            json!({"replicaz": 1, "template": {"spec": {"containers": [{"name": "a", "imag": "x"}]}}}),
            "errors:\n  .spec.replicaz: field not declared in schema\n  \
            .spec.template.spec.containers[name=\"a\"].imag: field not declared in schema",
        ),
        (json!({"replicas": "three"}), ".spec.replicas: expected numeric (int or float), got string"),
        (json!({"paused": "yes"}), ".spec.paused: expected boolean, got &{yes}"),
        (
            json!({"selector": [1, {"b": "c", "a": true}]}),
            ".spec.selector: expected map, got &{[1 map[a:true b:c]]}",
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": {}}}}),
            ".spec.strategy.rollingUpdate.maxSurge: expected any scalar, got &{map[]}",
        ),
        (
            json!({"template": {"metadata": {"labels": {"a": true, "b": 1, "c": {"y": ["z", null], "x": 1.5}}}}}),
            "errors:\n  .spec.template.metadata.labels.a: expected string, got &value.valueUnstructured{Value:true}\n  \
            .spec.template.metadata.labels.b: expected string, got &value.valueUnstructured{Value:1}\n  \
            .spec.template.metadata.labels.c: expected string, got &value.valueUnstructured{Value:map[string]interface {}\
            {\"x\":1.5, \"y\":[]interface {}{\"z\", interface {}(nil)}}}",
        ),
        (
            json!({"template": {"spec": {"tolerations": [{}, {"keyy": "k"}], "nodeSelector": {"a": 1}, "volumes": {"a": 1}}}}),
            "errors:\n  .spec.template.spec.nodeSelector.a: expected string, got &value.valueUnstructured{Value:1}\n  \
            .spec.template.spec.tolerations[1].keyy: field not declared in schema\n  \
            .spec.template.spec.volumes: expected list, got &{map[a:1]}",
        ),
        (
            json!({"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "e", "valueFrom": {"fieldRef": {"path": "x"}}}]}]}}}),
            ".spec.template.spec.containers[name=\"a\"].env[name=\"e\"].valueFrom.fieldRef.path: field not declared in schema",
        ),
    ];
    for (spec, want) in cases {
        let want = format!("failed to create typed patch object (/web; apps/v1, Kind=Deployment): {want}");
        assert_eq!(applied(None, "me", &spec).unwrap_err().to_string(), want);
    }
    let mut with_managed_fields = config(&json!({}));
    with_managed_fields["metadata"]["managedFields"] = json!([]);
    let error = apply(None, &with_managed_fields, &by("me", NOW), false, deployment()).unwrap_err();
    assert_eq!(error.to_string(), "metadata.managedFields must be nil");
}

#[test]
fn service_ports_without_protocol_are_identified_as_tcp() {
    let service = ObjectType::BuiltIn(schema::of("", "v1", "Service").unwrap());
    let write = Write { api_version: "v1", ..by("me", NOW) };
    let config = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let mut live = apply(None, &config, &write, false, service).unwrap();
    live["spec"]["ports"][0]["protocol"] = json!("TCP");
    let again = apply(Some(&live), &config, &write, false, service).unwrap();
    assert_eq!(again["spec"]["ports"], json!([{"port": 80, "protocol": "TCP"}]));
}

#[test]
fn custom_resources_follow_their_schema() {
    let crd = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "properties": {"id": {"type": "string"}, "v": {"type": "integer"}}}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}});
    let tree = Tree::compile(&crd).unwrap();
    let ty = ObjectType::Custom(Some(&tree));
    let write = Write { api_version: "example.com/v1", ..by("one", NOW) };
    let config = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
    let spec =
        json!({"rules": [{"id": "a", "v": 1}], "tags": ["x"], "plain": ["p"], "free": {"k": {"l": 1}}});
    let live = apply(None, &config(spec), &write, false, ty).unwrap();
    let two = Write { manager: "two", ..write };
    let merged = apply(
        Some(&live),
        &config(json!({"rules": [{"id": "b"}], "tags": ["y"], "free": {"m": 1}})),
        &two,
        false,
        ty,
    );
    let merged = merged.unwrap();
    let want = json!({"rules": [{"id": "a", "v": 1}, {"id": "b"}], "tags": ["x", "y"], "plain": ["p"], "free": {"k": {"l": 1}, "m": 1}});
    assert_eq!(merged["spec"], want);
    assert_eq!(owned(&merged, "two")["f:spec"]["f:tags"], json!({"v:\"y\"": {}}));
    let conflict = apply(Some(&merged), &config(json!({"plain": ["q"]})), &two, false, ty).unwrap_err();
    assert!(conflict.to_string().ends_with("conflict with \"one\": .spec.plain"), "{conflict}");
}

#[test]
fn list_elements_with_the_same_identity_share_one_owner() {
    let service = ObjectType::BuiltIn(schema::of("", "v1", "Service").unwrap());
    let write = |manager| Write { api_version: "v1", ..by(manager, NOW) };
    let ports = |names: &[&str]| -> Vec<Value> {
        names
            .iter()
            .map(|name| json!({"port": 80, "protocol": "TCP", "targetPort": 0, "name": name}))
            .collect()
    };
    let of = |names: &[&str]| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports(names)}});
    let mut live = of(&["a", "b"]);
    track_update(None, &mut live, &write("one"), service);
    let key = "k:{\"port\":80,\"protocol\":\"TCP\"}";
    assert_eq!(owned(&live, "one")["f:spec"]["f:ports"], json!({".": {}, key: {}}));
    let mut new = of(&["a"]);
    track_update(Some(&live), &mut new, &write("two"), service);
    let element = json!({".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
    assert_eq!(owned(&new, "two"), json!({"f:spec": {"f:ports": {key: element}}}));
    assert_eq!(owned(&new, "one")["f:spec"]["f:ports"], json!({}), "the list itself");
}

#[test]
fn structs_stated_as_empty_stay_when_their_last_member_is_removed() {
    let volumes =
        |volume: Value| json!({"template": {"spec": {"volumes": [{"name": "v", "emptyDir": volume}]}}});
    let live = applied(None, "one", &volumes(json!({"medium": "Memory"}))).unwrap();
    let less = applied(Some(&live), "one", &volumes(json!({}))).unwrap();
    assert_eq!(less["spec"], volumes(json!({})));
}

#[test]
fn writes_drop_entries_of_removed_versions() {
    let mut live = applied(None, "one", &json!({"replicas": 1})).unwrap();
    live["metadata"]["managedFields"][0]["apiVersion"] = json!("apps/v1beta1");
    let mut new = live.clone();
    new["spec"]["paused"] = json!(true);
    track_update(Some(&live), &mut new, &by("two", NOW), deployment());
    assert_eq!(owned(&new, "one"), Value::Null);
    assert_eq!(owned(&new, "two"), json!({"f:spec": {"f:paused": {}}}));
}

/// A Lease created by `manager`, with further metadata.
fn lease(manager: &str, metadata: Value) -> Value {
    let mut new = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
        "spec": {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": "2024-05-01T10:00:00.000000Z"}});
    track_update(None, &mut new, &renewal(manager, NOW), lease_type());
    new
}

fn lease_type() -> ObjectType<'static> {
    ObjectType::BuiltIn(schema::of("coordination.k8s.io", "v1", "Lease").unwrap())
}

fn renewal<'a>(manager: &'a str, now: &'a str) -> Write<'a> {
    let api_version = "coordination.k8s.io/v1";
    Write { manager, subresource: "", api_version, now, reset: Reset::Fields(&[]) }
}

/// The object after `manager` wrote these members of the spec, and whether [`touch`] produced the same
/// managed fields as [`track_update`].
fn renewed(live: &Value, manager: &str, spec: &Value) -> (Value, bool) {
    let mut new = live.clone();
    for (name, value) in spec.as_object().unwrap() {
        new["spec"][name] = value.clone();
    }
    let (mut touched, mut tracked) = (new.clone(), new.clone());
    let write = renewal(manager, LATER);
    let is_touched = touch(&mut touched, &write, &["spec", "renewTime"]);
    track_update(Some(live), &mut tracked, &write, lease_type());
    let want = if is_touched { &tracked } else { &new };
    assert_eq!(&touched, want, "{manager} {spec}");
    (tracked, is_touched)
}

#[test]
fn lease_renewals_update_the_entry_time_like_full_tracking() {
    let time = json!({"renewTime": "2024-05-01T10:00:10.000000Z"});
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    for metadata in [
        json!({"name": "n", "namespace": "ns"}),
        json!({"name": "n", "namespace": "ns", "ownerReferences": owner, "labels": {"a": "b"}, "finalizers": ["x/y"]}),
    ] {
        let live = lease("kubelet", metadata);
        let (again, is_touched) = renewed(&live, "kubelet", &time);
        assert!(is_touched);
        assert_eq!(again["metadata"]["managedFields"][0]["time"], LATER);
        // An entry of another manager for other fields does not matter at any position.
        for other in ["a", "z"] {
            let mut marked = again.clone();
            marked["metadata"]["annotations"] = json!({"k": "v"});
            track_update(Some(&again), &mut marked, &renewal(other, NOW), lease_type());
            assert_eq!(marked["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
            assert!(renewed(&marked, "kubelet", &time).1);
        }
    }
    let mut bare = lease("kubelet", json!({"name": "n", "namespace": "ns"}));
    bare["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert!(renewed(&bare, "kubelet", &time).1, "an object without managed fields stays so");
    assert!(renewed(&lease("", json!({"name": "n"})), "", &time).1, "a manager without a name is unknown");
}

#[test]
fn quota_charges_update_the_entry_time_like_full_tracking() {
    let ty = || ObjectType::BuiltIn(crate::schema::of("", "v1", "ResourceQuota").unwrap());
    let write = |manager: &'static str, now: &'static str| Write {
        manager,
        subresource: "status",
        api_version: "v1",
        now,
        reset: Reset::Fields(&[]),
    };
    let mut live = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}}});
    track_update(None, &mut live, &Write { subresource: "", ..write("kubectl", NOW) }, ty());
    let mut step = |manager, used: Value, paths: &[[&str; 3]]| {
        let mut new = live.clone();
        for (name, amount) in used.as_object().unwrap() {
            new["status"]["used"][name] = amount.clone();
        }
        let (mut touched, mut tracked) = (new.clone(), new.clone());
        let is_touched = touch_all(&mut touched, &write(manager, LATER), paths);
        track_update(Some(&live), &mut tracked, &write(manager, LATER), ty());
        assert_eq!(touched, if is_touched { tracked.clone() } else { new }, "{manager} {used}");
        live = tracked;
        is_touched
    };
    let (pods, cpu) = (["status", "used", "pods"], ["status", "used", "cpu"]);
    assert!(!step("controller", json!({"pods": "0", "cpu": "0"}), &[pods, cpu]), "there was none");
    assert!(!step("server", json!({"pods": "1"}), &[pods]), "the field gets another owner");
    assert!(step("server", json!({"pods": "2"}), &[pods]));
    assert!(!step("server", json!({"pods": "3", "cpu": "1"}), &[pods, cpu]));
    assert!(step("server", json!({"pods": "4", "cpu": "2"}), &[pods, cpu]));
    assert!(!step("controller", json!({"pods": "3"}), &[pods]));
    assert!(step("server", json!({"cpu": "3"}), &[cpu]), "another manager owns another field of the member");
}

#[test]
fn writes_that_may_change_ownership_need_full_tracking() {
    let time = json!({"renewTime": "2024-05-01T10:00:10.000000Z"});
    let live = lease("kubelet", json!({"name": "n", "namespace": "ns"}));
    let (stolen, is_touched) = renewed(&live, "other", &time);
    assert!(!is_touched, "the field gets another owner");
    assert!(!renewed(&stolen, "kubelet", &time).1, "two managers own fields of the spec");
    let mut none = live.clone();
    none["spec"].as_object_mut().unwrap().remove("renewTime");
    track_update(Some(&live), &mut none, &renewal("kubelet", NOW), lease_type());
    assert!(!renewed(&none, "kubelet", &time).1, "the field is not owned yet");
    let config = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n"},
        "spec": {"holderIdentity": "n"}});
    let applied = apply(Some(&live), &config, &renewal("kubelet", NOW), true, lease_type()).unwrap();
    assert!(!renewed(&applied, "kubelet", &time).1, "an applied entry owns a part of the spec");
    let mut old = live.clone();
    old["metadata"]["managedFields"][0]["apiVersion"] = json!("coordination.k8s.io/v1beta1");
    assert!(!renewed(&old, "kubelet", &time).1, "the entry speaks another version");
}

fn spec() -> impl Strategy<Value = Value> {
    // An empty list has no owner, so configurations must not state one.
    let env = prop::collection::btree_map("[A-C]", "[0-1]", 1..3).prop_map(|m| {
        m.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>()
    });
    let containers = prop::collection::btree_map("[a-c]", env, 1..3)
        .prop_map(|m| m.into_iter().map(|(name, env)| json!({"name": name, "env": env})).collect::<Vec<_>>());
    let replicas = prop::option::of(0..3);
    (containers.prop_shuffle(), replicas).prop_map(|(containers, replicas)| {
        let mut spec = json!({"template": {"spec": {"containers": containers}}});
        if let Some(replicas) = replicas {
            spec["replicas"] = json!(replicas);
        }
        spec
    })
}

fn force(live: Option<&Value>, manager: &str, spec: &Value) -> Value {
    apply(live, &config(spec), &by(manager, NOW), true, deployment()).unwrap()
}

proptest! {
    #[test]
    fn forced_apply_is_idempotent_and_sets_its_values(a in spec(), b in spec(), c in spec()) {
        let live = force(Some(&force(None, "one", &a)), "two", &b);
        let new = force(Some(&live), "one", &c);
        prop_assert_eq!(&force(Some(&new), "one", &c), &new);
        prop_assert_eq!(&apply(Some(&new), &config(&c), &by("one", LATER), false, deployment()).unwrap(), &new);
        if let Some(replicas) = c.get("replicas") {
            prop_assert_eq!(&new["spec"]["replicas"], replicas);
        }
    }

    #[test]
    fn a_sole_manager_gets_exactly_the_stated_fields(a in spec(), b in spec()) {
        let live = force(Some(&force(None, "one", &a)), "one", &b);
        let fresh = force(None, "one", &b);
        let containers = |v: &Value| v["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let plain = |items: Vec<Value>| -> Vec<(Value, Value)> {
            items.into_iter().map(|c| (c["name"].clone(), c.get("env").cloned().unwrap_or(json!([])))).collect()
        };
        prop_assert_eq!(plain(containers(&live)), plain(containers(&fresh)));
        prop_assert_eq!(live["spec"].get("replicas"), fresh["spec"].get("replicas"));
    }
}
