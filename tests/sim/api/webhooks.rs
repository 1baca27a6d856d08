//! Admission webhooks over REST: which requests they receive, in which form, and the effect of their answers.
//! Reviews and messages have their tests in the crate `api`, calls over the network in `apiserver`.

use kstore_tests::webhooks::reviewed;
use kstore_tests::{Cluster, Reply, Setup, Webhooks, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: &str = "application/merge-patch+json";

/// A configuration with one webhook per path, for ConfigMaps.
fn configuration(kind: &str, name: &str, paths: &[&str]) -> Value {
    let hook = |path: &&str| {
        json!({"name": format!("{}.hooks.test", path.trim_start_matches('/')), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": Webhooks::client_config(path),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]})
    };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": paths.iter().map(hook).collect::<Vec<_>>()})
}

async fn call(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    cluster.rest().call(method, path, body).await
}

async fn configure(cluster: &Cluster, configuration: &Value) {
    let plural = configuration["kind"].as_str().unwrap().to_lowercase();
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}s");
    let made = call(cluster, "POST", &path, configuration).await;
    assert_eq!(made.code, 201, "{}", made.json());
}

async fn mutating(cluster: &Cluster, paths: &[&str]) {
    configure(cluster, &configuration("MutatingWebhookConfiguration", "mutating", paths)).await;
}

async fn validating(cluster: &Cluster, paths: &[&str]) {
    configure(cluster, &configuration("ValidatingWebhookConfiguration", "validating", paths)).await;
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn allow(review: &Value) -> Value {
    reviewed(review, json!({"allowed": true}))
}

fn deny(review: &Value) -> Value {
    reviewed(review, json!({"allowed": false, "status": {"message": "not today"}}))
}

/// A handler that allows the request with a JSON patch.
fn patching(patch: Value) -> impl Fn(&Value) -> Value + Send + Sync {
    use base64::Engine as _;
    let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
    move |review| reviewed(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

fn paths(cluster: &Cluster) -> Vec<String> {
    cluster.webhooks().take_calls().into_iter().map(|(path, _)| path).collect()
}

#[test]
fn mutating_webhooks_change_the_object_in_order_and_validating_ones_see_the_result() {
    simulate(Setup::api_alone(), async |cluster| {
        let hooks = cluster.webhooks();
        hooks.serve("/first", patching(json!([{"op": "add", "path": "/data/a", "value": "1"}])));
        hooks.serve(
            "/second",
            patching(json!([{"op": "add", "path": "/metadata/labels", "value": {"by": "second"}}])),
        );
        hooks.serve("/judge", allow);
        mutating(cluster, &["/first", "/second"]).await;
        validating(cluster, &["/judge"]).await;
        let made = call(cluster, "POST", MAPS, &map("m", json!({"x": "y"}))).await;
        assert_eq!(made.code, 201, "{}", made.json());
        let stored = call(cluster, "GET", &format!("{MAPS}/m"), &Value::Null).await.json();
        assert_eq!(stored["data"], json!({"x": "y", "a": "1"}));
        assert_eq!(stored["metadata"]["labels"], json!({"by": "second"}));
        // Changes by webhooks are attributed to no manager: the managed fields are those of the request.
        let managed = stored["metadata"]["managedFields"][0]["fieldsV1"].to_string();
        assert!(
            managed.contains("f:x") && !managed.contains("f:a") && !managed.contains("f:labels"),
            "{managed}"
        );
        let calls = hooks.take_calls();
        let seen: Vec<&str> = calls.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(seen, ["/first?timeout=10s", "/second?timeout=10s", "/judge?timeout=10s"]);
        let [first, second, judge] = [0, 1, 2].map(|index: usize| &calls[index].1["request"]);
        assert_eq!(first["object"]["data"], json!({"x": "y"}));
        assert_eq!(first["object"]["metadata"]["uid"], Value::Null, "the uid is given after mutation");
        assert_eq!(second["object"]["data"], json!({"x": "y", "a": "1"}));
        assert_eq!(judge["object"]["metadata"]["uid"], stored["metadata"]["uid"]);
        assert_eq!(judge["operation"], "CREATE");
        assert_eq!(judge["options"], json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}));
        assert_eq!(judge["userInfo"]["username"], "kubernetes-admin");
    });
}

#[test]
fn a_denial_names_the_webhook_and_stores_nothing() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.webhooks().serve("/deny", deny);
        validating(cluster, &["/deny"]).await;
        let refused = call(cluster, "POST", MAPS, &map("m", json!({}))).await;
        assert_eq!(refused.code, 400);
        let text = "admission webhook \"deny.hooks.test\" denied the request: not today";
        assert_eq!(refused.json()["message"], text);
        assert_eq!(call(cluster, "GET", &format!("{MAPS}/m"), &Value::Null).await.code, 404);
    });
}

#[test]
fn updates_patches_applies_and_deletions_are_sent_with_the_old_object() {
    simulate(Setup::api_alone(), async |cluster| {
        let made = call(cluster, "POST", MAPS, &map("m", json!({"a": "1"}))).await.json();
        cluster.webhooks().serve("/judge", allow);
        validating(cluster, &["/judge"]).await;
        let one = format!("{MAPS}/m");
        let mut next = made.clone();
        next["data"]["a"] = json!("2");
        assert_eq!(call(cluster, "PUT", &one, &next).await.code, 200);
        let patch = json!({"data": {"a": "3"}}).to_string();
        assert_eq!(cluster.rest().call_as("PATCH", &one, MERGE, patch).await.code, 200);
        let applied = map("m", json!({"b": "1"})).to_string();
        let apply = format!("{one}?fieldManager=me&force=true");
        let applied = cluster.rest().call_as("PATCH", &apply, "application/apply-patch+yaml", applied).await;
        assert_eq!(applied.code, 200, "{}", applied.json());
        assert_eq!(call(cluster, "DELETE", &one, &Value::Null).await.code, 200);
        let calls = cluster.webhooks().take_calls();
        let row = |request: &Value| {
            let a = |object: &str| request[object]["data"]["a"].as_str().unwrap_or("-").to_owned();
            let operation = request["operation"].as_str().unwrap().to_owned();
            (operation, a("oldObject"), a("object"), request["options"]["kind"].as_str().unwrap().to_owned())
        };
        let seen: Vec<_> = calls.iter().map(|(_, review)| row(&review["request"])).collect();
        let expected = [
            ("UPDATE", "1", "2", "UpdateOptions"),
            ("UPDATE", "2", "3", "UpdateOptions"),
            ("UPDATE", "3", "3", "UpdateOptions"),
            ("DELETE", "3", "-", "DeleteOptions"),
        ];
        let expected = expected.map(|(a, b, c, d)| (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned()));
        assert_eq!(seen, expected);
    });
}

#[test]
fn a_webhook_that_fails_refuses_the_request_unless_its_policy_is_ignore() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.webhooks().serve_slowly("/slow", Duration::from_secs(60), allow);
        let mut hooks = configuration("ValidatingWebhookConfiguration", "validating", &["/slow", "/gone"]);
        hooks["webhooks"][0]["timeoutSeconds"] = json!(1);
        hooks["webhooks"][0]["failurePolicy"] = json!("Ignore");
        configure(cluster, &hooks).await;
        let refused = call(cluster, "POST", MAPS, &map("m", json!({}))).await;
        assert_eq!(refused.code, 500);
        let text = "Internal error occurred: failed calling webhook \"gone.hooks.test\": failed to call webhook: Post \
                    \"https://hook.test/gone?timeout=10s\": dial tcp 192.0.2.1:443: connect: connection refused";
        assert_eq!(refused.json()["message"], text);
        cluster.webhooks().serve("/gone", allow);
        assert_eq!(call(cluster, "POST", MAPS, &map("m", json!({}))).await.code, 201);
    });
}

#[test]
fn a_write_retried_after_a_conflict_is_reviewed_again_with_the_newer_object() {
    simulate(Setup::api_alone(), async |cluster| {
        call(cluster, "POST", MAPS, &map("m", json!({"n": "0"}))).await;
        cluster.webhooks().serve_slowly("/judge", Duration::from_millis(100), allow);
        validating(cluster, &["/judge"]).await;
        let one = format!("{MAPS}/m");
        let rest = cluster.rest();
        let patch = |field: &str| json!({"data": {field: "1"}}).to_string();
        let (a, b) = tokio::join!(
            rest.call_as("PATCH", &one, MERGE, patch("a")),
            rest.call_as("PATCH", &one, MERGE, patch("b"))
        );
        assert_eq!((a.code, b.code), (200, 200));
        let stored = call(cluster, "GET", &one, &Value::Null).await.json();
        assert_eq!(stored["data"], json!({"n": "0", "a": "1", "b": "1"}));
        let calls = cluster.webhooks().take_calls();
        assert_eq!(calls.len(), 3, "two writes, one of them twice");
        let versions: Vec<&Value> = calls
            .iter()
            .map(|(_, review)| &review["request"]["oldObject"]["metadata"]["resourceVersion"])
            .collect();
        assert!(versions[0] == versions[1] && versions[1] != versions[2], "{versions:?}");
    });
}

#[test]
fn webhook_patches_are_decoded_defaulted_and_validated_like_requests() {
    simulate(Setup::api_alone(), async |cluster| {
        let hooks = cluster.webhooks();
        mutating(cluster, &["/patch"]).await;
        hooks.serve("/patch", patching(json!([{"op": "add", "path": "/unknown", "value": 1}])));
        let made = call(cluster, "POST", MAPS, &map("dropped", json!({}))).await;
        assert_eq!((made.code, &made.json()["unknown"]), (201, &Value::Null));
        hooks.serve("/patch", patching(json!([{"op": "add", "path": "/data", "value": {"not a key": ""}}])));
        let refused = call(cluster, "POST", MAPS, &map("invalid", json!({}))).await;
        assert_eq!(refused.code, 422, "{}", refused.json());
        hooks.serve("/patch", patching(json!([{"op": "test", "path": "/metadata/name", "value": "other"}])));
        let refused = call(cluster, "POST", MAPS, &map("tested", json!({}))).await;
        assert_eq!(
            refused.json()["message"],
            "Internal error occurred: testing value /metadata/name failed: test failed"
        );
        hooks.serve(
            "/patch",
            patching(json!([{"op": "replace", "path": "/metadata/name", "value": "renamed"}])),
        );
        let renamed = call(cluster, "POST", MAPS, &map("asked", json!({}))).await;
        assert_eq!((renamed.code, &renamed.json()["metadata"]["name"]), (201, &json!("renamed")));
        assert_eq!(call(cluster, "GET", &format!("{MAPS}/renamed"), &Value::Null).await.code, 200);
        assert_eq!(call(cluster, "GET", &format!("{MAPS}/asked"), &Value::Null).await.code, 404);
    });
}

#[test]
fn a_webhook_with_reinvocation_is_called_again_after_a_later_change() {
    simulate(Setup::api_alone(), async |cluster| {
        let hooks = cluster.webhooks();
        hooks.serve("/early", patching(json!([{"op": "add", "path": "/data/early", "value": "1"}])));
        hooks.serve("/late", patching(json!([{"op": "add", "path": "/data/late", "value": "1"}])));
        let mut configured = configuration("MutatingWebhookConfiguration", "mutating", &["/early", "/late"]);
        configured["webhooks"][0]["reinvocationPolicy"] = json!("IfNeeded");
        configure(cluster, &configured).await;
        let made = call(cluster, "POST", MAPS, &map("m", json!({"x": "1"}))).await;
        assert_eq!(made.code, 201, "{}", made.json());
        assert_eq!(paths(cluster), ["/early?timeout=10s", "/late?timeout=10s", "/early?timeout=10s"]);
    });
}

#[test]
fn a_generated_name_is_the_same_for_all_webhooks_and_the_stored_object() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.webhooks().serve("/judge", allow);
        cluster.webhooks().serve("/again", allow);
        validating(cluster, &["/judge", "/again"]).await;
        let mut generated = map("", json!({}));
        generated["metadata"] = json!({"generateName": "m-"});
        let made = call(cluster, "POST", MAPS, &generated).await.json();
        for (_, review) in cluster.webhooks().take_calls() {
            assert_eq!(review["request"]["name"], made["metadata"]["name"]);
            assert_eq!(review["request"]["object"]["metadata"]["uid"], made["metadata"]["uid"]);
        }
    });
}

#[test]
fn webhooks_do_not_see_the_configurations_of_webhooks() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.webhooks().serve("/deny", deny);
        let mut all = configuration("ValidatingWebhookConfiguration", "validating", &["/deny"]);
        all["webhooks"][0]["rules"][0] =
            json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]});
        configure(cluster, &all).await;
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/validating";
        assert_eq!(call(cluster, "POST", MAPS, &map("m", json!({}))).await.code, 400);
        assert_eq!(call(cluster, "DELETE", path, &Value::Null).await.code, 200);
        assert_eq!(call(cluster, "POST", MAPS, &map("m", json!({}))).await.code, 201);
    });
}

#[test]
fn webhooks_of_custom_kinds_see_pruned_objects_and_their_patches_are_pruned() {
    simulate(Setup::api_alone(), async |cluster| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 3}}}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "tees.shop.test"}, "spec": {"group": "shop.test", "scope": "Namespaced",
                "names": {"plural": "tees", "kind": "Tee"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        let made =
            call(cluster, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)
                .await;
        assert_eq!(made.code, 201, "{}", made.json());
        let mut hooks = configuration("MutatingWebhookConfiguration", "mutating", &["/patch"]);
        hooks["webhooks"][0]["rules"][0]["apiGroups"] = json!(["shop.test"]);
        hooks["webhooks"][0]["rules"][0]["resources"] = json!(["tees"]);
        configure(cluster, &hooks).await;
        cluster.webhooks().serve(
            "/patch",
            patching(json!([{"op": "add", "path": "/spec/colour", "value": "red"}, {"op": "remove", "path": "/spec/size"}])),
        );
        let tees = "/apis/shop.test/v1/namespaces/default/tees";
        let tee = json!({"apiVersion": "shop.test/v1", "kind": "Tee", "metadata": {"name": "t"}, "spec": {"odd": 1}});
        let made = call(cluster, "POST", tees, &tee).await;
        assert_eq!(made.code, 201, "{}", made.json());
        assert_eq!(made.json()["spec"], json!({"size": 3}));
        let calls = cluster.webhooks().take_calls();
        assert_eq!(calls[0].1["request"]["object"]["spec"], json!({"size": 3}));
    });
}

#[test]
fn connections_to_pods_and_nodes_are_reviewed_with_their_options() {
    simulate(Setup::api_alone(), async |cluster| {
        let hooks = cluster.webhooks();
        hooks.serve("/judge", deny);
        let rule = json!({"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods/exec", "pods/proxy", "nodes/proxy"]});
        let mut configuration = configuration("ValidatingWebhookConfiguration", "connections", &["/judge"]);
        configuration["webhooks"][0]["rules"] = json!([rule]);
        configure(cluster, &configuration).await;
        let pods = "/api/v1/namespaces/default/pods";
        let cases = [
            (
                format!("{pods}/web:80/proxy/a/b"),
                json!({"kind": "PodProxyOptions", "apiVersion": "v1", "path": "a/b"}),
            ),
            (format!("{pods}/web/proxy"), json!({"kind": "PodProxyOptions", "apiVersion": "v1"})),
            (
                "/api/v1/nodes/n/proxy/pods".to_owned(),
                json!({"kind": "NodeProxyOptions", "apiVersion": "v1", "path": "pods"}),
            ),
        ];
        for (path, options) in cases {
            let refused = call(cluster, "GET", &path, &Value::Null).await;
            assert_eq!(refused.code, 400, "{path}: {}", refused.json());
            assert!(
                refused.text("/message").ends_with("denied the request: not today"),
                "{}",
                refused.json()
            );
            let (_, review) = hooks.take_calls().pop().unwrap();
            let request = &review["request"];
            assert_eq!(
                (&request["operation"], &request["subResource"]),
                (&json!("CONNECT"), &json!("proxy"))
            );
            assert_eq!((&request["object"], &request["kind"]["kind"]), (&options, &options["kind"]));
        }
    });
}

#[test]
fn webhooks_and_policies_see_the_empty_members_that_kubernetes_serializes() {
    simulate(Setup::api_alone(), async |cluster| {
        const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
        let rules = json!([{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]);
        let limits = "/spec/template/spec/containers/0/resources/limits";
        cluster
            .webhooks()
            .serve("/limit", patching(json!([{"op": "add", "path": limits, "value": {"cpu": "1"}}])));
        cluster.webhooks().serve("/look", allow);
        for (kind, path) in
            [("MutatingWebhookConfiguration", "/limit"), ("ValidatingWebhookConfiguration", "/look")]
        {
            let mut hooks = configuration(kind, "deployments", &[path]);
            hooks["webhooks"][0]["rules"] = rules.clone();
            configure(cluster, &hooks).await;
        }
        let unlimited = "object.spec.template.spec.containers.all(c, has(c.resources.limits) && !has(c.resources.requests))";
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "limited"}, "spec": {"matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": unlimited}, {"expression": "object.status == {}"}]}});
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "limited"}, "spec": {"policyName": "limited", "validationActions": ["Deny"]}});
        for (plural, object) in
            [("validatingadmissionpolicies", &policy), ("validatingadmissionpolicybindings", &binding)]
        {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
            assert_eq!(call(cluster, "POST", &path, object).await.code, 201);
        }
        let made = call(cluster, "POST", DEPLOYMENTS, &manifests::deployment("web", 1)).await;
        assert_eq!(made.code, 201, "{}", made.json());
        assert_eq!(made.json().pointer(limits), Some(&json!({"cpu": "1"})));
        let seen: Vec<Value> = cluster
            .webhooks()
            .take_calls()
            .into_iter()
            .map(|(_, review)| review["request"]["object"].clone())
            .collect();
        let resources =
            |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["resources"].clone();
        assert_eq!(
            seen.iter().map(resources).collect::<Vec<_>>(),
            [json!({}), json!({"limits": {"cpu": "1"}})]
        );
        assert!(seen.iter().all(|object| object["status"] == json!({})), "{seen:?}");
    });
}
