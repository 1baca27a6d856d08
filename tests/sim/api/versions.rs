//! Custom kinds with several versions, converted by a webhook: which objects the webhook converts, and what
//! reads, writes and watches return. Conversion reviews have their tests in the crate `api`.

use kstore_tests::webhooks::reviewed;
use kstore_tests::{Cluster, Reply, Setup, Webhooks, simulate};
use serde_json::{Value, json};

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const V1: &str = "/apis/net.test/v1/namespaces/default/doors";
pub(super) const V2: &str = "/apis/net.test/v2/namespaces/default/doors";

pub(super) async fn call(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.rest().call(method, path, body).await
}

/// A definition in which `v1` has `hostPort`, and `v2` has `host` and `port`; `v1` is stored.
pub(super) fn definition() -> Value {
    let version = |name: &str, fields: &[&str]| {
        let fields: serde_json::Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "doors.net.test"}, "spec": {"group": "net.test", "scope": "Namespaced",
            "names": {"plural": "doors", "kind": "Door"},
            "versions": [version("v1", &["hostPort"]), version("v2", &["host", "port"])],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": Webhooks::client_config("/convert")}}}})
}

fn converted(desired: &Value, object: &Value) -> Value {
    let mut object = object.clone();
    let members = object.as_object_mut().unwrap();
    members.insert("apiVersion".into(), desired.clone());
    if desired == "net.test/v2" {
        let both = members.remove("hostPort").unwrap_or_default();
        let (host, port) = both.as_str().unwrap_or_default().split_once(':').unwrap_or_default();
        members.insert("host".into(), json!(host));
        members.insert("port".into(), json!(port));
    } else {
        let part = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let both = format!("{}:{}", part("host"), part("port"));
        members.remove("host");
        members.remove("port");
        members.insert("hostPort".into(), json!(both));
    }
    object
}

pub(super) fn convert(review: &Value) -> Value {
    let request = &review["request"];
    let objects = request["objects"].as_array().unwrap().iter();
    let objects: Vec<Value> =
        objects.map(|object| converted(&request["desiredAPIVersion"], object)).collect();
    let mut answer = reviewed(review, json!({"result": {"status": "Success"}, "convertedObjects": objects}));
    answer["kind"] = json!("ConversionReview");
    answer
}

fn door(name: &str) -> Value {
    json!({"apiVersion": "net.test/v1", "kind": "Door", "metadata": {"name": name}, "hostPort": "here:80"})
}

async fn define(cluster: &Cluster) {
    cluster.webhooks().serve("/convert", convert);
    let made = call(cluster, "POST", DEFINITIONS, &definition()).await;
    assert_eq!(made.code, 201, "{}", made.json());
}

async fn create(cluster: &Cluster, name: &str) {
    let made = call(cluster, "POST", V1, &door(name)).await;
    assert_eq!(made.code, 201, "{}", made.json());
}

fn calls(cluster: &Cluster) -> Vec<usize> {
    let calls = cluster.webhooks().take_calls();
    calls.iter().map(|(_, review)| review["request"]["objects"].as_array().unwrap().len()).collect()
}

#[test]
fn objects_are_converted_once_to_the_requested_version() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster).await;
        for name in ["a", "b", "c"] {
            create(cluster, name).await;
        }
        assert!(calls(cluster).is_empty(), "nothing is converted for the stored version");
        let listed = call(cluster, "GET", V2, &Value::Null).await.json();
        let hosts: Vec<&Value> =
            listed["items"].as_array().unwrap().iter().map(|item| &item["host"]).collect();
        assert_eq!(hosts, ["here", "here", "here"], "{listed}");
        assert_eq!(calls(cluster), [3], "a list is converted by one call");
        let one = call(cluster, "GET", &format!("{V2}/a"), &Value::Null).await.json();
        assert_eq!(
            (&one["host"], &one["port"], &one["apiVersion"]),
            (&json!("here"), &json!("80"), &json!("net.test/v2"))
        );
        assert!(calls(cluster).is_empty(), "converted objects are cached");
    });
}

#[test]
fn objects_are_written_in_any_version_and_stored_in_the_storage_version() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster).await;
        let other = json!({"apiVersion": "net.test/v2", "kind": "Door", "metadata": {"name": "d"}, "host": "there", "port": "81"});
        let made = call(cluster, "POST", V2, &other).await;
        assert_eq!((made.code, &made.json()["host"]), (201, &json!("there")), "{}", made.json());
        let stored = call(cluster, "GET", &format!("{V1}/d"), &Value::Null).await.json();
        assert_eq!(stored["hostPort"], "there:81");
        let patch = json!({"port": "82"}).to_string();
        let patched =
            cluster.rest().call_as("PATCH", &format!("{V2}/d"), "application/merge-patch+json", patch).await;
        assert_eq!((patched.code, &patched.json()["port"]), (200, &json!("82")), "{}", patched.json());
        let stored = call(cluster, "GET", &format!("{V1}/d"), &Value::Null).await.json();
        assert_eq!(stored["hostPort"], "there:82");
        assert_eq!(call(cluster, "DELETE", &format!("{V2}/d"), &Value::Null).await.code, 200);
    });
}

/// An object without its resource version and managed fields, which every write changes.
async fn content(cluster: &Cluster, path: &str) -> Value {
    let reply = call(cluster, "GET", path, &Value::Null).await;
    assert_eq!(reply.code, 200, "{path}: {}", reply.json());
    let mut object = reply.json();
    for member in ["resourceVersion", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(member);
    }
    object
}

#[test]
fn conversion_to_a_version_and_back_is_the_identity_if_the_converter_is() {
    for seed in 0..4 {
        simulate(Setup { seed, ..Setup::api_alone() }, async |cluster| {
            define(cluster).await;
            let rng = &cluster.nondet().rng;
            let text = |longest: u64| -> String {
                (0..=rng.below(longest))
                    .map(|_| char::from(b'a' + u8::try_from(rng.below(26)).unwrap()))
                    .collect()
            };
            for n in 0..25 {
                let (first, second) = if rng.below(2) == 0 { (V1, V2) } else { (V2, V1) };
                let (host, port) = (text(40), text(5));
                let mut object = json!({"kind": "Door", "metadata": {"name": format!("d{n}"),
                    "labels": {text(8): text(8)}, "annotations": {text(8): text(200)}}});
                match first {
                    V1 => object["hostPort"] = json!(format!("{host}:{port}")),
                    _ => (object["host"], object["port"]) = (json!(host), json!(port)),
                }
                object["apiVersion"] = json!(if first == V1 { "net.test/v1" } else { "net.test/v2" });
                let made = call(cluster, "POST", first, &object).await;
                assert_eq!(made.code, 201, "{}", made.json());
                let (there, back) = (format!("{second}/d{n}"), format!("{first}/d{n}"));
                let (before, converted) = (content(cluster, &back).await, content(cluster, &there).await);
                // Writing back what was read in another version changes nothing in any version.
                let read = call(cluster, "GET", &there, &Value::Null).await.json();
                let put = call(cluster, "PUT", &there, &read).await;
                assert_eq!(put.code, 200, "{}", put.json());
                assert_eq!(content(cluster, &back).await, before);
                assert_eq!(content(cluster, &there).await, converted);
            }
        });
    }
}

#[test]
fn watch_events_are_in_the_requested_version() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster).await;
        create(cluster, "a").await;
        let rest = cluster.rest();
        let path = format!("{V2}?watch=true&timeoutSeconds=5");
        let (watched, ()) = tokio::join!(rest.call("GET", &path, ""), async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            create(cluster, "b").await;
        });
        let text = String::from_utf8_lossy(&watched.body).into_owned();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let seen: Vec<(&Value, &Value)> = events
            .iter()
            .map(|event| (&event["object"]["metadata"]["name"], &event["object"]["host"]))
            .collect();
        assert_eq!(seen, [(&json!("a"), &json!("here")), (&json!("b"), &json!("here"))]);
    });
}

#[test]
fn a_webhook_that_fails_leaves_the_stored_version_readable() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster).await;
        create(cluster, "a").await;
        cluster.webhooks().serve("/convert", |review| {
            let mut answer = reviewed(review, json!({"result": {"status": "Failure", "message": "no idea"}}));
            answer["kind"] = json!("ConversionReview");
            answer
        });
        for _ in 0..2 {
            let refused = call(cluster, "GET", &format!("{V2}/a"), &Value::Null).await;
            assert_eq!(refused.code, 500);
            let text = refused.json()["message"].as_str().unwrap().to_owned();
            assert!(text.contains("conversion webhook for net.test/v1, Kind=Door failed: no idea"), "{text}");
        }
        let refused = call(cluster, "GET", V2, &Value::Null).await;
        assert_eq!(refused.code, 500, "{}", refused.json());
        assert_eq!(call(cluster, "GET", &format!("{V1}/a"), &Value::Null).await.code, 200);
        cluster.webhooks().serve("/convert", convert);
        assert_eq!(call(cluster, "GET", &format!("{V2}/a"), &Value::Null).await.code, 200);
    });
}

/// Configures a webhook of each kind, and a policy, that name only the version v2.
async fn admit_in_v2(cluster: &Cluster) {
    let group = "/apis/admissionregistration.k8s.io/v1";
    for (kind, path) in
        [("MutatingWebhookConfiguration", "/mutate"), ("ValidatingWebhookConfiguration", "/validate")]
    {
        cluster.webhooks().serve(path, |review| reviewed(review, json!({"allowed": true})));
        let hook = json!({"name": "doors.hooks.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": Webhooks::client_config(path), "rules": [
                {"operations": ["*"], "apiGroups": ["net.test"], "apiVersions": ["v2"], "resources": ["doors"]}]});
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "doors"}, "webhooks": [hook]});
        let made = call(cluster, "POST", &format!("{group}/{}s", kind.to_lowercase()), &configuration).await;
        assert_eq!(made.code, 201, "{}", made.json());
    }
    let policy = json!({"metadata": {"name": "doors"}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"operations": ["CREATE", "UPDATE"], "apiGroups": ["net.test"], "apiVersions": ["v2"], "resources": ["doors"]}]},
        "validations": [{"expression": "object.port != '13'"}]}});
    let binding = json!({"metadata": {"name": "doors"}, "spec": {"policyName": "doors", "validationActions": ["Deny"]}});
    for (plural, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        let made = call(cluster, "POST", &format!("{group}/{plural}"), &object).await;
        assert_eq!(made.code, 201, "{}", made.json());
    }
}

/// The number of calls of each webhook since the last time: mutating, validating.
fn reviews(cluster: &Cluster) -> (usize, usize) {
    let calls = cluster.webhooks().take_calls();
    let count = |path: &str| calls.iter().filter(|(called, _)| called.starts_with(path)).count();
    (count("/mutate"), count("/validate"))
}

#[test]
fn webhooks_and_policies_of_another_version_are_asked_once_about_each_write() {
    simulate(Setup::api_alone(), async |cluster| {
        define(cluster).await;
        admit_in_v2(cluster).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let began = tokio::time::Instant::now();
        create(cluster, "a").await;
        assert_eq!(reviews(cluster), (1, 1), "of a create in v1");
        let path = format!("{V1}/a");
        let patch = |port: &str| json!({"hostPort": format!("here:{port}")}).to_string();
        let merge = "application/merge-patch+json";
        let patched = cluster.rest().call_as("PATCH", &path, merge, patch("81")).await;
        assert_eq!(patched.code, 200, "{}", patched.json());
        assert_eq!(reviews(cluster), (1, 1), "of a merge patch in v1");
        let refused = cluster.rest().call_as("PATCH", &path, merge, patch("13")).await;
        assert_eq!(refused.code, 422, "the policy sees the object in its version: {}", refused.json());
        let mut bad = door("b");
        bad["hostPort"] = json!("here:13");
        assert_eq!(call(cluster, "POST", V1, &bad).await.code, 422);
        reviews(cluster);
        assert_eq!(call(cluster, "DELETE", &path, &Value::Null).await.code, 200);
        assert_eq!(reviews(cluster), (1, 1), "of a deletion");
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    });
}
