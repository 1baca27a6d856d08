//! Tests of the default ServiceAccount.

use super::plan::plan;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use serde_json::{from_value, json};

#[test]
fn each_namespace_gets_its_default_account_once() {
    let ns: Namespace = from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let action = plan(&ns, false);
    let account: ServiceAccount = action.unwrap().created().unwrap();
    assert_eq!(
        (account.metadata.name.as_deref(), account.metadata.namespace.as_deref()),
        (Some("default"), Some("n"))
    );
    assert_eq!(plan(&ns, true), None);
}

#[test]
fn a_terminating_namespace_gets_no_account() {
    for ending in [
        json!({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}),
    ] {
        assert_eq!(plan(&from_value(ending).unwrap(), false), None);
    }
}
