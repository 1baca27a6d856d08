//! Kinds of all groups except core, `apps` and `batch` over REST: validation messages, defaults, write paths,
//! and the objects that every cluster has from its start.

use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";

async fn post(cluster: &Cluster, path: &str, body: Value) -> Reply {
    cluster.rest().call("POST", path, body.to_string()).await
}

async fn merge(cluster: &Cluster, path: &str, body: Value) -> Reply {
    cluster.rest().call_as("PATCH", path, MERGE, body.to_string()).await
}

async fn get(cluster: &Cluster, path: &str) -> Value {
    let reply = cluster.rest().call("GET", path, "").await;
    assert_eq!(reply.code, 200, "{path}: {:?}", reply.body);
    reply.json()
}

#[track_caller]
fn refused(reply: &Reply, message: &str) {
    assert_eq!(reply.code, 422, "{:?}", reply.body);
    assert!(reply.text("/message").contains(message), "{}", reply.text("/message"));
}

#[test]
fn invalid_objects_of_other_groups_are_refused_with_kubernetes_messages() {
    let networking = "/apis/networking.k8s.io/v1";
    let cases = [
        (
            format!("{networking}/namespaces/default/ingresses"),
            json!({ "metadata": { "name": "i" }, "spec": { "rules": [{ "host": "1.2.3.4" }] } }),
            "Ingress.networking.k8s.io \"i\" is invalid: spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
        ),
        (
            format!("{networking}/servicecidrs"),
            json!({ "metadata": { "name": "c" }, "spec": { "cidrs": ["10.0.0.1/8"] } }),
            "spec.cidrs[0]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses".to_owned(),
            json!({ "metadata": { "name": "c" }, "spec": { "selectors": [{}] } }),
            "spec.selectors[0].cel: Required value",
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices".to_owned(),
            json!({ "metadata": { "name": "x" }, "spec": { "version": "v1", "group": "g", "groupPriorityMinimum": 1, "versionPriority": 1 } }),
            "must be `spec.version+\".\"+spec.group`: \"v1.g\"",
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(),
            json!({ "spec": { "resourceAttributes": { "verb": "get" } } }),
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations".to_owned(),
            json!({ "metadata": { "name": "l" }, "spec": { "type": "Exempt" } }),
            "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'",
        ),
    ];
    simulate(Setup::api_alone(), async |cluster| {
        for (path, body, message) in cases {
            refused(&post(cluster, &path, body).await, message);
        }
    });
}

/// A certificate request of the user jane, signed with Ed25519.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHT01FSUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEFxTUFVR0F5dGxjQU1oQUVtSGRFMG1ZSzJEL2lVWQpaZHFjeGg5TnIxRTEvdWJaOEI2b3ZDK0J6Ym9ib0FBd0JRWURLMlZ3QTBFQTdnajBsQ1FCUmFPall4Qm05OUIzCis4MWIzTlIvVXRpbWoxSFlVejNrVTQ4ODdPYnZlQ25hUHBpTS9HVHNsejRZWGdJRVowTyt0UXlFbXcrdWpBbFcKRGc9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

#[test]
fn a_signing_request_records_its_user_and_is_approved_by_its_subresource() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let spec = json!({ "request": REQUEST, "signerName": "a.b/c", "usages": ["client auth"],
            "username": "impostor", "groups": ["system:masters"] });
        let body = json!({ "metadata": { "name": "c" }, "spec": spec }).to_string();
        let bob = UserInfo::new("bob", ["system:masters", "staff"]);
        let made = cluster.rest_as(bob).call("POST", path, body).await;
        assert_eq!((made.code, made.text("/spec/username")), (201, "bob".to_owned()), "{:?}", made.body);
        assert_eq!(made.json()["spec"]["groups"], json!(["system:masters", "staff", "system:authenticated"]));
        let approved =
            json!({ "status": { "conditions": [{ "type": "Approved", "status": "True", "reason": "r" }] } });
        let wrong = merge(cluster, &format!("{path}/c/status"), approved.clone()).await;
        refused(&wrong, "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"");
        assert_eq!(merge(cluster, &format!("{path}/c/approval"), approved).await.code, 200);
        let kept = merge(cluster, &format!("{path}/c"), json!({ "spec": { "signerName": "x.y/z" } })).await;
        assert_eq!((kept.code, kept.text("/spec/signerName")), (200, "a.b/c".to_owned()));
    });
}

#[test]
fn device_claims_are_immutable_and_have_a_status_subresource() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
        let devices = json!({ "requests": [{ "name": "a", "exactly": { "deviceClassName": "x" } }] });
        let claim = json!({ "metadata": { "name": "c" }, "spec": { "devices": devices }, "status": { "reservedFor": [] } });
        let made = post(cluster, path, claim).await;
        assert_eq!(made.code, 201, "{:?}", made.body);
        let exactly = &made.json()["spec"]["devices"]["requests"][0]["exactly"];
        assert_eq!((&exactly["allocationMode"], &exactly["count"]), (&json!("ExactCount"), &json!(1)));
        let other = json!({ "spec": { "devices": { "requests": [] } } });
        refused(&merge(cluster, &format!("{path}/c"), other).await, "field is immutable");
        let result = json!({ "request": "a", "driver": "d", "pool": "p", "device": "e" });
        let status = json!({ "status": { "allocation": { "devices": { "results": [result] } } } });
        assert_eq!(merge(cluster, &format!("{path}/c/status"), status).await.code, 200);
        let gone = cluster.rest().call("DELETE", &format!("{path}/c"), "").await;
        assert_eq!(
            (gone.code, gone.text("/kind")),
            (200, "ResourceClaim".to_owned()),
            "the object is returned"
        );
    });
}

#[test]
fn built_in_api_services_exist_and_a_new_aggregated_one_has_an_unknown_condition() {
    simulate(Setup::api_alone(), async |cluster| {
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let list = get(cluster, path).await;
        let own = list["items"].as_array().unwrap();
        assert!(own.iter().all(|api| api["status"]["conditions"][0]["status"] == "True"), "{own:?}");
        let body = json!({ "metadata": { "name": "v1.g.h" }, "spec": { "group": "g.h", "version": "v1",
            "groupPriorityMinimum": 1000, "versionPriority": 10, "service": { "namespace": "n", "name": "s" } } });
        let made = post(cluster, path, body).await;
        assert_eq!((made.code, &made.json()["spec"]["service"]["port"]), (201, &json!(443)));
        assert_eq!(made.json()["status"], json!({}));
    });
}

#[test]
fn a_second_apiserver_on_the_storage_rewrites_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        let before = get(cluster, "/api/v1/namespaces/default/endpoints/kubernetes").await;
        let address = &before["subsets"][0];
        assert_eq!(address["addresses"], json!([{ "ip": "192.0.2.1" }]));
        assert_eq!(address["ports"], json!([{ "name": "https", "port": 6443, "protocol": "TCP" }]));
        let trust = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        assert_eq!(get(cluster, trust).await["data"]["client-ca-file"], "test CA");
        let network = get(cluster, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await;
        assert_eq!(network["spec"]["cidrs"], json!(["10.96.0.0/12"]));
        let revision = cluster.store().revision();
        drop(cluster.another_apiserver().await);
        assert_eq!(cluster.store().revision(), revision, "unchanged objects are not rewritten");
        let after = get(cluster, "/api/v1/namespaces/default/endpoints/kubernetes").await;
        assert_eq!(after, before);
    });
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

#[test]
fn service_addresses_and_node_ports_are_unique() {
    simulate(Setup::api_alone(), async |cluster| {
        let port =
            |port: i64, node: i64| json!({ "name": format!("p{port}"), "port": port, "nodePort": node });
        let first = service(
            "a",
            json!({ "type": "NodePort", "clusterIP": "10.96.0.10", "ports": [port(80, 30080)] }),
        );
        assert_eq!(post(cluster, SERVICES, first).await.code, 201);
        let same_address = post(
            cluster,
            SERVICES,
            service("b", json!({ "clusterIP": "10.96.0.10", "ports": [port(80, 0)] })),
        )
        .await;
        refused(
            &same_address,
            "spec.clusterIPs: Invalid value: [\"10.96.0.10\"]: failed to allocate IP 10.96.0.10: provided IP is already allocated",
        );
        let elsewhere = post(
            cluster,
            SERVICES,
            service("b", json!({ "clusterIP": "10.0.0.10", "ports": [port(80, 0)] })),
        )
        .await;
        refused(
            &elsewhere,
            "failed to allocate IP 10.0.0.10: the provided network does not match the current range",
        );
        let taken = service("b", json!({ "type": "NodePort", "ports": [port(79, 0), port(80, 30080)] }));
        let taken = post(cluster, SERVICES, taken).await;
        refused(&taken, "spec.ports[1].nodePort: Invalid value: 30080: provided port is already allocated");
        let outside = service("b", json!({ "type": "NodePort", "ports": [port(80, 80)] }));
        refused(
            &post(cluster, SERVICES, outside).await,
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        );
        cluster.rest().call("DELETE", &format!("{SERVICES}/a"), "").await;
        let again = service(
            "b",
            json!({ "type": "NodePort", "clusterIP": "10.96.0.10", "ports": [port(80, 30080)] }),
        );
        assert_eq!(post(cluster, SERVICES, again).await.code, 201, "a released address is free");
    });
}

#[test]
fn a_port_with_two_protocols_shares_a_node_port_and_load_balancers_may_omit_it() {
    simulate(Setup::api_alone(), async |cluster| {
        let over =
            |protocol: &str| json!({ "name": protocol.to_lowercase(), "port": 53, "protocol": protocol });
        let dns = service("dns", json!({ "type": "NodePort", "ports": [over("TCP"), over("UDP")] }));
        let made = post(cluster, SERVICES, dns).await.json();
        let ports = &made["spec"]["ports"];
        assert!(ports[0]["nodePort"].as_i64().is_some_and(|port| port >= 30000), "{made}");
        assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
        let spec = json!({ "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
            "externalTrafficPolicy": "Local", "ports": [over("TCP")] });
        let made = post(cluster, SERVICES, service("lb", spec)).await.json();
        assert!(made["spec"]["ports"][0]["nodePort"].is_null(), "{made}");
        assert!(made["spec"]["healthCheckNodePort"].as_i64().is_some_and(|port| port >= 30000), "{made}");
    });
}

/// Keeps the condition of Kubernetes' apiservers, with its message; `kubectl get flowschemas` prints it as
/// MISSINGPL.
#[test]
fn a_flow_schema_reports_whether_its_priority_level_exists() {
    simulate(Setup::api_alone(), async |cluster| {
        let group = "/apis/flowcontrol.apiserver.k8s.io/v1";
        let stored = get(cluster, &format!("{group}/flowschemas")).await;
        let schemas = stored["items"].as_array().unwrap();
        assert!(!schemas.is_empty());
        for schema in schemas {
            let condition = &schema["status"]["conditions"][0];
            assert_eq!((&condition["type"], &condition["status"]), (&json!("Dangling"), &json!("False")));
        }
        let schema = json!({"metadata": {"name": "mine"}, "spec": {"matchingPrecedence": 500, "priorityLevelConfiguration": {"name": "gold"}}});
        assert_eq!(post(cluster, &format!("{group}/flowschemas"), schema).await.code, 201);
        let condition = async || {
            let schema = get(cluster, &format!("{group}/flowschemas/mine")).await;
            let condition = &schema["status"]["conditions"][0];
            [&condition["status"], &condition["message"]].map(|text| text.as_str().unwrap().to_owned())
        };
        let about = "This FlowSchema references the PriorityLevelConfiguration object named \"gold\"";
        let missing = ["True".to_owned(), format!("{about} but there is no such object")];
        assert_eq!(condition().await, missing);
        let limited = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}});
        let level = json!({"metadata": {"name": "gold"}, "spec": {"type": "Limited", "limited": limited}});
        let levels = format!("{group}/prioritylevelconfigurations");
        assert_eq!(post(cluster, &levels, level).await.code, 201);
        assert_eq!(condition().await, ["False".to_owned(), format!("{about} and it exists")]);
        let revision = cluster.store().revision().0;
        let labelled =
            merge(cluster, &format!("{levels}/gold"), json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(
            (labelled.code, cluster.store().revision().0),
            (200, revision + 1),
            "unchanged objects are not written"
        );
        assert_eq!(cluster.rest().call("DELETE", &format!("{levels}/gold"), "").await.code, 200);
        assert_eq!(condition().await, missing);
    });
}
