//! Tests of strategic merge patch: the cases of `cases.yaml`, and properties of generated pods.

use super::apply;
use crate::schema;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Case {
    name: String,
    kind: String,
    current: Value,
    patch: Value,
    want: Option<Value>,
    error: Option<String>,
}

#[test]
fn cases_of_the_yaml_table_pass() {
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("cases.yaml")).unwrap();
    for case in cases {
        let ty = schema::all().find(|t| t.has_kind && t.name == case.kind).unwrap();
        match (apply(&case.current, &case.patch, ty), case.want, case.error) {
            (Ok(result), Some(want), None) => assert_eq!(result, want, "{}", case.name),
            (Err(error), None, Some(part)) => {
                assert!(error.to_string().contains(&part), "{}: {error}", case.name);
            }
            (result, _, _) => panic!("{}: {result:?}", case.name),
        }
    }
}

/// Merge key, strategies and path of every API field that does not simply merge as a map or replace as a
/// list.
#[test]
fn fields_with_merge_strategies_match_kubernetes() {
    let fields = schema::all().flat_map(|ty| ty.fields.iter().map(move |field| (ty, field)));
    let lines = fields.filter_map(|(ty, field)| {
        let patch = field.patch;
        let flags = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
        let names: Vec<&str> = flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
        let key = field.merge_key.unwrap_or("-");
        (!names.is_empty()).then(|| format!("{key} {} {}.{}", names.join(","), ty.name, field.name))
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    let want: Vec<&str> = include_str!("merge_keys.txt").lines().collect();
    assert_eq!(lines, want);
}

/// A pod spec whose keyed lists have unique keys.
fn pod() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[A-D]", "[0-2]", 0..4).prop_map(|m| {
        m.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>()
    });
    let container = (env, prop::collection::vec("[a-c]", 0..3));
    let containers = prop::collection::btree_map("[a-d]", container, 0..4).prop_map(|m| {
        m.into_iter()
            .map(|(name, (env, args))| json!({"name": name, "env": env, "args": args}))
            .collect::<Vec<_>>()
    });
    let labels = prop::collection::btree_map("[a-c]", "[0-2]", 0..3);
    let finalizers = prop::collection::btree_set("[a-d]", 0..4);
    (containers.prop_shuffle(), labels, finalizers).prop_map(|(containers, labels, finalizers)| {
        json!({"metadata": {"labels": labels, "finalizers": finalizers}, "spec": {"containers": containers}})
    })
}

/// A patch from `a` to `b`, as kubectl apply computes it: changes, deletions and list order.
fn diff(a: &Value, b: &Value) -> Value {
    let list = |v: &Value, path: &str| v.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let keyed = |a: &[Value], b: &[Value]| {
        let gone = a.iter().filter(|x| !b.iter().any(|y| y["name"] == x["name"]));
        let deletions = gone.map(|x| json!({"$patch": "delete", "name": x["name"]}));
        let order: Vec<_> = b.iter().map(|x| json!({"name": x["name"]})).collect();
        (b.iter().cloned().chain(deletions).collect::<Vec<_>>(), order)
    };
    let (a_containers, mut b_containers) = (list(a, "/spec/containers"), list(b, "/spec/containers"));
    for container in &mut b_containers {
        let before = a_containers.iter().find(|x| x["name"] == container["name"]);
        let (env, order) = keyed(&before.map_or(Vec::new(), |x| list(x, "/env")), &list(container, "/env"));
        container["env"] = env.into();
        if before.is_some() {
            container["$setElementOrder/env"] = order.into();
        }
    }
    let (containers, order) = keyed(&a_containers, &b_containers);
    let (a_finalizers, b_finalizers) = (list(a, "/metadata/finalizers"), list(b, "/metadata/finalizers"));
    let gone: Vec<_> = a_finalizers.iter().filter(|x| !b_finalizers.contains(x)).collect();
    let mut labels = b["metadata"]["labels"].clone();
    for name in a["metadata"]["labels"].as_object().unwrap().keys() {
        if labels.get(name).is_none() {
            labels[name] = Value::Null;
        }
    }
    json!({"metadata": {"labels": labels, "finalizers": b_finalizers, "$deleteFromPrimitiveList/finalizers": gone,
            "$setElementOrder/finalizers": b_finalizers},
        "spec": {"containers": containers, "$setElementOrder/containers": order}})
}

proptest! {
    #[test]
    fn applying_a_diff_gives_the_other_object(a in pod(), b in pod()) {
        let ty = schema::of("", "v1", "Pod").unwrap();
        let patched = apply(&a, &diff(&a, &b), ty).unwrap();
        prop_assert_eq!(&patched, &b);
        prop_assert_eq!(apply(&patched, &diff(&a, &b), ty).unwrap(), b, "a second time changes nothing");
    }

    #[test]
    fn patching_an_object_with_itself_changes_nothing(pod in pod()) {
        let ty = schema::of("", "v1", "Pod").unwrap();
        prop_assert_eq!(apply(&pod, &pod, ty).unwrap(), pod);
    }
}
