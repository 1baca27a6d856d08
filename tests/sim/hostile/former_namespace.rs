//! Attacks on the past of a namespace: whoever has rights in its second life must not read what its first life held.

use kstore_apiserver::InProcess;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Rest, Setup, simulate};
use pb::kstore_client::KstoreClient;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";
const SECRETS: &str = "/api/v1/namespaces/shared/secrets";

fn eve() -> UserInfo {
    UserInfo::new("eve", [""; 0])
}

/// Creates the namespace with two Secrets; returns the revision at which both are there, and a token of the list's second page.
async fn first_life(admin: &Rest) -> (String, String) {
    let namespace = json!({"metadata": {"name": "shared"}}).to_string();
    assert_eq!(admin.call("POST", "/api/v1/namespaces", namespace).await.code, 201);
    for name in ["a", "b"] {
        let secret = json!({"metadata": {"name": name}, "stringData": {"password": "of the first life"}});
        assert_eq!(admin.call("POST", SECRETS, secret.to_string()).await.code, 201);
    }
    let page = admin.call("GET", &format!("{SECRETS}?limit=1"), "").await;
    (page.text("/metadata/resourceVersion"), page.text("/metadata/continue"))
}

/// Deletes the namespace with its Secrets. No controller deletes its RoleBindings here.
async fn end_of_life(admin: &Rest) {
    for name in ["a", "b"] {
        assert_eq!(admin.call("DELETE", &format!("{SECRETS}/{name}"), "").await.code, 200);
    }
    admin.call("DELETE", "/api/v1/namespaces/shared", "").await;
    let mut last: Value = admin.call("GET", "/api/v1/namespaces/shared", "").await.json();
    last["spec"]["finalizers"] = json!([]);
    admin.call("PUT", "/api/v1/namespaces/shared/finalize", last.to_string()).await;
    assert_eq!(admin.call("GET", "/api/v1/namespaces/shared", "").await.code, 404);
}

/// Gives eve the rights of an administrator in the namespace.
async fn admit_eve(admin: &Rest) {
    let binding = json!({"metadata": {"name": "eve"}, "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "eve"}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}});
    let path = format!("/apis/{RBAC}/v1/namespaces/shared/rolebindings");
    assert_eq!(admin.call("POST", &path, binding.to_string()).await.code, 201);
}

/// The reads of the first life's Secrets by REST: lists, continue tokens, watches, and views.
fn reads_of_the_past(then: &str, token: &str) -> [String; 8] {
    [
        format!("{SECRETS}?resourceVersion={then}&resourceVersionMatch=Exact"),
        format!("{SECRETS}?limit=1&continue={token}"),
        format!("{SECRETS}?watch=true&resourceVersion={then}&timeoutSeconds=1"),
        format!("/kstore/v1/at/{then}{SECRETS}"),
        format!("/kstore/v1/at/{then}{SECRETS}/a"),
        format!("/kstore/v1/at/{then}{SECRETS}?fieldSelector=metadata.name%3Da"),
        format!("/kstore/v1/at/{then}{SECRETS}?watch=true&timeoutSeconds=1"),
        format!("/kstore/v1/at/{then}/api/v1/namespaces/shared"),
    ]
}

/// Checks that no read shows the past to eve, and each shows it to an administrator.
async fn check_the_past_is_hidden(cluster: &Cluster, then: &str, token: &str) {
    let (admin, eve_rest) = (cluster.rest(), cluster.rest_as(eve()));
    for path in &reads_of_the_past(then, token) {
        let reply = eve_rest.call("GET", path, "").await;
        assert_eq!(reply.code, 410, "{path}: {}", reply.text("/message"));
        assert_eq!(admin.call("GET", path, "").await.code, 200, "rights in all namespaces show it: {path}");
    }
    let refused = watch_by_grpc(cluster.apiserver().in_process(eve()), then).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::OutOfRange, "{refused}");
}

/// Deletes the namespace and creates it again, with read access for eve.
async fn second_life(admin: &Rest) {
    end_of_life(admin).await;
    let namespace = json!({"metadata": {"name": "shared"}}).to_string();
    assert_eq!(admin.call("POST", "/api/v1/namespaces", namespace).await.code, 201);
    admit_eve(admin).await;
}

async fn watch_by_grpc(api: InProcess, after: &str) -> Result<(), tonic::Status> {
    let r#ref = pb::Ref {
        version: "v1".into(),
        resource: "secrets".into(),
        namespace: "shared".into(),
        ..pb::Ref::default()
    };
    let selector = pb::WatchSelector { r#ref: Some(r#ref), ..Default::default() };
    let after_revision = after.parse().unwrap();
    let request = pb::WatchRequest { selectors: vec![selector], after_revision, ..Default::default() };
    KstoreClient::new(api).watch(request).await.map(drop)
}

#[test]
fn rights_in_the_second_life_of_a_namespace_do_not_show_its_first() {
    simulate(Setup::api_alone(), async |cluster: &Cluster| {
        let (admin, eve_rest) = (cluster.rest(), cluster.rest_as(eve()));
        let (then, token) = first_life(&admin).await;
        second_life(&admin).await;
        check_the_past_is_hidden(cluster, &then, &token).await;
        let now = eve_rest.call("GET", SECRETS, "").await;
        assert_eq!((now.code, now.json()["items"].clone()), (200, json!([])));
        let from = now.text("/metadata/resourceVersion");
        let path = format!("{SECRETS}?watch=true&resourceVersion={from}&timeoutSeconds=1");
        assert_eq!(eve_rest.call("GET", &path, "").await.code, 200, "her own life's history");
        watch_by_grpc(cluster.apiserver().in_process(eve()), &from).await.unwrap();
    });
}

/// Eve may read authors and causes, and so the history of objects; that of her namespace begins with its creation.
#[test]
fn the_history_of_an_object_ends_at_the_creation_of_its_namespace() {
    simulate(Setup::api_alone(), async |cluster: &Cluster| {
        let (admin, eve_rest) = (cluster.rest(), cluster.rest_as(eve()));
        first_life(&admin).await;
        second_life(&admin).await;
        let path = "/kstore/v1/history?resource=secrets&namespace=shared&name=a";
        assert_eq!(eve_rest.call("GET", path, "").await.code, 403, "without the permission for the path");
        let binding = json!({"metadata": {"name": "eve-sees"}, "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "eve"}],
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "kstore:see"}});
        let bindings = format!("/apis/{RBAC}/v1/clusterrolebindings");
        assert_eq!(admin.call("POST", &bindings, binding.to_string()).await.code, 201);
        let hidden = eve_rest.call("GET", path, "").await;
        assert_eq!(hidden.code, 404, "{}", hidden.json());
        let effects = |reply: &Value| {
            let entries = reply["entries"].as_array().unwrap().iter();
            entries.map(|entry| entry["effect"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(effects(&admin.call("GET", path, "").await.json()), ["deleted", "created"]);
        let secret = json!({"metadata": {"name": "a"}, "stringData": {"password": "of the second life"}});
        assert_eq!(eve_rest.call("POST", SECRETS, secret.to_string()).await.code, 201);
        let own = eve_rest.call("GET", path, "").await.json();
        assert_eq!((effects(&own), &own["former"]), (vec!["created".to_owned()], &json!(true)), "{own}");
        assert_eq!(own["remaining"], 0, "no number of what is hidden: {own}");
        assert_eq!(effects(&admin.call("GET", path, "").await.json()).len(), 3);
        for namespace in ["default", "kube-system"] {
            let other = format!("/kstore/v1/history?resource=secrets&namespace={namespace}&name=a");
            assert_eq!(eve_rest.call("GET", &other, "").await.code, 403, "{namespace}");
        }
    });
}

#[test]
fn rights_in_a_namespace_that_is_gone_do_not_show_its_past() {
    simulate(Setup::api_alone(), async |cluster: &Cluster| {
        let (admin, eve_rest) = (cluster.rest(), cluster.rest_as(eve()));
        let (then, token) = first_life(&admin).await;
        admit_eve(&admin).await;
        let list = format!("{SECRETS}?resourceVersion={then}&resourceVersionMatch=Exact");
        assert_eq!(eve_rest.call("GET", &list, "").await.code, 200, "while it exists");
        end_of_life(&admin).await;
        check_the_past_is_hidden(cluster, &then, &token).await;
        // What exists now can be listed, and watched from there on: a client that lists again does not do so for ever.
        let now = eve_rest.call("GET", SECRETS, "").await;
        assert_eq!((now.code, now.json()["items"].clone()), (200, json!([])));
        let from = now.text("/metadata/resourceVersion");
        let path = format!("{SECRETS}?watch=true&resourceVersion={from}&timeoutSeconds=1");
        assert_eq!(eve_rest.call("GET", &path, "").await.code, 200);
        watch_by_grpc(cluster.apiserver().in_process(eve()), &from).await.unwrap();
        let rows = eve_rest.call("GET", &format!("/kstore/v1/rows?at={then}"), "").await;
        assert_eq!(rows.code, 403, "the page's data need a role of their own");
    });
}

/// Regression test: `X~N` of an object told the revisions of its writes to callers who may not read the object, and those of a former
/// namespace.
#[test]
fn revisions_of_an_objects_writes_are_told_only_to_those_who_may_list_it() {
    simulate(Setup::api_alone(), async |cluster: &Cluster| {
        let (admin, eve_rest) = (cluster.rest(), cluster.rest_as(eve()));
        first_life(&admin).await;
        second_life(&admin).await;
        let binding = json!({"metadata": {"name": "eve-sees"}, "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "eve"}],
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "kstore:see"}});
        let bindings = format!("/apis/{RBAC}/v1/clusterrolebindings");
        assert_eq!(admin.call("POST", &bindings, binding.to_string()).await.code, 201);
        let path = |namespace: &str| {
            format!("/kstore/v1/resolve?text=now~1&resource=secrets&namespace={namespace}&name=a")
        };
        let former = admin.call("GET", &path("shared"), "").await;
        assert_eq!(former.code, 200, "the deletion: {}", former.json());
        assert_eq!(eve_rest.call("GET", &path("shared"), "").await.code, 404, "of the first life");
        assert_eq!(eve_rest.call("GET", &path("default"), "").await.code, 403);
        let secret = |name: &str| json!({"metadata": {"name": name}}).to_string();
        let own = eve_rest.call("POST", SECRETS, secret("a")).await.text("/metadata/resourceVersion");
        eve_rest.call("POST", SECRETS, secret("c")).await;
        let told = eve_rest.call("GET", &path("shared"), "").await.json();
        assert_eq!(told["revision"].to_string(), own, "{told}");
    });
}

/// What a caller is told of writes and causes without the permission for the notes of writes, and with it: nothing of a former namespace.
#[test]
fn writes_and_traces_do_not_show_a_former_namespace() {
    simulate(Setup::api_alone(), async |cluster: &Cluster| {
        let (admin, eve_rest) = (cluster.rest(), cluster.rest_as(eve()));
        first_life(&admin).await;
        second_life(&admin).await;
        let made = json!({"metadata": {"name": "c"}, "stringData": {"password": "own"}}).to_string();
        let until = eve_rest.call("POST", SECRETS, made).await.text("/metadata/resourceVersion");
        let path = format!("/kstore/v1/writes?after=1&until={until}");
        let told = eve_rest.call("GET", &path, "").await;
        assert_eq!((told.code, told.text("/authors").as_str()), (200, "managedFields"), "{}", told.json());
        let told = told.json();
        let mut names = Vec::new();
        for write in told["writes"].as_array().unwrap() {
            for member in ["user", "agent", "verb", "causes", "time"] {
                assert!(write[member].is_null(), "{member} is of the note: {write}");
            }
            for object in write["objects"].as_array().unwrap() {
                assert_eq!(
                    object["namespace"].as_str().filter(|name| !name.is_empty()).unwrap_or("shared"),
                    "shared"
                );
                names.push(format!(
                    "{}/{}",
                    object["resource"].as_str().unwrap(),
                    object["name"].as_str().unwrap()
                ));
            }
        }
        assert!(names.contains(&"secrets/c".to_owned()), "{names:?}");
        assert!(!names.iter().any(|name| ["secrets/a", "secrets/b"].contains(&&**name)), "{names:?}");
        let whole = admin.call("GET", &path, "").await;
        assert!(whole.text("/authors") == "notes" && whole.json().to_string().contains("\"user\""));
        let none = cluster.rest_as(UserInfo::new("mallory", [""; 0])).call("GET", &path, "").await;
        assert_eq!((none.code, none.json()["writes"].clone()), (200, json!([])), "no rights, no writes");
        let anonymous = cluster.rest_as(UserInfo::anonymous()).call("GET", &path, "").await;
        assert_eq!(anonymous.code, 403, "{}", anonymous.json());

        let binding = json!({"metadata": {"name": "eve-sees"}, "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "eve"}],
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "kstore:see"}});
        let bindings = format!("/apis/{RBAC}/v1/clusterrolebindings");
        assert_eq!(admin.call("POST", &bindings, binding.to_string()).await.code, 201);
        let trace = |name: &str| format!("/kstore/v1/trace?resource=secrets&namespace=shared&name={name}");
        assert_eq!(admin.call("GET", &trace("a"), "").await.code, 200);
        assert_eq!(eve_rest.call("GET", &trace("a"), "").await.code, 404, "of the first life");
        assert_eq!(eve_rest.call("GET", &trace("c"), "").await.code, 200);
    });
}
