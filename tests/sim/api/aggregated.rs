//! Aggregated API servers: APIServices with a Service, their conditions, proxied requests, and merged
//! documents. The API servers run in this process; `aggregated_server` tests them over the network.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const WARDLE: &str = "/apis/wardle.example.com/v1alpha1";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn reply(body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

fn not_found() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// An API server with legacy discovery only. It answers other requests with the request's path and user.
async fn wardle(request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let flunder = json!({ "x-kubernetes-group-version-kind": [], "properties": { "meta": { "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" } } });
    match parts.uri.path() {
        WARDLE => reply(
            &json!({ "kind": "APIResourceList", "groupVersion": "wardle.example.com/v1alpha1", "resources": [
            { "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                "verbs": ["create", "get", "list"], "shortNames": ["fl"] }] }),
        ),
        "/openapi/v3" => reply(&json!({ "paths": {
            "apis/wardle.example.com/v1alpha1": { "serverRelativeURL": "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=F00D" } } })),
        "/openapi/v2" => reply(&json!({ "swagger": "2.0",
            "paths": { format!("{WARDLE}/flunders"): { "get": { "schema": { "$ref": "#/definitions/Flunder" } } }, "/version": {} },
            "definitions": { "Flunder": flunder, "Unused": {},
                "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": { "description": "in other words" } } })),
        path if path.starts_with(WARDLE) || path.starts_with("/openapi/v3/apis/") => {
            let names = [
                "x-remote-user",
                "x-remote-group",
                "x-remote-extra-scopes",
                "authorization",
                "x-forwarded-for",
            ];
            let said = names.map(|name| {
                let values = parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
                (name.to_owned(), json!(values.collect::<Vec<_>>()))
            });
            reply(
                &json!({ "method": parts.method.as_str(), "path": parts.uri.to_string(), "headers": Value::Object(said.into_iter().collect()),
                "body": String::from_utf8_lossy(&body) }),
            )
        }
        _ => not_found(),
    }
}

fn api_service(group: &str, version: &str, priority: u32) -> Value {
    json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": format!("{version}.{group}") },
        "spec": { "group": group, "version": version, "groupPriorityMinimum": priority, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": { "namespace": "default", "name": "wardle" } } })
}

fn service() -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "wardle", "namespace": "default" },
        "spec": { "ports": [{ "name": "https", "port": 443 }] } })
}

fn slice(address: Option<&str>) -> Value {
    let endpoints: Vec<Value> =
        address.into_iter().map(|address| json!({ "addresses": [address] })).collect();
    json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "wardle", "namespace": "default", "labels": { "kubernetes.io/service-name": "wardle" } },
        "ports": [{ "name": "https", "port": 8443 }], "endpoints": endpoints })
}

async fn call(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.rest().call(method, path, body).await
}

async fn get(cluster: &Cluster, path: &str) -> Value {
    call(cluster, "GET", path, &Value::Null).await.json()
}

async fn create(cluster: &Cluster, path: &str, object: &Value) {
    let made = call(cluster, "POST", path, object).await;
    assert_eq!(made.code, 201, "{}", made.json());
}

/// Waits until the condition of an APIService has this reason, and returns the condition.
async fn condition(cluster: &Cluster, name: &str, reason: &str) -> Value {
    let mut seen = Value::Null;
    for _ in 0..200 {
        seen = get(cluster, &format!("{SERVICES}/{name}")).await["status"]["conditions"][0].clone();
        if seen["reason"] == reason {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{name} has no condition {reason}, but {seen}");
}

/// Registers an API server and waits until it is available.
async fn serve(cluster: &Cluster) {
    cluster.webhooks().serve_api("default/wardle", wardle);
    create(cluster, "/api/v1/namespaces/default/services", &service()).await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    create(cluster, slices, &slice(Some("192.0.2.7"))).await;
    create(cluster, SERVICES, &api_service("wardle.example.com", "v1alpha1", 2000)).await;
    condition(cluster, "v1alpha1.wardle.example.com", "Passed").await;
}

async fn aggregated(cluster: &Cluster) -> Vec<Value> {
    let request = Request::get("/apis").header("accept", AGGREGATED).body(Default::default()).unwrap();
    cluster.rest().send(request).await.json()["items"].as_array().unwrap().clone()
}

#[test]
fn api_service_conditions_name_the_missing_part_until_its_server_answers() {
    simulate(Setup::api_alone(), async |cluster| {
        create(cluster, SERVICES, &api_service("wardle.example.com", "v1alpha1", 2000)).await;
        let name = "v1alpha1.wardle.example.com";
        let missing = condition(cluster, name, "ServiceNotFound").await;
        assert_eq!(
            (&missing["status"], &missing["message"]),
            (&json!("False"), &json!("service/wardle in \"default\" is not present"))
        );
        let refused = call(cluster, "GET", &format!("{WARDLE}/flunders"), &Value::Null).await;
        assert_eq!((refused.code, &*refused.body), (503, b"service unavailable\n".as_slice()));
        create(cluster, "/api/v1/namespaces/default/services", &service()).await;
        condition(cluster, name, "EndpointsNotFound").await;
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        create(cluster, slices, &slice(None)).await;
        condition(cluster, name, "MissingEndpoints").await;
        let changed = call(cluster, "PUT", &format!("{slices}/wardle"), &slice(Some("192.0.2.7"))).await;
        assert_eq!(changed.code, 200, "{}", changed.json());
        let failed = condition(cluster, name, "FailedDiscoveryCheck").await;
        let url = "https://wardle.default.svc:443/apis/wardle.example.com/v1alpha1";
        let wanted = format!(
            "failing or missing response from {url}: Get \"{url}\": dial tcp 192.0.2.1:443: connect: connection refused"
        );
        assert_eq!(failed["message"], wanted);
        cluster.webhooks().serve_api("default/wardle", wardle);
        let passed = condition(cluster, name, "Passed").await;
        assert_eq!((&passed["status"], &passed["message"]), (&json!("True"), &json!("all checks passed")));
        let listed = call(cluster, "GET", &format!("{WARDLE}/flunders"), &Value::Null).await;
        assert_eq!(listed.code, 200);
        cluster.webhooks().end_api("default/wardle");
        condition(cluster, name, "FailedDiscoveryCheck").await;
        let removed = call(cluster, "DELETE", &format!("{SERVICES}/{name}"), &Value::Null).await;
        assert_eq!(removed.code, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let gone = call(cluster, "GET", &format!("{WARDLE}/flunders"), &Value::Null).await;
        assert_eq!((gone.code, &*gone.body), (404, b"404 page not found\n".as_slice()));
    });
}

#[test]
fn a_condition_that_another_server_rewrites_is_restored_once_in_thirty_seconds() {
    simulate(Setup::api_alone(), async |cluster| {
        create(cluster, SERVICES, &api_service("wardle.example.com", "v1alpha1", 2000)).await;
        let name = "v1alpha1.wardle.example.com";
        condition(cluster, name, "ServiceNotFound").await;
        let path = format!("{SERVICES}/{name}/status");
        let opposite = json!({ "type": "Available", "status": "True", "reason": "Passed", "message": "all checks passed",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let mut restored = 0;
        for _ in 0..120 {
            let object = get(cluster, &format!("{SERVICES}/{name}")).await;
            if object["status"]["conditions"][0]["status"] == "False" {
                restored += 1;
                let patch = json!({ "status": { "conditions": [opposite.clone()] } });
                let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
                let patched = cluster.rest().send(request.body(patch.to_string().into()).unwrap()).await;
                assert_eq!(patched.code, 200, "{}", patched.json());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // The first one is the initial condition; the controller then restores it every thirty seconds.
        assert!((4..=5).contains(&restored), "{restored}");
    });
}

#[test]
fn requests_are_proxied_unchanged_and_only_the_front_proxy_names_their_user() {
    simulate(Setup::api_alone(), async |cluster| {
        serve(cluster).await;
        let mut user = UserInfo::new("jane", ["system:masters"]);
        user.extra.insert("scopes".into(), vec!["a".into()]);
        let request = Request::post(format!("{WARDLE}/namespaces/default/flunders?dryRun=All"))
            .header("x-remote-user", "mallory")
            .header("x-remote-group", "wheel")
            .header("content-type", "application/json")
            .body(http_body_util::Full::from("{\"kind\":\"Flunder\"}"))
            .unwrap();
        let seen = cluster.rest_as(user).send(request).await.json();
        assert_eq!(seen["method"], "POST");
        assert_eq!(seen["body"], "{\"kind\":\"Flunder\"}");
        assert!(
            seen["path"].as_str().unwrap().ends_with("/namespaces/default/flunders?dryRun=All"),
            "{seen}"
        );
        let wanted = json!({ "x-remote-user": ["jane"], "x-remote-group": ["system:masters", "system:authenticated"],
            "x-remote-extra-scopes": ["a"], "authorization": [], "x-forwarded-for": [] });
        assert_eq!(seen["headers"], wanted);
        // Authorization precedes proxying.
        let unprivileged = cluster.rest_as(UserInfo::new("unprivileged", ["none"]));
        let refused = unprivileged.call("GET", &format!("{WARDLE}/namespaces/default/flunders"), "").await;
        assert_eq!(refused.code, 403);
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(
            message.starts_with(
                "flunders.wardle.example.com is forbidden: User \"unprivileged\" cannot list resource"
            ),
            "{message}"
        );
    });
}

#[test]
fn discovery_and_openapi_merge_aggregated_groups_by_priority() {
    simulate(Setup::api_alone(), async |cluster| {
        serve(cluster).await;
        let groups = get(cluster, "/apis").await["groups"].as_array().unwrap().clone();
        let names: Vec<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
        assert_eq!(
            (names[0], names[1], *names.last().unwrap()),
            ("apiregistration.k8s.io", "apps", "wardle.example.com")
        );
        let group = get(cluster, "/apis/wardle.example.com").await;
        assert_eq!(group["preferredVersion"]["groupVersion"], "wardle.example.com/v1alpha1");
        let items = aggregated(cluster).await;
        let wardle = items.last().unwrap();
        assert_eq!(wardle["metadata"]["name"], "wardle.example.com");
        let version = &wardle["versions"][0];
        assert_eq!(
            (&version["freshness"], &version["resources"][0]["resource"]),
            (&json!("Current"), &json!("flunders"))
        );
        assert_eq!(version["resources"][0]["responseKind"]["kind"], "Flunder");
        let index = get(cluster, "/openapi/v3").await;
        let entry = &index["paths"]["apis/wardle.example.com/v1alpha1"]["serverRelativeURL"];
        assert_eq!(entry, "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=F00D");
        let document = get(cluster, entry.as_str().unwrap()).await;
        assert!(
            document["path"].as_str().unwrap().ends_with("v1alpha1?hash=F00D"),
            "the document is that server's: {document}"
        );
        let swagger = get(cluster, "/openapi/v2").await;
        assert!(
            swagger["paths"][format!("{WARDLE}/flunders")].is_object()
                && swagger["paths"]["/api/v1/pods"].is_object()
        );
        let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let (ours, theirs) = (&swagger["definitions"][meta], &swagger["definitions"][format!("{meta}_v2")]);
        assert!(ours["properties"].is_object() && theirs["description"] == "in other words");
        let named = &swagger["definitions"]["Flunder"]["properties"]["meta"]["$ref"];
        assert_eq!(named, &json!(format!("#/definitions/{meta}_v2")));
        assert!(swagger["definitions"]["Unused"].is_null());
        // Documents still list an unavailable server, marked as stale.
        cluster.webhooks().end_api("default/wardle");
        condition(cluster, "v1alpha1.wardle.example.com", "FailedDiscoveryCheck").await;
        let stale = &aggregated(cluster).await.last().unwrap()["versions"][0].clone();
        assert_eq!(
            (&stale["freshness"], &stale["resources"][0]["resource"]),
            (&json!("Stale"), &json!("flunders"))
        );
        assert_eq!(get(cluster, "/apis/wardle.example.com").await["name"], "wardle.example.com");
    });
}

fn definition() -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "flunders.wardle.example.com" },
        "spec": { "group": "wardle.example.com", "scope": "Namespaced", "names": { "plural": "flunders", "kind": "Flunder" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

#[test]
fn custom_groups_have_api_services_that_follow_their_definitions() {
    simulate(Setup::api_alone(), async |cluster| {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        create(cluster, definitions, &definition()).await;
        let name = "v1alpha1.wardle.example.com";
        let local = condition(cluster, name, "Local").await;
        assert_eq!(local["status"], "True");
        let made = get(cluster, &format!("{SERVICES}/{name}")).await;
        assert_eq!(made["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
        assert_eq!(
            (&made["spec"]["groupPriorityMinimum"], &made["spec"]["versionPriority"]),
            (&json!(1000), &json!(100))
        );
        // A deleted APIService is recreated while the kind is served, and is deleted with the kind.
        call(cluster, "DELETE", &format!("{SERVICES}/{name}"), &Value::Null).await;
        let again = condition(cluster, name, "Local").await;
        assert_eq!(again["status"], "True");
        call(cluster, "DELETE", &format!("{definitions}/flunders.wardle.example.com"), &Value::Null).await;
        for _ in 0..200 {
            if call(cluster, "GET", &format!("{SERVICES}/{name}"), &Value::Null).await.code == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the APIService of a deleted group still exists");
    });
}

#[test]
fn an_api_service_created_by_a_user_takes_precedence_over_a_definition() {
    simulate(Setup::api_alone(), async |cluster| {
        serve(cluster).await;
        create(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await;
        let flunders = format!("{WARDLE}/namespaces/default/flunders");
        let seen = get(cluster, &flunders).await;
        assert_eq!(seen["method"], "GET", "the other server answers: {seen}");
        let listed = get(cluster, &format!("{SERVICES}/v1alpha1.wardle.example.com")).await;
        assert!(listed["metadata"]["labels"].is_null() && listed["spec"]["service"].is_object());
        call(cluster, "DELETE", &format!("{SERVICES}/v1alpha1.wardle.example.com"), &Value::Null).await;
        condition(cluster, "v1alpha1.wardle.example.com", "Local").await;
        assert_eq!(get(cluster, &flunders).await["kind"], "FlunderList", "now it is this server's own");
    });
}
