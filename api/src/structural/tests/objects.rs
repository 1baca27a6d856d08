//! Tests of the walks over objects.

use super::{object, shop, shop_tree, texts, tree_of_spec};
use crate::field::{FieldErrorKind, Path};
use crate::structural::{Origin, Tree, ValidationScope, rules_blocked};
use serde_json::{Value, json};

fn read(tree: &Tree, mut value: Value) -> Value {
    tree.read(&mut value, Origin::Request).unwrap();
    value
}

fn errors(tree: &Tree, value: &Value) -> Vec<String> {
    texts(&tree.validate(value, None, ValidationScope::Whole))
}

#[test]
fn errors_match_kubernetes_in_text_and_order() {
    let tree = shop_tree();
    for case in shop().cases {
        let value = read(&tree, object(case.spec.clone()));
        assert_eq!(errors(&tree, &value), case.errors, "{}", case.spec);
    }
}

#[test]
fn read_prunes_objects_and_sets_defaults() {
    let tree = shop_tree();
    let filled = json!({"colour": "red", "maybeDefault": "dflt", "nest": {"deep": {"x": 3, "y": 9}},
        "neverDefault": "filled", "replicas": 1, "size": 1});
    assert_eq!(read(&tree, object(json!({"size": 1, "never": null})))["spec"], filled);
    let nulls = json!({"size": 1, "maybe": null, "maybeDefault": null, "neverDefault": null, "nest": null});
    let mut want = filled;
    want["maybe"] = Value::Null;
    want["maybeDefault"] = Value::Null;
    assert_eq!(read(&tree, object(nulls))["spec"], want);
    let rooms =
        read(&tree, object(json!({"size": 1, "rooms": [{"name": "a"}, {"name": "b", "floor": null}]})));
    let want = json!([{"name": "a", "floor": 0, "doors": 1}, {"name": "b", "floor": 0, "doors": 1}]);
    assert_eq!(rooms["spec"]["rooms"], want);
}

#[test]
fn unknown_fields_are_removed_and_reported_in_order() {
    let tree = shop_tree();
    let mut value =
        object(json!({"size": 1, "junk": 1, "rooms": [{"name": "a", "zz": 1}], "nest": {"deep": {"q": 1}},
        "free": {"known": {"m": 1}, "any": {"b": 1}},
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "junk": 1}, "spec": {"x": 1}}}));
    value["metadata"]["strange"] = json!(1);
    value["top"] = json!(1);
    let problems = tree.read(&mut value, Origin::Request).unwrap();
    let want = [
        "metadata.strange",
        "spec.free.known.m",
        "spec.junk",
        "spec.nest.deep.q",
        "spec.rooms[0].zz",
        "top",
        "spec.pod.metadata.junk",
    ];
    let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(found, want.map(|path| format!("unknown field \"{path}\"")));
    assert_eq!(value["spec"]["free"], json!({"known": {}, "any": {"b": 1}}));
    assert_eq!(
        value["spec"]["pod"],
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}})
    );
    assert_eq!(value["metadata"], json!({"name": "x"}));
    assert!(value.get("top").is_none());
}

#[test]
fn objects_without_a_schema_are_emptied_unless_unknown_fields_are_preserved() {
    let known = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let tree = tree_of_spec(json!({"type": "object", "properties": {
        "any": {"type": "object", "additionalProperties": true},
        "values": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "additionalProperties": known},
        "bare": {"type": "array"},
        "free": {"type": "array", "x-kubernetes-preserve-unknown-fields": true},
        "kept": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items":
            {"type": "object", "properties": {"known": known}}}}}));
    let item = json!({"a": 1, "b": {"c": 1}, "known": {"a": 1, "b": 1}});
    let mut value =
        object(json!({"any": {"x": 1, "y": {"z": 1}}, "values": {"x": item}, "bare": [item, [item], 1],
        "free": [item], "kept": [item]}));
    let unknown: Vec<String> = tree.prune(&mut value).iter().map(ToString::to_string).collect();
    let want = json!({"any": {"x": 1, "y": {}}, "values": {"x": {"a": 1}}, "bare": [{}, [{}], 1], "free": [item],
        "kept": [{"a": 1, "b": {"c": 1}, "known": {"a": 1}}]});
    assert_eq!(value["spec"], want);
    assert_eq!((unknown.len(), unknown[0].as_str()), (10, "unknown field \"spec.any.y.z\""));
}

#[test]
fn malformed_metadata_is_an_error_in_requests_and_dropped_from_storage() {
    let tree = shop_tree();
    let mut value = object(json!({"size": 1}));
    value["metadata"] = json!({"name": "x", "labels": {"a": 1}, "uid": "u"});
    let error = tree.read(&mut value.clone(), Origin::Request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    );
    assert!(tree.read(&mut value.clone(), Origin::Conversion).is_err());
    assert_eq!(tree.read(&mut value, Origin::Storage).unwrap(), []);
    assert_eq!(value["metadata"], json!({"name": "x", "uid": "u"}));

    let mut value =
        object(json!({"size": 1, "pod": {"apiVersion": 1, "kind": "Pod", "metadata": {"name": 5}}}));
    let error = tree.read(&mut value.clone(), Origin::Request).unwrap_err();
    assert_eq!(error.to_string(), "spec.pod.apiVersion: Invalid value: 1: must be a string");
    tree.read(&mut value, Origin::Storage).unwrap();
    assert_eq!(value["spec"]["pod"], json!({"kind": "Pod", "metadata": {}}));
    let mut value =
        object(json!({"size": 1, "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}}}));
    let error = tree.read(&mut value, Origin::Request).unwrap_err();
    let text = "spec.pod.metadata: Invalid value: {\"name\":5}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string";
    assert_eq!(error.to_string(), text);
}

#[test]
fn defaults_apply_to_items_and_map_values_but_create_no_parents() {
    let tree = tree_of_spec(json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "default": {"b": 2}, "properties": {"a": {"type": "integer", "default": 1}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}},
        "numbers": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
        "parent": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}},
        "off": {"type": "object", "nullable": true, "properties": {"a": {"type": "integer", "default": 1}}}}}));
    let mut value =
        object(json!({"list": [{}, null, {"a": 5}], "map": {"x": {}}, "numbers": {"n": null}, "off": null}));
    tree.fill_defaults(&mut value);
    let want = json!({"list": [{"a": 1}, {"a": 1, "b": 2}, {"a": 5}], "map": {"x": {"a": 1}}, "numbers": {"n": 7}, "off": null});
    assert_eq!(value["spec"], want);
}

#[test]
fn errors_of_unchanged_values_are_dropped() {
    let tree = tree_of_spec(json!({"type": "object", "required": ["size", "day"], "properties": {
        "size": {"type": "integer"}, "day": {"type": "string"}, "label": {"type": "string", "maxLength": 2},
        "map": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}},
        "plain": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}}}}));
    let update = |old: Value, new: Value| {
        let (old, new) = (object(old), object(new));
        texts(&tree.validate(&new, Some(&old), ValidationScope::Whole))
    };
    let old = json!({"size": 1, "label": "abc", "map": {"a": "aa", "b": "b"}, "plain": ["aa", "b"],
        "keyed": [{"k": "a", "v": "aa"}, {"k": "b", "v": "b"}]});
    assert_eq!(update(old.clone(), old.clone()), [""; 0]);
    let with = |member: &str, value: Value| {
        let mut new = old.clone();
        new["day"] = json!("d");
        new[member] = value;
        new
    };
    let mut new = old.clone();
    new["size"] = json!(2);
    assert_eq!(update(old.clone(), new), ["spec.day: Required value"]);
    assert_eq!(update(old.clone(), with("size", json!(2))), [""; 0]);
    assert_eq!(
        update(old.clone(), with("label", json!("abd"))),
        ["spec.label: Too long: may not be more than 2 bytes"]
    );
    let new = with("map", json!({"a": "aa", "b": "bb"}));
    assert_eq!(update(old.clone(), new), ["spec.map.b: Too long: may not be more than 1 bytes"]);
    let new = with("plain", json!(["aa", "c"]));
    assert_eq!(update(old.clone(), new), ["spec.plain[0]: Too long: may not be more than 1 bytes"]);
    let new = with("keyed", json!([{"k": "b", "v": "bb"}, {"k": "a", "v": "aa"}]));
    assert_eq!(update(old.clone(), new), ["spec.keyed[0].v: Too long: may not be more than 1 bytes"]);
}

#[test]
fn lists_with_duplicate_keys_are_unchanged_only_if_equal() {
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}});
    let tree = tree_of_spec(
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": item}),
    );
    let old = object(json!([{"k": "a", "v": "aa"}, {"k": "a", "v": "bb"}]));
    assert_eq!(texts(&tree.validate(&old, Some(&old), ValidationScope::Whole)), [""; 0]);
    let new = object(json!([{"k": "a", "v": "aa"}]));
    let want = ["spec[0].v: Too long: may not be more than 1 bytes"];
    assert_eq!(texts(&tree.validate(&new, Some(&old), ValidationScope::Whole)), want);
    let spec = tree.root().property("spec").unwrap();
    let unique = json!([{"k": "a"}, {"k": "b"}]);
    assert_eq!(
        spec.old_items(Some(&unique)).unwrap().get(&json!({"k": "b", "v": "x"})),
        Some(&json!({"k": "b"}))
    );
    assert!(spec.old_items(Some(&old["spec"])).unwrap().get(&json!({"k": "a"})).is_none());
    assert!(spec.is_unchanged(&json!([{"k": "b"}, {"k": "a"}]), &unique));
}

#[test]
fn errors_of_nested_schemas_are_dropped_for_unchanged_values() {
    let tree = tree_of_spec(
        json!({"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}},
        "allOf": [{"properties": {"a": {"maxLength": 1}}}, {"required": ["b"]}]}),
    );
    let update = |new: Value| {
        let old = object(json!({"a": "aa", "n": 1}));
        texts(&tree.validate(&object(new), Some(&old), ValidationScope::Whole))
    };
    assert_eq!(update(json!({"a": "aa", "n": 1})), [""; 0]);
    let want = [
        "spec.b: Required value",
        "<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf)",
    ];
    assert_eq!(update(json!({"a": "aa", "n": 2})), want);
}

#[test]
fn existing_duplicates_are_tolerated() {
    let tree = shop_tree();
    let value = |tags: Value| object(json!({"size": 1, "tags": tags}));
    let (old, new) = (value(json!(["a", "a"])), value(json!(["b", "b"])));
    assert_eq!(texts(&tree.validate_lists(&new, Some(&old))), [""; 0]);
    assert_eq!(texts(&tree.validate_lists(&new, None)), ["spec.tags[1]: Duplicate value: \"b\""]);
    assert_eq!(texts(&tree.validate_lists(&new, Some(&value(json!(["a"]))))).len(), 1);
}

#[test]
fn status_writes_validate_only_the_status() {
    let tree = shop_tree();
    let with = |status: Value| {
        let mut value = object(json!({"size": 99, "tags": ["a", "a"]}));
        value["status"] = status;
        texts(&tree.validate(&value, None, ValidationScope::Status))
    };
    let list = "spec.tags[1]: Duplicate value: \"a\"";
    let conditions = json!({"conditions": [{"type": "A", "status": "Maybe"}, {"type": "A"}]});
    let want = [
        "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"True\", \"False\"",
        "status.conditions[1].status: Required value",
        list,
        "status.conditions[1]: Duplicate value: {\"type\":\"A\"}",
    ];
    assert_eq!(with(conditions), want);
    let want = ["status: Invalid value: \"string\":  in body must be of type object: \"string\"", list];
    assert_eq!(with(json!("x")), want);
    let want = [
        "status.replicas: Invalid value: \"string\": replicas in body must be of type integer: \"string\"",
        list,
    ];
    assert_eq!(with(json!({"replicas": "x"})), want);
}

#[test]
fn errors_of_defaults_have_their_path() {
    let tree = shop_tree();
    let place = Path::new("spec.validation.openAPIV3Schema.properties[spec].properties[nest].default");
    let nest = tree.root().property("spec").and_then(|spec| spec.property("nest")).unwrap();
    let errors = nest.validate(&json!({"deep": {"x": "s"}}), &place);
    let want = format!(
        "{place}.deep.x: Invalid value: \"string\": deep.x in body must be of type integer: \"string\""
    );
    assert_eq!(texts(&errors), [want]);
    let mut value = json!({"deep": {"x": 1, "no": 1}, "apiVersion": "v1"});
    let unknown: Vec<String> = nest.prune(&mut value, false).iter().map(ToString::to_string).collect();
    assert_eq!(unknown, ["unknown field \"apiVersion\"", "unknown field \"deep.no\""]);
}

#[test]
fn cel_rules_are_skipped_after_blocking_errors() {
    let tree = shop_tree();
    let errors = tree.validate(&object(json!({})), None, ValidationScope::Whole);
    let error = rules_blocked(&errors).unwrap();
    let text = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    assert_eq!((error.to_string().as_str(), error.kind), (text, FieldErrorKind::Invalid));
    let errors = tree.validate(&object(json!({"size": 0})), None, ValidationScope::Whole);
    assert_eq!((errors.len(), rules_blocked(&errors)), (1, None));
}

#[test]
fn equal_subtrees_are_stored_once() {
    let port = json!({"type": "object", "properties": {"port": {"type": "integer", "pattern": "x"}}});
    let many: serde_json::Map<String, Value> = (0..100).map(|i| (format!("p{i}"), port.clone())).collect();
    let tree = tree_of_spec(json!({"type": "object", "properties": many}));
    assert_eq!(tree.nodes().count(), 4, "the integer, the port, the spec and the root");
    let spec = tree.root().property("spec").unwrap();
    assert_eq!(spec.property("p1").unwrap().id(), spec.property("p99").unwrap().id());
    assert!(tree.root().is_root() && !spec.is_root());
}

#[test]
fn cel_rules_are_compiled_as_data() {
    let rule = json!({"rule": "self.a", "message": "no", "messageExpression": "", "reason": "FieldValueForbidden",
        "fieldPath": ".a", "optionalOldSelf": true});
    let tree = tree_of_spec(json!({"type": "object", "x-kubernetes-validations": [rule]}));
    let [rule] = &tree.root().property("spec").unwrap().node().rules[..] else { panic!("one rule") };
    assert_eq!(
        (&*rule.rule, rule.message.as_deref(), rule.message_expression.as_deref()),
        ("self.a", Some("no"), None)
    );
    assert!(tree.has_rules() && rule.optional_old_self && rule.field_path.as_deref() == Some(".a"));
    assert!(!shop_tree().has_rules());
}

#[test]
fn non_object_and_too_deep_schemas_are_refused() {
    let mut schema = json!({});
    for _ in 0..200 {
        schema = json!({"items": schema});
    }
    assert_eq!(Tree::compile(&schema).unwrap_err().to_string(), "exceeded max depth");
    assert_eq!(Tree::compile(&json!([])).unwrap_err().to_string(), "must be a schema object");
}

/// The entries of an embedded object are what its client wrote, and are checked like those of an object.
#[test]
fn managed_fields_of_embedded_objects_are_checked() {
    let tree = tree_of_spec(json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true}));
    let of_entry = |entry: Value| {
        let embedded =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "managedFields": [entry]}});
        errors(&tree, &object(embedded))
    };
    let at = "spec.metadata.managedFields[0]";
    assert_eq!(of_entry(json!({"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1"})), [""; 0]);
    let wrong = of_entry(json!({"manager": "m".repeat(129), "operation": "apply", "fieldsType": "V2"}));
    let want = [
        format!("{at}.operation: Invalid value: \"apply\": must be `Apply` or `Update`"),
        format!("{at}.fieldsType: Invalid value: \"V2\": must be `FieldsV1`"),
    ];
    assert_eq!(wrong[..2], want);
    assert!(wrong[2].starts_with(&format!("{at}.manager: Too long")), "{wrong:?}");
}
