//! Tests of when a policy is checked, of the known types, and of the report.

use super::plan::{Definitions, definition_of, is_due, may_be_custom, report};
use crate::action::Action;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kstore_api::admission::policy::type_checking::{Checks, ResourceName};
use serde_json::{Value, from_value, json};

fn policy(generation: i64, observed: Option<i64>) -> ValidatingAdmissionPolicy {
    from_value(
        json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "7", "generation": generation},
        "spec": {}, "status": {"observedGeneration": observed}}),
    )
    .unwrap()
}

fn definition(established: bool) -> Value {
    let is_true = |kind: &str| json!({"type": kind, "status": if established { "True" } else { "False" }});
    let names = json!({"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"watts": {"type": "integer"}}}}});
    let version = |name: &str, served: bool| {
        json!({"name": name, "served": served, "storage": name == "v1",
        "schema": {"openAPIV3Schema": schema}})
    };
    json!({"metadata": {"name": "lamps.light.test", "uid": "d"},
        "spec": {"group": "light.test", "scope": "Namespaced", "names": names, "versions": [version("v1", true), version("v2", false)]},
        "status": {"acceptedNames": names, "conditions": [is_true("NamesAccepted"), is_true("Established")]}})
}

/// Warnings of a policy for `lamps` of this version, with `lamps` as parameters.
fn warned(definitions: &[Value], version: &str) -> Vec<String> {
    let mut known = Definitions::default();
    definitions.iter().for_each(|definition| known.add(definition));
    let policy = json!({"spec": {
        "paramKind": {"apiVersion": format!("light.test/{version}"), "kind": "Lamp"},
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["light.test"], "apiVersions": [version], "resources": ["lamps"]},
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "object.nothing == 1"}, {"expression": "params.spec.nothing == 1"}]}});
    let mut checks = Checks::new(&policy, &known);
    (0..checks.len()).flat_map(|index| checks.run(index)).map(|one| one.warning).collect()
}

#[test]
fn each_policy_generation_is_checked_once() {
    assert!(is_due(&policy(1, None)));
    assert!(is_due(&policy(2, Some(1))));
    assert!(!is_due(&policy(2, Some(2))));
}

#[test]
fn a_type_check_report_replaces_earlier_ones_at_the_checked_revision() {
    let Action::Patch { target, status, patch, .. } = report(&policy(3, Some(2)), &[]) else { panic!() };
    assert_eq!((&*target.name, &*target.uid, status), ("p", "u", true));
    assert_eq!(
        patch,
        json!({"metadata": {"resourceVersion": "7"},
            "status": {"observedGeneration": 3, "typeChecking": {"expressionWarnings": null}}})
    );
}

#[test]
fn custom_kinds_are_known_while_served() {
    let found = warned(&[definition(true)], "v1");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'nothing'"));
    assert!(found[0].contains("\nlight.test/v1, Kind=Lamp: ERROR: <input>:1:7: undefined field 'nothing'"));
    assert_eq!(found[1].matches("undefined field 'nothing'").count(), 2, "with either kind of object");
    for (definitions, version) in
        [(vec![], "v1"), (vec![definition(false)], "v1"), (vec![definition(true)], "v2")]
    {
        let found = warned(&definitions, version);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(!found[0].contains("Lamp"), "{found:?}");
    }
}

#[test]
fn definitions_are_read_for_custom_kinds_only() {
    let named = |group, version, resource| definition_of(ResourceName { group, version, resource });
    assert_eq!(named("light.test", "v1", "lamps").as_deref(), Some("lamps.light.test"));
    assert_eq!((named("apps", "v1", "deployments"), named("", "v1", "things")), (None, None));
    assert!(may_be_custom(("light.test", "v1", "Lamp")));
    assert!(!may_be_custom(("", "v1", "ConfigMap")) && !may_be_custom(("apps", "v1", "Deployment")));
}
