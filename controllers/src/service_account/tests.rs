//! What a namespace gets.

use super::plan::{Observed, plan};
use crate::action::{Action, Object};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{from_value, json};

fn run(namespace: &Namespace, has_account: bool, root_ca: Option<&ConfigMap>, ca: &str) -> Vec<Action> {
    plan(Observed { namespace, has_account, root_ca, ca })
}

#[test]
fn a_namespace_gets_its_account_and_certificate_once() {
    let ns: Namespace = from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let actions = run(&ns, false, None, "PEM");
    let [Action::Create(Object::ServiceAccount(account)), Action::Create(Object::ConfigMap(map))] =
        &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (account.metadata.name.as_deref(), account.metadata.namespace.as_deref()),
        (Some("default"), Some("n"))
    );
    assert_eq!(
        (map.metadata.name.as_deref(), map.data.as_ref().unwrap()["ca.crt"].as_str()),
        (Some("kube-root-ca.crt"), "PEM")
    );
    assert_eq!(run(&ns, true, Some(map), "PEM"), []);
    let actions = run(&ns, true, Some(map), "NEW");
    assert!(matches!(&actions[..], [Action::Update(Object::ConfigMap(_))]));
    assert!(
        matches!(&run(&ns, false, None, "")[..], [Action::Create(Object::ServiceAccount(_))]),
        "nothing to publish"
    );
}

#[test]
fn a_namespace_that_ends_gets_nothing() {
    for ending in [
        json!({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}),
    ] {
        assert_eq!(run(&from_value(ending).unwrap(), false, None, "PEM"), []);
    }
}
