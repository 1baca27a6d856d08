//! Tests of `kstore_api::lenient` with generated structs, which controllers decode.

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
