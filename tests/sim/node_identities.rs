//! Nodes as users: their write permissions, which suffice for simulated nodes, and the tokens that they
//! request for pods.

use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const MOUNTED: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKENS: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

/// A pod with a short-lived token for its own audience beside the default one.
fn pod(name: &str) -> Value {
    let projection =
        json!({"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}});
    let spec = json!({
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "own", "mountPath": "/own"}]}],
        "volumes": [{"name": "own", "projected": {"sources": [projection]}}],
    });
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// Creates a pod and waits until it runs.
async fn run(cluster: &Cluster, name: &str) -> Value {
    cluster.create(pod(name)).await;
    let runs = async || {
        let pod = cluster.get("pods", "default", name).await;
        pod.is_some_and(|pod| pod["status"]["phase"] == "Running")
    };
    cluster.wait_until("the pod runs", runs).await;
    cluster.get("pods", "default", name).await.unwrap()
}

/// The output of a command in a pod.
async fn output(cluster: &Cluster, pod: &str, command: &[&str]) -> String {
    let words: String = command.iter().map(|word| format!("command={word}&")).collect();
    let path = format!("/api/v1/namespaces/default/pods/{pod}/exec?{words}stdout=true&stderr=true");
    let mut socket = cluster.websocket(&path, "v5.channel.k8s.io").await.unwrap();
    let [_, out, err, _] = socket.channels().await;
    assert_eq!(err, "", "{command:?}");
    out
}

async fn reviewed(cluster: &Cluster, token: &str) -> Value {
    let review = json!({"spec": {"token": token}}).to_string();
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    cluster.rest().call("POST", path, review).await.json()["status"].clone()
}

#[test]
fn a_pods_service_account_token_is_bound_to_the_pod_and_renewed() {
    simulate(Setup::seed(61).network(), async |cluster| {
        let pod = run(cluster, "web").await;
        let account = async || cluster.get("serviceaccounts", "default", "default").await.is_some();
        cluster.wait_until("the account exists", account).await;
        assert_eq!(output(cluster, "web", &["ls", MOUNTED]).await, "ca.crt\nnamespace\ntoken\n");
        assert_eq!(output(cluster, "web", &["cat", &format!("{MOUNTED}/namespace")]).await, "default");
        assert_eq!(output(cluster, "web", &["cat", &format!("{MOUNTED}/ca.crt")]).await, "test CA");
        let token = async || output(cluster, "web", &["cat", &format!("{MOUNTED}/token")]).await;
        let first = token().await;
        let review = reviewed(cluster, &first).await;
        let user = &review["user"];
        assert_eq!(user["username"], "system:serviceaccount:default:default", "{review}");
        let extra = |name: &str| user["extra"][format!("authentication.kubernetes.io/{name}")][0].clone();
        assert_eq!((&extra("pod-name"), extra("pod-uid")), (&json!("web"), pod["metadata"]["uid"].clone()));
        assert_eq!(extra("node-name"), pod["spec"]["nodeName"]);
        assert_eq!(token().await, first, "a token is read more than once");
        let short = async || output(cluster, "web", &["cat", "/own/vault"]).await;
        let short_first = short().await;
        assert_eq!(
            reviewed(cluster, &short_first).await["authenticated"],
            Value::Null,
            "it is for another audience"
        );
        tokio::time::sleep(Duration::from_secs(600 * 4 / 5 + 2)).await;
        assert_ne!(short().await, short_first, "most of its life is over");
        assert_eq!(token().await, first);
    });
}

#[test]
fn simulated_nodes_write_under_their_own_users() {
    simulate(Setup::seed(62).nodes(2), async |cluster| {
        let ready = async || cluster.list("nodes", "").await.len() == 2;
        cluster.wait_until("the nodes are registered", ready).await;
        // The simulation's own user may watch, record events and serve tunnels.
        let rules = json!([
            {"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["pods", "nodes", "configmaps", "persistentvolumeclaims"]},
            {"verbs": ["create"], "apiGroups": [""], "resources": ["nodes/tunnel"]},
            {"verbs": ["create", "patch", "update"], "apiGroups": ["", "events.k8s.io"], "resources": ["events"]},
        ]);
        let role = json!({"rules": rules});
        cluster.merge("clusterroles", "system:kstore:kubelet-sim", role).await;
        cluster.create(manifests::deployment("web", 4)).await;
        cluster.wait_rolled_out("web").await;
        cluster.delete("deployments", "web", kstore_client::DeleteParams::default()).await;
        let gone = async || cluster.list("pods", "default").await.is_empty();
        cluster.wait_until("the pods are deleted", gone).await;
        let renewed = async || {
            cluster.get("leases", "kube-node-lease", "node-0").await.unwrap()["spec"]["renewTime"].clone()
        };
        let before = renewed().await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_ne!(renewed().await, before);
    });
}

#[test]
fn a_node_cannot_access_objects_of_another_node() {
    simulate(Setup::seed(63).nodes(2).network(), async |cluster| {
        let pod = run(cluster, "web").await;
        let own = pod["spec"]["nodeName"].as_str().unwrap();
        let other = if own == "node-0" { "node-1" } else { "node-0" };
        let [node, stranger] = [own, other].map(|name| cluster.rest_as(UserInfo::node(name)));
        let pods = "/api/v1/namespaces/default/pods/web";
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}).to_string();
        let uid = &pod["metadata"]["uid"];
        let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid});
        let token = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": reference},
        });
        let (unbound, token) = (json!({"spec": {}}).to_string(), token.to_string());
        let evict = format!("{pods}/eviction?dryRun=All");
        for (rest, method, path, body, text) in [
            (
                &stranger,
                "POST",
                evict.as_str(),
                &eviction,
                "can only evict pods with spec.nodeName set to itself",
            ),
            (
                &stranger,
                "DELETE",
                pods,
                &String::new(),
                "can only delete pods with spec.nodeName set to itself",
            ),
            (&stranger, "POST", TOKENS, &token, "no relationship found between node"),
            (&node, "POST", TOKENS, &unbound, "node requested token not bound to a pod"),
            (&node, "POST", TOKENS, &token, ""),
            (&node, "POST", evict.as_str(), &eviction, ""),
        ] {
            let reply = rest.call(method, path, body.clone()).await;
            let expected = if text.is_empty() { 201 } else { 403 };
            assert_eq!(reply.code, expected, "{method} {path}: {}", reply.json());
            assert!(reply.text("/message").contains(text), "{method} {path}: {}", reply.json());
        }
    });
}
