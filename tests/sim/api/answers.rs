//! What answers to writes show beside the object that was sent: members that Go prints as null, warnings about valid objects, and both
//! views of an event. Answers are those of kube-apiserver 1.36.2.

use super::{ask, warnings};
use kstore_api::wire::protobuf;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn send(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let kind = match method {
        "PATCH" => "application/apply-patch+yaml",
        _ => "application/json",
    };
    cluster.rest().call_as(method, path, kind, body.to_string()).await
}

async fn created(cluster: &Cluster, path: &str, body: &Value) -> Value {
    let reply = send(cluster, "POST", path, body).await;
    assert_eq!(reply.code, 201, "{path}: {}", reply.json());
    reply.json()
}

#[test]
fn lists_and_times_that_go_has_as_nil_are_null_in_every_answer() {
    simulate(Setup::api_alone(), async |cluster| {
        let core = "/api/v1/namespaces/default";
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []});
        let volume = json!({"name": "v", "projected": {"sources": []}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}});
        let cases = [
            (
                ROLES,
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}}),
                "/rules",
            ),
            ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice, "/endpoints"),
            (
                &format!("{core}/limitranges"),
                json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": []}}),
                "/spec/limits",
            ),
            (&format!("{core}/pods"), pod, "/spec/volumes/0/projected/sources"),
        ];
        for (path, object, place) in cases {
            let own = format!("{path}/a");
            let shown = created(cluster, path, &object).await;
            assert_eq!(shown.pointer(place), Some(&Value::Null), "{path}: {shown}");
            let read = cluster.rest().call("GET", &own, "").await;
            assert_eq!(read.json(), shown, "GET");
            let list = cluster.rest().call("GET", path, "").await.json();
            assert_eq!(list["items"][0].pointer(place), Some(&Value::Null), "LIST: {list}");
            // What was read, what was sent, and both again by protobuf and apply are the same object: nothing is written.
            let version = |reply: &Value| reply["metadata"]["resourceVersion"].clone();
            // Admission adds volumes to a pod, which an update must not remove.
            for body in
                [Some(&shown), Some(&object).filter(|object| object["kind"] != "Pod")].into_iter().flatten()
            {
                let again = send(cluster, "PUT", &own, body).await.json();
                assert_eq!(version(&again), version(&shown), "PUT {path}: {again}");
            }
            let answer = ask(cluster, "GET", &own, &[("accept", PROTOBUF)]).await;
            let (_, decoded) = protobuf::decode(&answer.body).unwrap();
            assert_eq!(decoded.pointer(place), None, "an absent list has no bytes");
            let applied = format!("{own}?fieldManager=one&force=true");
            let first = send(cluster, "PATCH", &applied, &object).await.json();
            let second = send(cluster, "PATCH", &applied, &object).await.json();
            assert_eq!(first, second, "applying again writes nothing");
        }
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let status = format!("{core}/pods/a/status");
        let pod = cluster
            .rest()
            .call_as("PATCH", &status, "application/strategic-merge-patch+json", ready.to_string())
            .await
            .json();
        let condition = &pod["status"]["conditions"][0];
        assert_eq!(
            condition,
            &json!({"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null})
        );
        let entries = pod["metadata"]["managedFields"].as_array().unwrap();
        let of_status = entries.iter().find(|entry| entry["subresource"] == "status").unwrap();
        let owned = &of_status["fieldsV1"]["f:status"]["f:conditions"]["k:{\"type\":\"Ready\"}"];
        assert_eq!(
            owned,
            &json!({".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}})
        );
    });
}

#[test]
fn each_view_of_an_event_prints_its_own_members() {
    simulate(Setup::api_alone(), async |cluster| {
        let (core, new) =
            ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
        let object = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": object, "reason": "R", "type": "Normal"});
        let shown = created(cluster, core, &event).await;
        for member in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            assert_eq!(shown.get(member), Some(&Value::Null), "{member}: {shown}");
        }
        assert_eq!((&shown["reportingComponent"], &shown["reportingInstance"]), (&json!(""), &json!("")));
        let other = cluster.rest().call("GET", &format!("{new}/a"), "").await.json();
        for member in ["reportingController", "reportingInstance"] {
            assert_eq!(other.get(member), None, "{member}: {other}");
        }
        for member in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
            assert_eq!(other.get(member), Some(&Value::Null), "{member}: {other}");
        }
        let back = send(cluster, "PUT", &format!("{new}/a"), &other).await.json();
        assert_eq!(back["metadata"]["resourceVersion"], shown["metadata"]["resourceVersion"], "{back}");
    });
}

#[test]
fn valid_objects_that_are_probably_mistakes_cause_the_warnings_of_kubernetes() {
    simulate(Setup::api_alone(), async |cluster| {
        let core = "/api/v1/namespaces/default";
        let service = |spec: Value| {
            let mut spec = spec;
            spec["ports"] = json!([{"port": 80}]);
            (format!("{core}/services"), json!({"apiVersion": "v1", "kind": "Service", "spec": spec}))
        };
        let secret = |certificate: &str, key: &str| {
            let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                "stringData": {"tls.crt": certificate, "tls.key": key}});
            (format!("{core}/secrets"), object)
        };
        let volume = json!({"name": "p", "projected": {"sources": [{}]}});
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": [volume]});
        let pod = (format!("{core}/pods"), json!({"apiVersion": "v1", "kind": "Pod", "spec": spec}));
        let labels = json!({"app": "a"});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}});
        let deployment = ("/apis/apps/v1/namespaces/default/deployments".to_owned(), deployment);
        let projected = "volume \"p\" (Projected) has no sources provided";
        let cases = [
            // A Service is judged with its defaults.
            (service(json!({"clusterIP": "None"})), None),
            (service(json!({"type": "ClusterIP", "clusterIP": "None"})), None),
            (
                service(json!({"clusterIP": "None", "sessionAffinity": "ClientIP"})),
                Some("spec.SessionAffinity is ignored for headless services"),
            ),
            (
                service(json!({"clusterIP": "None", "loadBalancerIP": "10.1.1.1"})),
                Some("spec.loadBalancerIP is ignored for headless services"),
            ),
            (
                service(json!({"clusterIP": "None", "externalIPs": ["10.1.1.1"]})),
                Some("spec.externalIPs is ignored for headless services"),
            ),
            (secret("x", "y"), Some("tls: failed to find any PEM data in certificate input")),
            (pod, Some(projected)),
            (deployment, Some(projected)),
        ];
        for (number, ((path, mut object), wanted)) in cases.into_iter().enumerate() {
            object["metadata"] = json!({"name": format!("n{number}")});
            let reply = send(cluster, "POST", &path, &object).await;
            assert_eq!(reply.code, 201, "{object}: {}", reply.json());
            let wanted: Vec<String> = wanted.iter().map(|text| format!("299 - {text:?}")).collect();
            assert_eq!(warnings(&reply), wanted, "{object}");
        }
    });
}

#[test]
fn an_apply_configuration_without_a_name_creates_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = "/api/v1/namespaces/default/configmaps/a";
        for metadata in [json!({}), json!({"generateName": "a"})] {
            let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            let refused = send(cluster, "PATCH", &format!("{path}?fieldManager=one"), &config).await;
            let text = "the name of the object (a based on URL) was undeterminable: name must be provided";
            assert_eq!((refused.code, refused.text("/message")), (400, text.into()));
        }
        assert_eq!(cluster.rest().call("GET", path, "").await.code, 404);
    });
}
