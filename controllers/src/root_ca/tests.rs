//! Tests of the published certificate.

use super::plan::plan;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{from_value, json};

#[test]
fn a_namespace_gets_each_new_root_certificate() {
    let ns: Namespace = from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let action = plan(&ns, None, "PEM");
    let map: ConfigMap = action.unwrap().created().unwrap();
    assert_eq!(
        (map.metadata.name.as_deref(), map.data.as_ref().unwrap()["ca.crt"].as_str()),
        (Some("kube-root-ca.crt"), "PEM")
    );
    assert_eq!(plan(&ns, Some(&map), "PEM"), None);
    assert!(plan(&ns, Some(&map), "NEW").unwrap().updated::<ConfigMap>().is_some());
    assert_eq!(plan(&ns, None, ""), None, "nothing to publish");
}

#[test]
fn a_terminating_namespace_gets_no_certificate() {
    for ending in [
        json!({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}),
    ] {
        assert_eq!(plan(&from_value(ending).unwrap(), None, "PEM"), None);
    }
}
