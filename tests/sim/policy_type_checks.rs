//! `status.typeChecking` of validating admission policies in a whole cluster: a controller checks each
//! generation of a policy against the built-in and custom kinds that it matches. Unit tests of the checker cover its
//! messages.

use kstore_client::{DynamicApi, Gvr, Patch};
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

const GROUP: &str = "light.example.com";

fn policies(cluster: &Cluster) -> DynamicApi {
    cluster.client().dynamic(Gvr::new("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"))
}

fn policy(name: &str, groups: &[&str], resources: &[&str], expression: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [
            {"apiGroups": groups, "apiVersions": ["v1"], "resources": resources, "operations": ["CREATE"]}]},
            "validations": [{"expression": expression}]}})
}

/// The status of a policy once its newest generation was checked.
async fn checked(cluster: &Cluster, name: &str) -> Value {
    let newest = async || cluster.get("validatingadmissionpolicies", "", name).await.unwrap();
    cluster
        .wait_until(&format!("{name} is checked"), async || {
            let policy = newest().await;
            policy["status"]["observedGeneration"] == policy["metadata"]["generation"]
        })
        .await;
    newest().await["status"].clone()
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("lamps.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"watts": {"type": "integer"}}}}}}}]}})
}

#[test]
fn each_generation_of_a_policy_is_checked_against_its_matched_kinds() {
    simulate(Setup::seed(7), async |cluster| {
        let expression = "object.replicas > 1 || object.spec.replicas > 1";
        let workloads = policy("workloads", &["apps"], &["deployments", "replicasets"], expression);
        cluster.create(workloads).await;
        let status = checked(cluster, "workloads").await;
        let error = "ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1 || object.spec.replicas > 1\n | ......^\n";
        let warning = format!("apps/v1, Kind=Deployment: {error}\napps/v1, Kind=ReplicaSet: {error}");
        let expected = json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
            {"fieldRef": "spec.validations[0].expression", "warning": warning}]}});
        assert_eq!(status, expected);
        let fixed = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
        policies(cluster).patch("", "workloads", "", &Patch::Merge(fixed)).await.unwrap();
        let status = checked(cluster, "workloads").await;
        assert_eq!(status, json!({"observedGeneration": 2, "typeChecking": {}}));
        let managers = cluster.get("validatingadmissionpolicies", "", "workloads").await.unwrap();
        let managers = managers["metadata"]["managedFields"].as_array().unwrap().clone();
        let of_status = managers.iter().find(|entry| entry["subresource"] == "status").unwrap();
        assert_eq!(of_status["manager"], "validatingadmissionpolicy-status-controller");
    });
}

#[test]
fn custom_kinds_of_objects_and_parameters_are_read_from_their_definitions() {
    simulate(Setup::seed(8), async |cluster| {
        cluster.create(definition()).await;
        cluster.create(policy("lamps", &[GROUP], &["lamps"], "object.spec.volts == 1")).await;
        let mut limited =
            policy("limited", &[""], &["configmaps"], "params.spec.volts == object.data.size()");
        limited["spec"]["paramKind"] = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Lamp"});
        cluster.create(limited).await;
        cluster.create(policy("absent", &["none.example.com"], &["things"], "object.spec.volts == 1")).await;
        for (name, kind) in
            [("lamps", format!("{GROUP}/v1, Kind=Lamp")), ("limited", "/v1, Kind=ConfigMap".to_owned())]
        {
            let status = checked(cluster, name).await;
            let warning =
                status["typeChecking"]["expressionWarnings"][0]["warning"].as_str().unwrap().to_owned();
            let expected = format!("{kind}: ERROR: <input>:1:12: undefined field 'volts'\n");
            assert!(warning.starts_with(&expected), "{name}: {warning}");
        }
        assert_eq!(checked(cluster, "absent").await, json!({"observedGeneration": 1, "typeChecking": {}}));
    });
}
