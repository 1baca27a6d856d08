//! Leases of apiserver identities.

use super::send;
use kstore_tests::{Cluster, Setup, simulate};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// The name that Kubernetes derives for an apiserver on the host `node-1`.
const NAME: &str = "apiserver-lgabes5ywnaqeagh5dny4zlzs4";

async fn lease(cluster: &Cluster, name: &str) -> Option<Value> {
    let reply = send(cluster, "GET", &format!("{LEASES}/{name}"), &Value::Null).await;
    (reply.code == 200).then(|| reply.json())
}

async fn begin(cluster: &Cluster) -> JoinHandle<()> {
    let kept = tokio::spawn(cluster.apiserver().keep_identity("node-1".to_owned()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    kept
}

#[test]
fn an_apiserver_renews_its_identity_lease_every_ten_seconds() {
    simulate(Setup::api_alone(), async |cluster| {
        assert_eq!(lease(cluster, NAME).await, None, "only a caller of keep_identity creates the Lease");
        let kept = begin(cluster).await;
        let first = lease(cluster, NAME).await.unwrap();
        let labels = json!({ "apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "node-1" });
        assert_eq!(first["metadata"]["labels"], labels);
        assert_eq!(first["spec"]["leaseDurationSeconds"], 3600);
        let holder = first["spec"]["holderIdentity"].as_str().unwrap();
        assert!(holder.starts_with(&format!("{NAME}_")) && holder.len() == NAME.len() + 37, "{holder}");

        let before = cluster.store().revision().0;
        tokio::time::sleep(Duration::from_secs(100)).await;
        let renewals = cluster.store().revision().0 - before;
        assert!((9..=10).contains(&renewals), "{renewals}");
        let renewed = lease(cluster, NAME).await.unwrap();
        assert_eq!(renewed["spec"]["holderIdentity"], first["spec"]["holderIdentity"]);
        assert!(renewed["spec"]["renewTime"].as_str() > first["spec"]["renewTime"].as_str());

        send(cluster, "DELETE", &format!("{LEASES}/{NAME}"), &Value::Null).await;
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(lease(cluster, NAME).await.is_some(), "a deleted Lease is recreated");

        kept.abort();
        let kept = begin(cluster).await;
        let again = lease(cluster, NAME).await.unwrap();
        assert_ne!(
            again["spec"]["holderIdentity"], first["spec"]["holderIdentity"],
            "a start is another one"
        );
        kept.abort();
    });
}

#[test]
fn only_expired_identity_leases_are_deleted() {
    simulate(Setup::api_alone(), async |cluster| {
        let make = async |name: &str, identity: &str, seconds: i64| {
            let renewed = kstore_api::meta::format_micro_time(cluster.nondet().clock.now());
            let lease = json!({ "metadata": { "name": name, "labels": { "apiserver.kubernetes.io/identity": identity } },
                "spec": { "leaseDurationSeconds": seconds, "renewTime": renewed } });
            assert_eq!(send(cluster, "POST", LEASES, &lease).await.code, 201);
        };
        make("gone", "kube-apiserver", 1).await;
        make("recent", "kube-apiserver", 3_000).await;
        make("long", "kube-apiserver", 10_000).await;
        make("other", "someone", 1).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let kept = begin(cluster).await;
        let there = async || {
            let list = send(cluster, "GET", LEASES, &Value::Null).await.json();
            super::names(&list)
        };
        assert_eq!(there().await, [NAME, "long", "other", "recent"]);
        tokio::time::sleep(Duration::from_secs(3_620)).await;
        assert_eq!(there().await, [NAME, "long", "other"]);
        kept.abort();
    });
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[test]
fn a_start_adds_missing_rules_to_default_roles_and_removes_none() {
    simulate(Setup::api_alone(), async |cluster| {
        let role = async |name: &str| {
            send(cluster, "GET", &format!("{RBAC}/clusterroles/{name}"), &Value::Null).await.json()
        };
        let change = async |name: &str, change: &dyn Fn(&mut Value)| {
            let mut object = role(name).await;
            change(&mut object);
            let reply = send(cluster, "PUT", &format!("{RBAC}/clusterroles/{name}"), &object).await;
            assert_eq!(reply.code, 200, "{}", reply.json());
        };
        // A default role as an older version stored it, with a rule added by the user.
        let mine = json!({ "verbs": ["get"], "apiGroups": ["mine"], "resources": ["things"] });
        let whole = role("system:basic-user").await;
        change("system:basic-user", &|role| role["rules"] = json!([whole["rules"][0], mine])).await;
        change("system:monitoring", &|role| {
            role["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = json!("false");
            role["rules"] = json!([]);
        })
        .await;
        let binding = format!("{RBAC}/clusterrolebindings/system:discovery");
        assert_eq!(send(cluster, "DELETE", &binding, &Value::Null).await.code, 200);

        drop(cluster.another_apiserver().await);
        let rules = json!([whole["rules"][0], mine, whole["rules"][1]]);
        assert_eq!(role("system:basic-user").await["rules"], rules);
        assert_eq!(role("system:monitoring").await["rules"].as_array().map_or(0, Vec::len), 0);
        assert_eq!(send(cluster, "GET", &binding, &Value::Null).await.code, 200);
    });
}
