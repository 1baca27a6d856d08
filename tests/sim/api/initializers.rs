//! Initializers: objects are hidden from lists and watches until the programs that they wait for have changed
//! them.

use super::config_map;
use kstore_client::DeleteParams;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Reply, Rest, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: &str = "application/merge-patch+json";

fn with_initializers(setup: Setup) -> Setup {
    setup.plugins(&["Initializers"])
}

async fn post(rest: &Rest, path: &str, object: &Value) -> Reply {
    rest.call("POST", path, object.to_string()).await
}

/// Lets new objects of a resource wait for these initializers.
async fn configure(cluster: &Cluster, name: &str, (group, plural): (&str, &str), initializers: &[&str]) {
    let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [plural]});
    let initializer = |name: &&str| json!({"name": name, "rules": [rule]});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "InitializerConfiguration",
        "metadata": {"name": name}, "initializers": initializers.iter().map(initializer).collect::<Vec<_>>(),
    });
    let made = post(&cluster.rest(), CONFIGURATIONS, &configuration).await;
    assert_eq!(made.code, 201, "{}", made.json());
}

async fn patch(rest: &Rest, path: &str, metadata: Value) -> Reply {
    rest.call_as("PATCH", path, MERGE, json!({"metadata": metadata}).to_string()).await
}

/// The object at a path as soon as it exists.
async fn found(rest: &Rest, path: &str) -> Value {
    loop {
        let reply = rest.call("GET", path, "").await;
        if reply.code == 200 {
            return reply.json();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn names(rest: &Rest, path: &str) -> Vec<String> {
    let listed = rest.call("GET", path, "").await.json();
    let items = listed["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Type and labels of each event of a watch.
async fn events(rest: &Rest, query: &str) -> Vec<(String, Value)> {
    let reply = rest.call("GET", &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=5&{query}"), "").await;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .map(|e| (e["type"].as_str().unwrap().to_owned(), e["object"]["metadata"]["labels"].clone()))
        .collect()
}

#[test]
fn an_object_is_hidden_until_its_initializers_have_changed_it() {
    simulate(with_initializers(Setup::api_alone()), async |cluster| {
        configure(cluster, "second", ("", "configmaps"), &["last.example.com"]).await;
        configure(cluster, "first", ("", "configmaps"), &["first.example.com"]).await;
        let rest = cluster.rest();
        let path = format!("{CONFIG_MAPS}/a");
        let before = rest.call("GET", CONFIG_MAPS, "").await.text("/metadata/resourceVersion");
        let object: Value = serde_json::from_str(&config_map("a", &json!({}))).unwrap();
        let create = post(&rest, CONFIG_MAPS, &object);
        let initialize = async {
            let waiting = found(&rest, &path).await;
            let pending = json!({"pending": [{"name": "first.example.com"}, {"name": "last.example.com"}]});
            assert_eq!(waiting["metadata"]["initializers"], pending, "in the order of the configurations");
            assert!(!names(&rest, CONFIG_MAPS).await.contains(&"a".to_owned()));
            let all = format!("{CONFIG_MAPS}?includeUninitialized=true");
            assert!(names(&rest, &all).await.contains(&"a".to_owned()));
            let rest_pending = json!({"pending": [{"name": "last.example.com"}]});
            let labelled = json!({"labels": {"step": "1"}, "initializers": rest_pending});
            assert_eq!(patch(&rest, &path, labelled).await.code, 200);
            let done = patch(&rest, &path, json!({"labels": {"step": "2"}, "initializers": null})).await;
            assert_eq!((done.code, done.json()["metadata"].get("initializers")), (200, None));
        };
        let (created, ()) = tokio::join!(create, initialize);
        assert_eq!((created.code, created.text("/metadata/labels/step").as_str()), (201, "2"));
        assert!(names(&rest, CONFIG_MAPS).await.contains(&"a".to_owned()));
        let step = |kind: &str, step: &str| (kind.to_owned(), json!({"step": step}));
        assert_eq!(events(&rest, &format!("resourceVersion={before}")).await, [step("ADDED", "2")]);
        let all = events(&rest, &format!("resourceVersion={before}&includeUninitialized=1")).await;
        assert_eq!(all[1..], [step("MODIFIED", "1"), step("MODIFIED", "2")]);
        assert_eq!(all[0].0, "ADDED");
        let again = patch(&rest, &path, json!({"initializers": {"pending": [{"name": "a.b.c"}]}})).await;
        assert_eq!(
            (again.code, again.text("/message").as_str()),
            (
                422,
                "ConfigMap \"a\" is invalid: metadata.initializers: Invalid value: \"null\": field is immutable once initialization has completed"
            )
        );
    });
}

#[test]
fn a_failed_object_is_deleted_and_its_creator_gets_the_failure() {
    simulate(with_initializers(Setup::api_alone()), async |cluster| {
        configure(cluster, "all", ("", "configmaps"), &["check.example.com"]).await;
        let rest = cluster.rest();
        let path = format!("{CONFIG_MAPS}/bad");
        let before = rest.call("GET", CONFIG_MAPS, "").await.text("/metadata/resourceVersion");
        let mut object: Value = serde_json::from_str(&config_map("bad", &json!({}))).unwrap();
        object["metadata"]["finalizers"] = json!(["example.com/keep"]);
        let create = post(&rest, CONFIG_MAPS, &object);
        let fail = async {
            found(&rest, &path).await;
            let result = json!({"status": "Failure", "code": 418, "reason": "Invalid", "message": "too bad"});
            let done = patch(&rest, &path, json!({"initializers": {"result": result}})).await;
            assert_eq!(done.code, 200, "{}", done.json());
        };
        let (created, ()) = tokio::join!(create, fail);
        assert_eq!((created.code, created.text("/message").as_str()), (418, "too bad"));
        assert_eq!(rest.call("GET", &path, "").await.code, 404, "despite its finalizer");
        assert_eq!(events(&rest, &format!("resourceVersion={before}")).await.len(), 0);
    });
}

#[test]
fn only_users_with_the_verb_initialize_choose_initializers_and_change_waiting_objects() {
    simulate(with_initializers(Setup::api_alone()), async |cluster| {
        configure(cluster, "all", ("", "configmaps"), &["check.example.com"]).await;
        let rbac = "rbac.authorization.k8s.io";
        let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"});
        let subject = json!({"apiGroup": rbac, "kind": "User", "name": "jane"});
        let binding = json!({"metadata": {"name": "jane"}, "roleRef": role, "subjects": [subject]});
        let bound = post(&cluster.rest(), &format!("/apis/{rbac}/v1/clusterrolebindings"), &binding).await;
        assert_eq!(bound.code, 201);
        let (admin, jane) = (cluster.rest(), cluster.rest_as(UserInfo::new("jane", [""; 0])));
        let object = |name: &str, initializers: Value| json!({"metadata": {"name": name, "initializers": initializers}});
        let at_once = format!("{CONFIG_MAPS}?includeUninitialized=true");
        let waiting = post(&jane, &at_once, &json!({"metadata": {"name": "a"}})).await;
        assert_eq!(
            (waiting.code, waiting.text("/metadata/initializers/pending/0/name").as_str()),
            (201, "check.example.com")
        );
        let path = format!("{CONFIG_MAPS}/a");
        for change in [json!({"labels": {"a": "b"}}), json!({"initializers": null})] {
            let denied = patch(&jane, &path, change).await;
            assert_eq!(denied.code, 403);
            let text = denied.text("/message");
            assert!(
                text.starts_with("configmaps \"a\" is forbidden: update to uninitialized resource denied: "),
                "{text}"
            );
        }
        let denied = post(&jane, CONFIG_MAPS, &object("b", json!({"pending": []}))).await;
        assert!(
            denied
                .text("/message")
                .starts_with("configmaps \"b\" is forbidden: create with initializers denied: ")
        );
        let skipped = post(&admin, CONFIG_MAPS, &object("b", json!({"pending": []}))).await;
        assert_eq!((skipped.code, skipped.json()["metadata"].get("initializers")), (201, None));
        let chosen = object("c", json!({"pending": [{"name": "mine.example.com"}]}));
        let chosen = post(&admin, &at_once, &chosen).await;
        assert_eq!(chosen.text("/metadata/initializers/pending/0/name"), "mine.example.com");
        let short = post(&admin, &at_once, &object("d", json!({"pending": [{"name": "short"}]}))).await;
        assert_eq!(short.code, 422, "{}", short.json());
        // Anyone with permission to delete may delete what waits.
        assert_eq!(jane.call("DELETE", &path, "").await.code, 200);
    });
}

#[test]
fn a_create_times_out_while_its_object_waits() {
    simulate(with_initializers(Setup::api_alone()), async |cluster| {
        configure(cluster, "all", ("", "configmaps"), &["check.example.com"]).await;
        let rest = cluster.rest();
        let object = json!({"metadata": {"name": "a"}});
        let created = post(&rest, &format!("{CONFIG_MAPS}?timeout=3s"), &object).await;
        assert_eq!(created.code, 504, "{}", created.json());
        let dry =
            post(&rest, &format!("{CONFIG_MAPS}?dryRun=All"), &json!({"metadata": {"name": "b"}})).await;
        assert_eq!(dry.code, 201, "a dry run does not wait");
        let waiting = rest.call("GET", &format!("{CONFIG_MAPS}/a"), "").await;
        assert_eq!(waiting.text("/metadata/initializers/pending/0/name"), "check.example.com");
        let (apply, owned) = ("application/apply-patch+yaml", format!("{CONFIG_MAPS}/a?fieldManager=me"));
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}});
        let applied = rest.call_as("PATCH", &owned, apply, config.to_string()).await;
        assert_eq!(
            applied.text("/metadata/initializers/pending/0/name"),
            "check.example.com",
            "{}",
            applied.json()
        );
        assert_eq!(rest.call("DELETE", CONFIG_MAPS, "").await.code, 200);
        assert_eq!(
            rest.call("GET", &format!("{CONFIG_MAPS}/a"), "").await.code,
            404,
            "collections include it"
        );
    });
}

#[test]
fn objects_of_a_custom_kind_wait_too() {
    simulate(with_initializers(Setup::api_alone()), async |cluster| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let own = json!({"plural": "dogs", "singular": "dog", "kind": "Dog"});
        let version =
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let definition = json!({"metadata": {"name": "dogs.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": own, "versions": [version]}});
        let rest = cluster.rest();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(post(&rest, definitions, &definition).await.code, 201);
        configure(cluster, "all", ("example.com", "dogs"), &["train.example.com"]).await;
        let dogs = "/apis/example.com/v1/namespaces/default/dogs";
        let dog = json!({"apiVersion": "example.com/v1", "kind": "Dog", "metadata": {"name": "rex"}});
        let path = format!("{dogs}/rex");
        let initialize = async {
            found(&rest, &path).await;
            assert_eq!(names(&rest, dogs).await, [""; 0]);
            let labelled = patch(&rest, &path, json!({"labels": {"a": "b"}})).await;
            assert_eq!(labelled.text("/metadata/initializers/pending/0/name"), "train.example.com");
            assert_eq!(patch(&rest, &path, json!({"initializers": {"pending": []}})).await.code, 200);
        };
        let (created, ()) = tokio::join!(post(&rest, dogs, &dog), initialize);
        assert_eq!((created.code, created.json()["metadata"].get("initializers")), (201, None));
        assert_eq!(names(&rest, dogs).await, ["rex"]);
    });
}

#[test]
fn a_namespace_with_hidden_objects_is_deleted() {
    simulate(with_initializers(Setup::controllers()), async |cluster| {
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}})).await;
        configure(cluster, "all", ("", "secrets"), &["check.example.com"]).await;
        let rest = cluster.rest();
        let path = "/api/v1/namespaces/gone/secrets";
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!(post(&rest, &format!("{path}?includeUninitialized=true"), &object).await.code, 201);
        cluster.resource("namespaces").delete("", "gone", &DeleteParams::default()).await.unwrap();
        let is_gone = async || cluster.get("namespaces", "", "gone").await.is_none();
        cluster.wait_until("the namespace is gone", is_gone).await;
        assert_eq!(rest.call("GET", &format!("{path}/a"), "").await.code, 404);
    });
}

#[test]
fn a_deployment_runs_pods_that_an_initializer_has_labelled() {
    simulate(with_initializers(Setup::seed(1)), async |cluster| {
        configure(cluster, "pods", ("", "pods"), &["labels.example.com"]).await;
        let pods = "/api/v1/namespaces/default/pods";
        let template = json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        cluster
            .create(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}))
            .await;
        let rest = cluster.rest();
        let initialize = async || {
            let all = rest.call("GET", &format!("{pods}?includeUninitialized=true"), "").await.json();
            for pod in all["items"].as_array().unwrap() {
                if pod["metadata"].get("initializers").is_some() {
                    assert!(pod["spec"].get("nodeName").is_none(), "the scheduler does not see it");
                    let path = format!("{pods}/{}", pod["metadata"]["name"].as_str().unwrap());
                    let done = json!({"labels": {"team": "blue"}, "initializers": null});
                    assert_eq!(patch(&rest, &path, done).await.code, 200);
                }
            }
            let deployment = cluster.get("deployments", "default", "web").await.unwrap();
            deployment["status"]["availableReplicas"] == 2
        };
        cluster.wait_until("the initialized pods are available", initialize).await;
        let blue = names(&rest, &format!("{pods}?labelSelector=team%3Dblue")).await;
        assert_eq!((blue.len(), names(&rest, pods).await.len()), (2, 2));
    });
}

#[test]
fn without_the_plugin_neither_the_kind_nor_the_member_exists() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        assert_eq!(rest.call("GET", CONFIGURATIONS, "").await.code, 404);
        let group = rest.call("GET", "/apis/admissionregistration.k8s.io", "").await.json();
        assert_eq!(group["versions"].as_array().unwrap().len(), 1, "{group}");
        let object = json!({"metadata": {"name": "a", "initializers": {"pending": [{"name": "a.b.c"}]}}});
        let created = post(&rest, CONFIG_MAPS, &object).await;
        assert_eq!((created.code, created.json()["metadata"].get("initializers")), (201, None));
        let warning = created.headers["warning"].to_str().unwrap();
        assert!(warning.contains("unknown field \\\"metadata.initializers\\\""), "{warning}");
        let listed = names(&rest, &format!("{CONFIG_MAPS}?includeUninitialized=false")).await;
        assert!(listed.contains(&"a".to_owned()));
    });
}
