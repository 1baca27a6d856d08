//! Tests of server-side apply to custom resources: recorded answers of Kubernetes, and paths without a
//! declared type.

use super::{ApplyError, ObjectType, Write, apply};
use crate::resource::Reset;
use crate::structural::tests::shop_tree;
use crate::structural::{Origin, Tree};
use serde_json::{Value, json};

const NOW: &str = "2024-05-01T10:00:00Z";

fn by(manager: &str) -> Write<'_> {
    Write {
        manager,
        subresource: "",
        api_version: "shop.rec.dev/v1",
        now: NOW,
        reset: Reset::Fields(&["status"]),
    }
}

fn config(spec: &Value) -> Value {
    json!({"apiVersion": "shop.rec.dev/v1", "kind": "Shop", "metadata": {"name": "ssa"}, "spec": spec})
}

/// The object after one apply and schema defaulting.
fn applied(
    tree: &Tree,
    live: Option<&Value>,
    manager: &str,
    force: bool,
    spec: Value,
) -> Result<Value, ApplyError> {
    let mut new = apply(live, &config(&spec), &by(manager), force, ObjectType::Custom(Some(tree)))?;
    tree.read(&mut new, Origin::Apply).unwrap();
    Ok(new)
}

fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == manager);
    entry.map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
}

/// Members of the spec that differ from the schema's defaults.
fn stated(object: &Value) -> Value {
    let defaults = ["colour", "maybeDefault", "nest", "neverDefault", "replicas"];
    let mut spec = object["spec"].clone();
    spec.as_object_mut().unwrap().retain(|name, _| !defaults.contains(&name.as_str()));
    spec
}

#[test]
fn managers_share_an_object_as_in_kubernetes() {
    let tree = shop_tree();
    let spec = json!({"size": 1, "tags": ["a"], "rooms": [{"name": "x", "doors": 2}], "atom": {"a": "1"}, "limits": {"a": 1}});
    let live = applied(&tree, None, "m1", false, spec).unwrap();
    let want = json!({"f:atom": {}, "f:limits": {"f:a": {}}, "f:size": {}, "f:tags": {"v:\"a\"": {}},
        "f:rooms": {"k:{\"floor\":0,\"name\":\"x\"}": {".": {}, "f:doors": {}, "f:name": {}}}});
    assert_eq!(owned(&live, "m1"), want);

    let spec = json!({"size": 1, "tags": ["b"], "rooms": [{"name": "x", "note": "n"}, {"name": "x", "floor": 2}], "limits": {"b": 2}});
    let live = applied(&tree, Some(&live), "m2", false, spec).unwrap();
    let want = json!({"f:limits": {"f:b": {}}, "f:size": {}, "f:tags": {"v:\"b\"": {}}, "f:rooms": {
        "k:{\"floor\":0,\"name\":\"x\"}": {".": {}, "f:name": {}, "f:note": {}},
        "k:{\"floor\":2,\"name\":\"x\"}": {".": {}, "f:floor": {}, "f:name": {}}}});
    assert_eq!(owned(&live, "m2"), want);
    let want = json!({"atom": {"a": "1"}, "limits": {"a": 1, "b": 2}, "size": 1, "tags": ["a", "b"],
        "rooms": [{"doors": 2, "floor": 0, "name": "x", "note": "n"}, {"doors": 1, "floor": 2, "name": "x"}]});
    assert_eq!(stated(&live), want);

    let spec = json!({"size": 2, "rooms": [{"name": "x", "doors": 4}], "atom": {"b": "2"}});
    let error = applied(&tree, Some(&live), "m3", false, spec.clone()).unwrap_err();
    let ApplyError::Conflicts(conflicts) = error else { panic!("{error}") };
    let mut found: Vec<String> = conflicts.iter().map(|c| format!("{} {}", c.owner, c.path)).collect();
    found.sort();
    let want = [
        "\"m1\" .spec.atom",
        "\"m1\" .spec.rooms[floor=0,name=\"x\"].doors",
        "\"m1\" .spec.size",
        "\"m2\" .spec.size",
    ];
    assert_eq!(found, want);
    let live = applied(&tree, Some(&live), "m3", true, spec).unwrap();
    let want = json!({"f:limits": {"f:a": {}}, "f:tags": {"v:\"a\"": {}},
        "f:rooms": {"k:{\"floor\":0,\"name\":\"x\"}": {".": {}, "f:name": {}}}});
    assert_eq!(owned(&live, "m1"), want);
    let want = json!({"f:atom": {}, "f:size": {},
        "f:rooms": {"k:{\"floor\":0,\"name\":\"x\"}": {".": {}, "f:doors": {}, "f:name": {}}}});
    assert_eq!(owned(&live, "m3"), want);
    assert_eq!(live["spec"]["atom"], json!({"b": "2"}));

    let live = applied(&tree, Some(&live), "m1", false, json!({"size": 2})).unwrap();
    assert_eq!(owned(&live, "m1"), json!({"f:size": {}}));
    let want = json!({"atom": {"b": "2"}, "limits": {"b": 2}, "size": 2, "tags": ["b"],
        "rooms": [{"doors": 4, "floor": 0, "name": "x", "note": "n"}, {"doors": 1, "floor": 2, "name": "x"}]});
    assert_eq!(stated(&live), want);
}

#[test]
fn configurations_of_the_wrong_type_are_refused_with_the_messages_of_kubernetes() {
    let tree = shop_tree();
    let refused = |spec: Value| applied(&tree, None, "m1", false, spec).unwrap_err().to_string();
    let prefix = "failed to create typed patch object (/ssa; shop.rec.dev/v1, Kind=Shop): ";
    let cases = [
        (
            json!({"rooms": [{"name": "d"}, {"name": "d"}]}),
            ".spec.rooms: duplicate entries for key [floor=0,name=\"d\"]",
        ),
        (json!({"tags": ["q", "q"]}), ".spec.tags: duplicate entries for key [=\"q\"]"),
        (json!({"size": "x"}), ".spec.size: expected numeric (int or float), got string"),
        (json!({"zork": 1}), ".spec.zork: field not declared in schema"),
        (json!({"on": 1}), ".spec.on: expected boolean, got &{1}"),
        (json!({"label": 5}), ".spec.label: expected string, got &value.valueUnstructured{Value:5}"),
        (json!({"steps": [{"cmd": "a", "x": 1}]}), ".spec.steps[0].x: field not declared in schema"),
        (json!({"atom": {"c": 1}}), ".spec.atom.c: field not declared in schema"),
        (json!({"limits": []}), ".spec.limits: expected map, got &{[]}"),
        (json!({"steps": {}}), ".spec.steps: expected list, got &{map[]}"),
        (json!({"free": {"known": {"x": 1}}}), ".spec.free.known.x: field not declared in schema"),
        (json!({"pod": {"metadata": {"x": 1}}}), ".spec.pod.metadata.x: field not declared in schema"),
    ];
    for (spec, text) in cases {
        assert_eq!(refused(spec.clone()), format!("{prefix}{text}"), "{spec}");
    }
    let fine = json!({"size": null, "port": "http", "free": {"any": [1, {"a": 1}]}, "maybe": null,
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}});
    assert!(applied(&tree, None, "m1", false, fine).is_ok());
}

#[test]
fn preserved_unknown_fields_merge_maps_and_replace_lists() {
    let tree = shop_tree();
    let one = json!({"free": {"known": {"n": 1}, "map": {"a": 1}, "list": [{"name": "a"}]}, "port": 80});
    let live = applied(&tree, None, "m1", false, one).unwrap();
    let want = json!({"f:free": {"f:known": {"f:n": {}}, "f:list": {}, "f:map": {".": {}, "f:a": {}}}, "f:port": {}});
    assert_eq!(owned(&live, "m1"), want);
    let two = json!({"free": {"map": {"b": 2}, "list": [{"name": "b"}]}});
    let error = applied(&tree, Some(&live), "m2", false, two.clone()).unwrap_err();
    assert!(error.to_string().ends_with("conflict with \"m1\": .spec.free.list"), "{error}");
    let live = applied(&tree, Some(&live), "m2", true, two).unwrap();
    let want = json!({"known": {"n": 1}, "map": {"a": 1, "b": 2}, "list": [{"name": "b"}]});
    assert_eq!(live["spec"]["free"], want);
}

/// A map that becomes a text loses its fields, and their owners lose them. A key that is given up leaves the map in which it was, if
/// another manager owns that map.
#[test]
fn ownership_follows_values_without_a_schema_that_change_their_kind() {
    let tree = shop_tree();
    let live =
        applied(&tree, None, "m1", false, json!({"free": {"map": {"z": 1, "y": {"x": 2}}, "text": "t"}}))
            .unwrap();
    let live =
        applied(&tree, Some(&live), "m2", true, json!({"free": {"map": "text", "text": {"a": 1}}})).unwrap();
    assert_eq!(owned(&live, "m1"), Value::Null, "{live}");
    assert_eq!(owned(&live, "m2"), json!({"f:free": {"f:map": {}, "f:text": {".": {}, "f:a": {}}}}));
    let live = applied(&tree, Some(&live), "m1", true, json!({"free": {"map": {"z": 1}}})).unwrap();
    assert_eq!(owned(&live, "m2"), json!({"f:free": {"f:text": {".": {}, "f:a": {}}}}));

    let values = |values: Value| json!({"free": {"values": values}});
    let live = applied(&tree, None, "m1", false, values(json!({"a": {"x": 1}, "b": {"x": 1}}))).unwrap();
    let live = applied(&tree, Some(&live), "m2", false, values(json!({"a": {}}))).unwrap();
    let live = applied(&tree, Some(&live), "m1", false, values(json!({}))).unwrap();
    assert_eq!(live["spec"]["free"], json!({"values": {"a": {}}}));
}

#[test]
fn null_keeps_the_members_of_a_map() {
    let tree = shop_tree();
    let live = applied(&tree, None, "m1", false, json!({"size": 1, "free": {"map": {"a": 1}}})).unwrap();
    let live = applied(&tree, Some(&live), "m2", false, json!({"free": {"map": null}})).unwrap();
    assert_eq!(live["spec"]["free"]["map"], json!({"a": 1}));
}

#[test]
fn metadata_of_embedded_objects_merges_like_that_of_objects() {
    let tree = shop_tree();
    let pod = |label: &str, finalizer: &str| json!({"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {label: "1"}, "finalizers": [finalizer]}}});
    let live = applied(&tree, None, "m1", false, pod("a", "x.dev/a")).unwrap();
    let live = applied(&tree, Some(&live), "m2", false, pod("b", "x.dev/b")).unwrap();
    let want = json!({"labels": {"a": "1", "b": "1"}, "finalizers": ["x.dev/a", "x.dev/b"]});
    assert_eq!(live["spec"]["pod"]["metadata"], want);
}

#[test]
fn applying_the_same_configuration_again_changes_nothing() {
    let tree = shop_tree();
    let spec = json!({"size": 1, "tags": ["a", "b"], "rooms": [{"name": "x"}, {"name": "y", "floor": 3}],
        "limits": {"a": 1}, "free": {"a": {"b": [1]}}, "either": {"l": "1"}});
    let live = applied(&tree, None, "m1", false, spec.clone()).unwrap();
    assert_eq!(applied(&tree, Some(&live), "m1", false, spec).unwrap(), live);
}
