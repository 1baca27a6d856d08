//! Answers that a running kube-apiserver 1.36.2 gave to the same requests, where this server once answered otherwise: apply
//! configurations with nulls and without keys, types of `apiVersion`, members that a kind does not keep, and managed fields.

use kstore_api::version::Minor;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn of_1_36(test: impl AsyncFn(&Cluster)) {
    simulate(Setup::api_alone().kubernetes(Minor::V36), async |cluster| test(cluster).await);
}

async fn post(cluster: &Cluster, path: &str, object: &Value) -> Reply {
    cluster.rest().call("POST", path, object.to_string()).await
}

async fn apply(cluster: &Cluster, path: &str, config: &Value) -> Reply {
    let path = format!("{path}?fieldManager=applier&force=true");
    cluster.rest().call_as("PATCH", &path, "application/apply-patch+yaml", config.to_string()).await
}

/// The fields of the only manager of an object, or of the named one.
fn fields<'o>(object: &'o Value, manager: &str) -> &'o Value {
    let entries = object["metadata"]["managedFields"].as_array().expect("managed fields");
    let entry = entries.iter().find(|entry| manager.is_empty() || entry["manager"] == manager);
    &entry.expect("the manager")["fieldsV1"]
}

#[test]
fn an_applied_null_owns_its_member_and_takes_the_value_away() {
    of_1_36(async |cluster| {
        let path = "/api/v1/persistentvolumes";
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "mountOptions": ["ro"],
                "csi": {"driver": "d", "volumeHandle": "h"}}});
        assert_eq!(post(cluster, path, &volume).await.code, 201);
        let config = |spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec});
        let refused = apply(cluster, &format!("{path}/v"), &config(json!({"accessModes": null}))).await;
        assert_eq!(
            (refused.code, refused.text("/message")),
            (422, "PersistentVolume \"v\" is invalid: spec.accessModes: Required value".to_owned())
        );
        let changed =
            apply(cluster, &format!("{path}/v"), &config(json!({"mountOptions": null}))).await.json();
        assert_eq!(changed["spec"].get("mountOptions"), None, "{changed}");
        assert_eq!(fields(&changed, "applier"), &json!({"f:spec": {"f:mountOptions": {}}}));
        let again = apply(cluster, &format!("{path}/v"), &config(json!({"mountOptions": null}))).await.json();
        assert_eq!(again, changed, "a second apply changes nothing");
        // A map keeps its members.
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "b"}});
        assert_eq!(post(cluster, MAPS, &map).await.code, 201);
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": null});
        let applied = apply(cluster, &format!("{MAPS}/m"), &config).await.json();
        assert_eq!(
            (&applied["data"], fields(&applied, "applier")),
            (&json!({"a": "b"}), &json!({"f:data": {}}))
        );
    });
}

#[test]
fn an_applied_element_without_its_key_has_the_default_of_the_key() {
    of_1_36(async |cluster| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        assert_eq!(post(cluster, MAPS, &map).await.code, 201);
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "ownerReferences": [{"name": "n"}]}});
        let refused = apply(cluster, &format!("{MAPS}/m"), &config).await;
        assert_eq!(refused.code, 422, "{}", refused.json());
        let message = refused.text("/message");
        assert!(
            message.contains("metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"),
            "{message}"
        );
    });
}

#[test]
fn an_apply_that_cannot_be_converted_is_an_error_of_the_server() {
    of_1_36(async |cluster| {
        let config = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {"pods": ""}}});
        let refused = apply(cluster, "/api/v1/namespaces/default/resourcequotas/q", &config).await;
        let text = "failed to convert new object (default/q; /v1, Kind=ResourceQuota) to proper version: unable to convert \
             unstructured object to /v1, Kind=ResourceQuota: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        assert_eq!((refused.code, refused.text("/message")), (500, text.to_owned()));
    });
}

#[test]
fn an_api_version_or_kind_that_is_no_text_is_refused() {
    of_1_36(async |cluster| {
        let refused =
            post(cluster, MAPS, &json!({"apiVersion": 7, "kind": "ConfigMap", "metadata": {"name": "m"}}))
                .await;
        let text = refused.text("/message");
        let start = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: \
             json: cannot unmarshal number into Go struct field .apiVersion of type string ({\"apiVersion\":7,";
        assert_eq!((refused.code, text.starts_with(start)), (400, true), "{text}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        assert_eq!(post(cluster, MAPS, &map).await.code, 201);
        let path = format!("{MAPS}/m");
        let patch = json!({"kind": 7}).to_string();
        let refused = cluster.rest().call_as("PATCH", &path, "application/merge-patch+json", patch).await;
        let text = refused.text("/message");
        let end = "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string";
        assert_eq!((refused.code, text.ends_with(end)), (422, true), "{text}");
    });
}

#[test]
fn references_of_a_service_account_are_reduced_to_names() {
    of_1_36(async |cluster| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"},
            "secrets": [{"name": "s", "namespace": "default", "kind": "Secret", "uid": "u"}]});
        let made = post(cluster, ACCOUNTS, &account).await.json();
        assert_eq!(made["secrets"], json!([{"name": "s"}]));
        let mut changed = made.clone();
        changed["secrets"] = json!([{"name": "t", "fieldPath": "data"}]);
        let changed = cluster.rest().call("PUT", &format!("{ACCOUNTS}/a"), changed.to_string()).await.json();
        assert_eq!(changed["secrets"], json!([{"name": "t"}]));
    });
}

#[test]
fn managed_fields_of_new_objects_are_those_of_kubernetes() {
    of_1_36(async |cluster| {
        let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"},
            "data": {"spec": {"a": "b"}}, "revision": 1});
        let made =
            post(cluster, "/apis/apps/v1/namespaces/default/controllerrevisions", &revision).await.json();
        assert_eq!(fields(&made, ""), &json!({"f:data": {}, "f:revision": {}}));
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"},
                "claimRef": {"name": "c", "namespace": "default"}}});
        let made = post(cluster, "/api/v1/persistentvolumes", &volume).await.json();
        assert_eq!(
            fields(&made, "")["f:spec"]["f:claimRef"],
            json!({".": {}, "f:name": {}, "f:namespace": {}})
        );
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let made = post(cluster, "/apis/apps/v1/namespaces/default/daemonsets", &set).await.json();
        assert_eq!(made["metadata"]["annotations"]["deprecated.daemonset.template.generation"], "1");
        assert_eq!(
            fields(&made, "")["f:metadata"]["f:annotations"],
            json!({".": {}, "f:deprecated.daemonset.template.generation": {}})
        );
        let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "c"},
            "spec": {"request": REQUEST, "signerName": "example.org/signer", "usages": ["client auth"]}});
        let made = post(cluster, "/apis/certificates.k8s.io/v1/certificatesigningrequests", &request).await;
        assert_eq!(
            (made.code, made.json()["metadata"].get("managedFields").cloned()),
            (201, None),
            "{}",
            made.json()
        );
    });
}

/// A request for a certificate of `/CN=a`.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQ1VUQ0NBVGtDQVFBd0RERUtNQWdHQTFVRUF3d0JZVENDQVNJd0RRWUpLb1pJaHZjTkFRRUJCUUFEZ2dFUApBRENDQVFvQ2dnRUJBSkhIenlacVFRalp3bjlsNEdKM0pLQk1la1BFYmNDc1pYY1o1R21sS3dKYlR1a01FUGpDCmhFTXZzSTc5REhuaXlOQzBrK1RBd3N2ODZsV3RlYnJ6RURVUmZrOWRpemhHWmVCWmxtZ0I2VmJ1NXJNd1dqUWYKL09IUjlWb3JXdGVrWGZBUnpqMk41bEdkRUZjMGdFaWYrbnVVdE5FejZhU0FQTGJZaEpMWHVFbFBnbW4vRkhGbApXcFI0RHNrVEV6REZnSGRPTGN2RWNrY2Q0VzEyR1k3YzI4dkx3bTBMTnYvTFFjdGlWOWF4L2tpek5wMDhURjNkCmJhSjRhZHhnc0FTVm83QXI0YytXVzlmOGFLcWwrTFlhOGxXK0F2b3FMT0ltUCtPTEVXdTByZHN3S3Zia1RJODcKVjhabzd5SEdYM0k5SC8zR3dWa0wwNXIwTjJrZURrRGw1eThDQXdFQUFhQUFNQTBHQ1NxR1NJYjNEUUVCQ3dVQQpBNElCQVFCT1pwVzJ0Y3prQ3VTQWllSUF3UzR6UFM3V0ozSzlwZmEwakRtaVpvSGVyRUVKbGVtR20vbldVUS9iCmpJSGFtRERycGdHbFFacTNhcHJDczRPNHdLcW5UQmVROERlUjh4bXl5TmtDLytWYllrOWI4Z1dvSE1XSnR0eksKSUt1VnVLZzFheU5USk5BRGFlKzAxVm41U29GRmNWY293S3dud2xlQ1hnQUwza295WFJqZUJ3NEZBK1pnVk1SMApialJSa01GcnhEUU5MdzFObHp0K1RMR2w5STRzbXZZQm9OeUVQaUZoWCtUc2cyQ2F4amo1OTliaStmY0ZBTWg4Ckt1SWZSUmtqN3NrU01LeGxTSmNyeFRmaFhXL0N6VCtyT1NKc0hKR3VUVXNCOG1UalVrVDhTRlB3RVFJRWFsMXYKdVhKdk44TW80dUdoOFBEbFNCVEVxQVhNcnhtbQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

#[test]
fn reviews_show_the_fields_that_the_client_sent() {
    of_1_36(async |cluster| {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
        let made = post(cluster, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.json();
        let sent = json!({"f:spec": {"f:nonResourceAttributes": {".": {}, "f:path": {}, "f:verb": {}}, "f:user": {}}});
        assert_eq!(fields(&made, ""), &sent);
        let review =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}});
        let made = post(cluster, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await.json();
        assert_eq!(fields(&made, ""), &json!({"f:spec": {"f:token": {}}}));
        assert_eq!(made["status"], json!({"error": "invalid bearer token", "user": {}}));
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": "default"}});
        let made =
            post(cluster, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &review).await.json();
        assert_eq!((&made["spec"], &made["metadata"]), (&json!({}), &json!({})));
    });
}

#[test]
fn the_initial_objects_that_describe_the_server_have_managed_fields() {
    of_1_36(async |cluster| {
        for path in [
            "/api/v1/namespaces/default/endpoints/kubernetes",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
            "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
            "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking",
        ] {
            let object = cluster.rest().call("GET", path, "").await;
            if object.code == 200 {
                let managers = object.json()["metadata"]["managedFields"].as_array().map(Vec::len);
                assert_eq!(managers, Some(1), "{path}: {}", object.json());
            }
        }
        let address =
            cluster.rest().call("GET", "/apis/networking.k8s.io/v1/ipaddresses/10.96.0.1", "").await.json();
        let parent = json!({"resource": "services", "namespace": "default", "name": "kubernetes"});
        assert_eq!(address["spec"]["parentRef"], parent);
    });
}

#[test]
fn an_autoscaler_of_v1_shows_its_behavior_as_kubernetes_writes_it() {
    of_1_36(async |cluster| {
        let behavior = r#"{"ScaleUp":{"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}]}}"#;
        let scaler = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "annotations": {"autoscaling.alpha.kubernetes.io/behavior": behavior}},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
        let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
        let made = post(cluster, path, &scaler).await.json();
        let shown = r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#;
        assert_eq!(made["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"], shown);
    });
}

#[test]
fn storage_capacities_and_component_statuses_are_shown_as_kubernetes_does() {
    of_1_36(async |cluster| {
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let path = "/apis/storage.k8s.io/v1/csistoragecapacities";
        let table = super::ask(cluster, "GET", path, &[("accept", accept)]).await.json();
        let columns = table["columnDefinitions"].as_array().unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["Name", "Created At"]);
        let list = cluster.rest().call("GET", "/api/v1/componentstatuses", "").await.json();
        assert_eq!(list["items"][0].get("kind"), None, "{list}");
    });
}
