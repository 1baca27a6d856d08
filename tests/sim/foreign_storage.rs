//! Objects that a kube-apiserver stored, in a store that kstore opens: a snapshot of a real cluster, or the etcd of one.

use kstore_api::wire::protobuf;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";
const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A definition as kube-apiservers store it, in the version `v1beta1`: schema, columns and subresources stand above the versions.
fn widgets() -> Value {
    json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": {"name": "widgets.ex.io", "uid": "0f3b7e0e-0000-4000-8000-000000000001", "generation": 1,
            "creationTimestamp": "2026-11-27T00:00:00Z"},
        "spec": {"group": "ex.io", "version": "v1", "scope": "Namespaced", "preserveUnknownFields": false,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "validation": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 10}}},
                "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}],
            "versions": [{"name": "v1", "served": true, "storage": true}], "conversion": {"strategy": "None"}},
        "status": {"conditions": [
                {"type": "NamesAccepted", "status": "True", "lastTransitionTime": "2026-11-27T00:00:00Z", "reason": "NoConflicts", "message": "no conflicts found"},
                {"type": "Established", "status": "True", "lastTransitionTime": "2026-11-27T00:00:00Z", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"}],
            "acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "storedVersions": ["v1"]}})
}

fn deployment() -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web", "namespace": "default", "uid": "0f3b7e0e-0000-4000-8000-000000000003", "generation": 1,
            "creationTimestamp": "2026-11-27T00:00:00Z"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx",
                "resources": {"limits": {"cpu": "500m"}}, "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
                "schedulerName": "default-scheduler"}}},
        "status": {}})
}

async fn get(cluster: &Cluster, path: &str) -> Value {
    let got = cluster.rest().call("GET", path, "").await;
    assert_eq!(got.code, 200, "{path}: {}", got.text("/message"));
    got.json()
}

async fn merge(cluster: &Cluster, path: &str, patch: Value) -> Value {
    let patched = cluster.rest().call_as("PATCH", path, MERGE, patch.to_string()).await;
    assert_eq!(patched.code, 200, "{path}: {}", patched.text("/message"));
    patched.json()
}

/// Stores the definition and an object of it, and a Deployment, as a kube-apiserver with this encoding does.
async fn store_as(cluster: &Cluster, encode: impl Fn(&Value) -> Vec<u8>) {
    let widget = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default",
        "uid": "0f3b7e0e-0000-4000-8000-000000000002", "creationTimestamp": "2026-11-27T00:00:00Z", "generation": 1},
        "spec": {"size": 7}});
    let stored = [
        ("apiextensions.k8s.io/customresourcedefinitions/widgets.ex.io", encode(&widgets())),
        // Custom objects are JSON in every cluster.
        ("ex.io/widgets/default/w", widget.to_string().into_bytes()),
        ("deployments/default/web", encode(&deployment())),
    ];
    for (key, value) in stored {
        cluster.store().put(&format!("/registry/{key}"), value).await.unwrap();
    }
}

async fn assert_nothing_is_lost(cluster: &Cluster) {
    let definition =
        get(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io").await;
    assert_eq!(definition["apiVersion"], "apiextensions.k8s.io/v1");
    let version = &definition["spec"]["versions"][0];
    assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".spec.size");
    let widget = format!("{WIDGETS}/w");
    assert_eq!(get(cluster, &widget).await["spec"], json!({"size": 7}));
    let labelled = merge(cluster, &widget, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled["spec"], json!({"size": 7}), "a write prunes nothing");
    assert_eq!(get(cluster, &format!("{widget}/scale")).await["spec"]["replicas"], 7);
    let refused =
        cluster.rest().call_as("PATCH", &widget, MERGE, json!({"spec": {"size": 99}}).to_string()).await;
    assert_eq!(refused.code, 422, "its schema holds");

    let before = get(cluster, &format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(before["spec"], deployment()["spec"]);
    let after =
        merge(cluster, &format!("{DEPLOYMENTS}/web"), json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(after["spec"], before["spec"]);
}

#[test]
fn a_snapshot_of_a_real_cluster_is_served_and_writes_lose_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        store_as(cluster, |object| protobuf::encode(object).unwrap().to_vec()).await;
        assert_nothing_is_lost(cluster).await;
    });
    simulate(Setup::api_alone(), async |cluster| {
        store_as(cluster, |object| object.to_string().into_bytes()).await;
        assert_nothing_is_lost(cluster).await;
    });
}

#[test]
fn an_object_of_an_unknown_stored_version_is_refused_and_not_changed() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut object = deployment();
        object["apiVersion"] = json!("apps/v9");
        cluster
            .store()
            .put("/registry/deployments/default/web", object.to_string().into_bytes())
            .await
            .unwrap();
        let path = format!("{DEPLOYMENTS}/web");
        for (method, body) in
            [("GET", String::new()), ("PATCH", json!({"metadata": {"labels": {"a": "b"}}}).to_string())]
        {
            let refused = cluster.rest().call_as(method, &path, MERGE, body).await;
            assert_eq!(refused.code, 500, "{method}");
            assert!(
                refused.text("/message").contains("stored in version apps/v9"),
                "{}",
                refused.text("/message")
            );
        }
    });
}
