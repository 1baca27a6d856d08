//! Table tests of defaulting: `cases.yaml` has objects before and after.

use crate::kind::lookup_api_version;
use crate::object;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Case {
    name: String,
    object: Value,
    /// Merged with the given object, this is the expected object (maps merge, everything else replaces).
    adds: Value,
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) if into.len() == from.len() => {
            into.iter_mut().zip(from).for_each(|(into, from)| merge(into, from));
        }
        (into, from) => *into = from.clone(),
    }
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, v| !v.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

#[test]
fn defaults_match_kubernetes_and_are_idempotent() {
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("cases.yaml")).unwrap();
    for case in cases {
        let row = lookup_api_version(object::api_version(&case.object), object::kind(&case.object))
            .unwrap_or_else(|| panic!("{}: no such kind", case.name));
        let mut want = case.object.clone();
        merge(&mut want, &case.adds);
        strip_nulls(&mut want);
        let template = row.rules.pod_template.filter(|template| !template.is_empty());
        let template = template.map(|names| format!("/{}", names.join("/")));
        let defaulted = |mut got: Value| {
            super::apply(row, &mut got);
            strip_nulls(&mut got);
            // Cases that are not about the template state none.
            let ends = template
                .iter()
                .flat_map(|whole| whole.match_indices('/').map(|(at, _)| at).chain([whole.len()]));
            let paths: Vec<&str> = ends.map(|end| &template.as_ref().unwrap()[..end]).collect();
            if let Some(absent) = paths.into_iter().find(|path| want.pointer(path).is_none()) {
                let (owner, name) = absent.rsplit_once('/').unwrap();
                if let Some(Value::Object(owner)) = got.pointer_mut(owner) {
                    owner.remove(name);
                }
            }
            got
        };
        let got = defaulted(case.object.clone());
        assert_eq!(got, want, "{}", case.name);
        assert_eq!(defaulted(got), want, "{}: a second time", case.name);
    }
}

#[test]
fn defaulting_accepts_objects_without_a_spec() {
    for row in crate::kind::every() {
        super::apply(row, &mut serde_json::json!({"metadata": {"name": "x"}}));
    }
}

/// Conversions that Kubernetes runs on every decoded pod: one list of addresses, and no init containers in annotations.
#[test]
fn pods_have_one_list_of_addresses_and_no_init_containers_in_annotations() {
    let pods = crate::kind::lookup("", "v1", "pods").unwrap();
    let status_of = |status: Value| {
        let mut pod =
            serde_json::json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": status});
        super::apply(pods, &mut pod);
        pod["status"].take()
    };
    let both = serde_json::json!({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]});
    assert_eq!(status_of(serde_json::json!({"podIP": "10.0.0.9"})), both);
    assert_eq!(status_of(serde_json::json!({"podIPs": [{"ip": "10.0.0.9"}]})), both);
    let moved = serde_json::json!({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.8"}, {"ip": "fd00::1"}]});
    assert_eq!(status_of(moved), both);
    let dual = serde_json::json!({"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}, {"ip": "fd00::1"}]});
    assert_eq!(status_of(dual.clone()), dual);
    assert_eq!(status_of(serde_json::json!({"phase": "Pending"})), serde_json::json!({"phase": "Pending"}));

    let annotations = |object: Value, pointer: &str| {
        let row = lookup_api_version(object::api_version(&object), object::kind(&object)).unwrap();
        let mut object = object;
        super::apply(row, &mut object);
        object.pointer(pointer).cloned()
    };
    let old = serde_json::json!({"annotations": {"pod.beta.kubernetes.io/init-containers": "[]",
        "pod.alpha.kubernetes.io/init-container-statuses": "[]", "a": "b"}});
    let kept = Some(serde_json::json!({"a": "b"}));
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": old});
    assert_eq!(annotations(pod, "/metadata/annotations"), kept);
    let owner = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": old, "spec": {"template": {"metadata": old}}});
    assert_eq!(annotations(owner.clone(), "/spec/template/metadata/annotations"), kept);
    assert_eq!(annotations(owner, "/metadata/annotations").unwrap().as_object().unwrap().len(), 3);
}

#[test]
fn images_that_are_no_references_have_no_latest_tag() {
    let policy = |image: &str| {
        let pods = crate::kind::lookup("", "v1", "pods").unwrap();
        let mut pod = serde_json::json!({"metadata": {}, "spec": {"containers": [{"image": image}]}});
        super::apply(pods, &mut pod);
        pod["spec"]["containers"][0]["imagePullPolicy"].as_str().unwrap().to_owned()
    };
    for image in ["ko://github.com/x/y", "$(IMG)", "{{ .image }}", "a b", "Upper", "a:1", ""] {
        assert_eq!(policy(image), "IfNotPresent", "{image}");
    }
    for image in ["a", "a:latest", "localhost:5000/a/b"] {
        assert_eq!(policy(image), "Always", "{image}");
    }
}
