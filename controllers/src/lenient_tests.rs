//! Tests of `kstore_api::lenient` with generated structs, which controllers decode.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kstore_api::lenient;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    lenient::from_slice(value.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn conditions_without_a_required_time_have_the_zero_time() {
    for time in [None, Some(Value::Null)] {
        let mut condition = json!({"type": "X", "status": "True"});
        if let Some(time) = time {
            condition["lastTransitionTime"] = time;
        }
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}]}, "status": {"conditions": [condition.clone(), condition]}});
        let read: Service = read(&service).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["status"]["conditions"][1]["lastTransitionTime"], "0001-01-01T00:00:00Z");
        assert_eq!(written["spec"]["ports"][0]["port"], 80);
    }
}

#[test]
fn null_decodes_to_the_zero_value_of_every_type() {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": null, "labels": {"a": null}, "finalizers": [null], "ownerReferences": [null]},
        "spec": {"selector": null, "minAvailable": null},
        "status": {"disruptedPods": {"p": null}, "currentHealthy": null, "conditions": null}});
    let read: PodDisruptionBudget = read(&budget).unwrap();
    assert_eq!(read.metadata.labels.unwrap()["a"], "");
    assert_eq!(read.metadata.finalizers.unwrap(), [""]);
    assert_eq!(read.status.unwrap().disrupted_pods.unwrap()["p"].0.to_string(), "0001-01-01T00:00:00Z");
}

#[test]
fn members_of_the_wrong_type_are_errors() {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": "none"}, "status": {"conditions": [{"type": "X"}]}});
    assert!(read::<Service>(&service).unwrap_err().contains("invalid type"));
    service["spec"]["ports"] = json!([{"port": 80}]);
    let found = json!([true, 7, -7, 1.5, "text", [], {}]);
    for (found, said) in found.as_array().unwrap().iter().zip([
        "boolean `true`",
        "integer `7`",
        "integer `-7`",
        "floating point `1.5`",
        "string \"text\"",
        "sequence",
        "map",
    ]) {
        for (expects, member) in [("map", "status"), ("sequence", "ports")] {
            let mut other = service.clone();
            match member {
                "status" => other["status"] = found.clone(),
                _ => other["spec"]["ports"] = found.clone(),
            }
            let fits = found.is_object() && expects == "map" || found.is_array() && expects == "sequence";
            let refused = read::<Service>(&other).err();
            assert_eq!(refused.is_none(), fits, "{other}");
            assert!(refused.is_none_or(|text| text.contains(said)), "{other}");
        }
    }
    service["spec"]["ports"] = json!([{"port": "http"}]);
    assert!(read::<Service>(&service).unwrap_err().contains("invalid type"));
    assert!(lenient::from_slice::<Service>(b"{\"kind\":").is_err());
}

fn deployment() -> Value {
    let fields = json!([{"manager": "m", "operation": "Update", "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"managedFields": "kept"}, "managedFields": fields,
            "annotations": {"metadata": "kept \" \u{e9}"}, "uid": "u"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"metadata": "kept"}},
            "template": {"metadata": {"labels": {"metadata": "kept"}}}}})
}

#[test]
fn all_members_but_managed_fields_are_decoded() {
    let mut expected: Deployment = serde_json::from_value(deployment()).unwrap();
    assert!(expected.metadata.managed_fields.take().is_some());
    let decoded: Deployment = lenient::without_managed_fields(deployment().to_string().as_bytes()).unwrap();
    assert_eq!(decoded, expected);
}

#[test]
fn objects_without_required_members_have_no_managed_fields_either() {
    let mut object = deployment();
    object["spec"].as_object_mut().unwrap().remove("selector");
    let decoded: Deployment = lenient::without_managed_fields(object.to_string().as_bytes()).unwrap();
    assert!(decoded.metadata.managed_fields.is_none());
    assert_eq!(decoded.metadata.name.as_deref(), Some("web"));
}

#[test]
fn text_that_is_no_object_is_an_error() {
    let text = deployment().to_string();
    for wrong in ["", "7", "{", r#"{"metadata": 7}"#, &text[..text.len() - 1], &format!("{text}}}")] {
        assert!(lenient::without_managed_fields::<Deployment>(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[derive(Debug, Default, PartialEq, serde::Deserialize)]
struct Inner {
    text: String,
    number: i32,
    list: Vec<Inner>,
}

#[derive(serde::Deserialize)]
struct Outer {
    first: Inner,
    second: Option<Inner>,
    raw: Box<serde_json::value::RawValue>,
    any: Value,
}

/// Every struct gets its own absent members, and stated ones stay, also where names repeat on other levels.
#[test]
fn absent_members_are_zero_on_every_level() {
    let json = br#"{"raw": {"a": null}, "any": {"list": null}, "first": {"number": 7, "list": [{"text": "t"}, {}, null]}}"#;
    let read: Outer = lenient::from_slice(json).unwrap();
    let item = |text: &str| Inner { text: text.to_owned(), ..Inner::default() };
    assert_eq!(
        read.first,
        Inner { number: 7, list: vec![item("t"), item(""), item("")], ..Inner::default() }
    );
    assert_eq!((read.second, read.raw.get()), (None, r#"{"a": null}"#));
    assert_eq!(read.any, json!({"list": null}));
    let escaped: Inner =
        lenient::from_slice(br#"{"te\u0078t": "a\nb", "number": null, "unknown": [1]}"#).unwrap();
    assert_eq!(escaped, item("a\nb"));
}

#[test]
fn a_list_is_no_struct() {
    assert!(lenient::from_slice::<Inner>(br#"["t", 1, []]"#).unwrap_err().to_string().contains("sequence"));
}
