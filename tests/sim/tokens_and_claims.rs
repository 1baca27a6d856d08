//! Tokens in Secrets, from their creation to their end; signatures with bootstrap tokens; claims to devices.

use jiff::SignedDuration;
use kstore_client::DeleteParams;
use kstore_controllers::UnusedTokenPeriod;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::time::Duration;

const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const PROTECTION: &str = "resource.kubernetes.io/delete-protection";

#[test]
fn cluster_info_is_signed_with_every_bootstrap_token_that_may_sign() {
    simulate(Setup { seed: 97, ..Setup::controllers() }, async |cluster| {
        let token = |id: &str, more: Value| {
            let mut data = json!({"token-id": id, "token-secret": "0123456789abcdef"});
            data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token", "stringData": data,
                "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"}})
        };
        let signs = json!({"usage-bootstrap-signing": "true"});
        cluster.create(token("aaaaaa", signs.clone())).await;
        cluster.create(token("bbbbbb", json!({"usage-bootstrap-authentication": "true"}))).await;
        let ends = json!({"usage-bootstrap-signing": "true", "expiration": "2026-01-01T00:05:00Z"});
        cluster.create(token("cccccc", ends)).await;
        let info = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"kubeconfig": "kind: Config"},
            "metadata": {"name": "cluster-info", "namespace": "kube-public"}});
        cluster.create(info).await;
        let data =
            async || cluster.get("configmaps", "kube-public", "cluster-info").await.unwrap()["data"].clone();
        let keys = async || data().await.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let all = ["jws-kubeconfig-aaaaaa", "jws-kubeconfig-cccccc", "kubeconfig"];
        cluster.wait_until("two tokens sign", async || keys().await == all).await;
        // Computed by another implementation of RFC 7515.
        let header = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFhYWFhYSJ9";
        let [old, new] =
            ["gVuTV73dVsxTp5bjvFii-6HFkhltSPjppQxM31A6ksc", "s-sritO8ZQARm-mTb6B60TIJrUATbqTSlKSCpSKT-qc"];
        assert_eq!(data().await[all[0]], format!("{header}..{old}"));
        let patch = kstore_client::Patch::Merge(json!({"data": {"kubeconfig": "kind: Config # new"}}));
        cluster.resource("configmaps").patch("kube-public", "cluster-info", "", &patch).await.unwrap();
        let is_new = async || data().await[all[0]] == format!("{header}..{new}");
        cluster.wait_until("the new kubeconfig is signed", is_new).await;
        cluster.wait_until("an expired token signs no more", async || keys().await == [all[0], all[2]]).await;
        assert!(cluster.nondet().clock.now() >= "2026-01-01T00:05:00Z".parse().unwrap());
        let secrets = cluster.resource("secrets");
        secrets.delete("kube-system", "bootstrap-token-aaaaaa", &DeleteParams::default()).await.unwrap();
        cluster.wait_until("a deleted token signs no more", async || keys().await == [all[2]]).await;
    });
}

fn account(name: &str, secrets: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, "secrets": secrets})
}

fn account_token(name: &str, account: &str) -> Value {
    let annotations = json!({"kubernetes.io/service-account.name": account});
    json!({"apiVersion": "v1", "kind": "Secret", "type": ACCOUNT_TOKEN,
        "metadata": {"name": name, "annotations": annotations}})
}

/// An entry of a Secret as text; empty if it is absent.
fn entry(secret: &Value, key: &str) -> String {
    use base64::Engine as _;
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(secret["data"][key].as_str().unwrap_or_default());
    String::from_utf8(bytes.unwrap()).unwrap()
}

/// The user that a token authenticates.
async fn user(cluster: &Cluster, token: &str) -> Option<String> {
    let review = json!({"spec": {"token": token}}).to_string();
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let status = cluster.rest().call("POST", path, review).await.json()["status"].clone();
    status["user"]["username"].as_str().map(str::to_owned)
}

async fn wait_deleted(cluster: &Cluster, plural: &str, name: &str) {
    let is_gone = async || cluster.get(plural, "default", name).await.is_none();
    cluster.wait_until(&format!("{plural}/{name} is deleted"), is_gone).await;
}

#[test]
fn a_secret_of_an_account_gets_a_token_that_is_valid_while_both_exist() {
    simulate(Setup { seed: 98, ..Setup::controllers() }.network(), async |cluster| {
        let made = cluster.create(account("builder", json!([{"name": "t"}, {"name": "other"}]))).await;
        cluster.create(account_token("t", "builder")).await;
        let is_filled = |secret: &Value| !secret["data"]["token"].is_null();
        let secret = cluster.wait_object("secrets", "t", "has a token", is_filled).await;
        assert_eq!(
            (entry(&secret, "ca.crt"), entry(&secret, "namespace")),
            ("test CA".into(), "default".into())
        );
        let uid = &secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
        assert_eq!(*uid, made["metadata"]["uid"]);
        let token = entry(&secret, "token");
        let name = Some("system:serviceaccount:default:builder".to_owned());
        assert_eq!(user(cluster, &token).await, name);
        let label = async |label: &str| {
            cluster.get("secrets", "default", "t").await.unwrap()["metadata"]["labels"][label].clone()
        };
        assert_eq!(label(LAST_USED).await, "2026-01-01");
        let version = async || {
            cluster.get("secrets", "default", "t").await.unwrap()["metadata"]["resourceVersion"].clone()
        };
        let before = version().await;
        assert_eq!(user(cluster, &token).await, name);
        assert_eq!(version().await, before, "the label is written once a day");

        let invalid = |since: Value| json!({"metadata": {"labels": {INVALID_SINCE: since}}});
        cluster.merge("secrets", "t", invalid(json!("2026-01-01"))).await;
        assert_eq!(user(cluster, &token).await, None, "it is marked as invalid");
        cluster.merge("secrets", "t", invalid(Value::Null)).await;
        assert_eq!(user(cluster, &token).await, name);
        cluster.merge("secrets", "t", json!({"data": {"token": null}})).await;
        let is_other = |secret: &Value| is_filled(secret) && entry(secret, "namespace") == "default";
        let again = cluster.wait_object("secrets", "t", "has a token again", is_other).await;
        let renewed = entry(&again, "token");
        assert_eq!(
            (user(cluster, &renewed).await, user(cluster, &token).await),
            (name.clone(), (renewed == token).then_some(name).flatten())
        );

        cluster.delete("secrets", "t", DeleteParams::default()).await;
        assert_eq!(user(cluster, &renewed).await, None, "its Secret is gone");
        let lists = |names: Value| move |account: &Value| account["secrets"] == names;
        cluster
            .wait_object("serviceaccounts", "builder", "lists one", lists(json!([{"name": "other"}])))
            .await;
    });
}

#[test]
fn secrets_of_accounts_that_are_gone_are_deleted() {
    simulate(Setup { seed: 99, ..Setup::controllers() }.network(), async |cluster| {
        cluster.create(account_token("orphan", "missing")).await;
        wait_deleted(cluster, "secrets", "orphan").await;
        cluster.create(account("builder", json!([]))).await;
        cluster.create(account_token("t", "builder")).await;
        let is_filled = |secret: &Value| !secret["data"]["token"].is_null();
        let token = entry(&cluster.wait_object("secrets", "t", "has a token", is_filled).await, "token");
        let secret = cluster.create(account_token("other", "builder")).await;
        assert_eq!(secret["data"], Value::Null);
        cluster.wait_object("secrets", "other", "has a token", is_filled).await;
        cluster.delete("serviceaccounts", "builder", DeleteParams::default()).await;
        // A new account of the same name is another one.
        cluster.create(account("builder", json!([]))).await;
        assert_eq!(user(cluster, &token).await, None);
        wait_deleted(cluster, "secrets", "t").await;
        wait_deleted(cluster, "secrets", "other").await;
    });
}

#[test]
fn generated_tokens_without_use_are_invalidated_and_later_deleted() {
    let mut setup = Setup { seed: 100, ..Setup::controllers() };
    setup.unused_tokens = UnusedTokenPeriod::new(SignedDuration::from_mins(10)).unwrap();
    simulate(setup, async |cluster| {
        let tracking = "kube-apiserver-legacy-service-account-token-tracking";
        let map = cluster.get("configmaps", "kube-system", tracking).await.unwrap();
        assert_eq!(map["data"], json!({"since": "2026-01-01"}));
        let listed = json!([{"name": "generated"}, {"name": "mounted"}, {"name": "used"}]);
        cluster.create(account("builder", listed)).await;
        for name in ["generated", "mounted", "used", "manual"] {
            cluster.create(account_token(name, "builder")).await;
        }
        let labels = json!({"metadata": {"labels": {LAST_USED: "2026-01-01"}}});
        cluster.merge("secrets", "used", labels).await;
        let volumes = json!({"volumes": [{"name": "v", "secret": {"secretName": "mounted"}}]});
        cluster.create(manifests::pod("p", volumes)).await;
        let label = async |name: &str| {
            let secret = cluster.get("secrets", "default", name).await?;
            secret["metadata"]["labels"][INVALID_SINCE].as_str().map(str::to_owned)
        };
        // A change of a Secret causes a run before the daily one.
        let touch = async |value: &str| {
            for name in ["mounted", "used", "manual", "generated"] {
                let patch = json!({"metadata": {"annotations": {"touched": value}}});
                cluster.merge("secrets", name, patch).await;
            }
        };
        tokio::time::sleep(Duration::from_secs(11 * 60)).await;
        touch("once").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(label("generated").await, None, "uses were not recorded for long enough");
        let patch = kstore_client::Patch::Merge(json!({"data": {"since": "2025-12-30"}}));
        cluster.resource("configmaps").patch("kube-system", tracking, "", &patch).await.unwrap();
        touch("again").await;
        let is_marked = async || label("generated").await.as_deref() == Some("2026-01-01");
        cluster.wait_until("the token is invalid", is_marked).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        for name in ["mounted", "used", "manual"] {
            assert_eq!(label(name).await, None, "{name}");
        }
        let earlier = json!({"metadata": {"labels": {INVALID_SINCE: "2025-12-31"}}});
        cluster.merge("secrets", "generated", earlier).await;
        wait_deleted(cluster, "secrets", "generated").await;
        for name in ["mounted", "used", "manual"] {
            assert!(cluster.get("secrets", "default", name).await.is_some(), "{name}");
        }
    });
}

fn template() -> Value {
    let devices = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one-gpu"},
        "spec": {"metadata": {"labels": {"for": "tests"}}, "spec": {"devices": devices}}})
}

fn pod_with(name: &str, more: Value) -> Value {
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "one-gpu"},
        {"name": "shared", "resourceClaimName": "shared"}]);
    let mut spec = json!({"resourceClaims": claims});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    manifests::pod(name, spec)
}

/// Allocates a claim as a scheduler does: with the finalizer first, and reserved for a pod or not.
async fn allocate(cluster: &Cluster, name: &str, pod: Option<&Value>) {
    cluster.merge("resourceclaims", name, json!({"metadata": {"finalizers": [PROTECTION]}})).await;
    let device = json!({"request": "r", "driver": "d", "pool": "p", "device": "e"});
    let mut status = json!({"allocation": {"devices": {"results": [device]}}});
    if let Some(pod) = pod {
        let consumer =
            json!({"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
        status["reservedFor"] = json!([consumer]);
    }
    let patch = kstore_client::Patch::Merge(json!({ "status": status }));
    cluster.resource("resourceclaims").patch("default", name, "status", &patch).await.unwrap();
}

/// The name of the claim that was generated for a pod, after its status has it.
async fn generated(cluster: &Cluster, pod: &str) -> String {
    let name = |pod: &Value| {
        pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().map(str::to_owned)
    };
    let pod = cluster.wait_object("pods", pod, "names its claim", |pod| name(pod).is_some()).await;
    name(&pod).unwrap()
}

#[test]
fn a_pod_gets_claims_from_templates_and_releases_them() {
    simulate(Setup { seed: 101, ..Setup::controllers() }, async |cluster| {
        let mut shared = template()["spec"]["spec"].clone();
        shared = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": shared});
        cluster.create(shared).await;
        let pod = cluster.create(pod_with("p", json!({}))).await;
        let is_told = async || {
            let events = cluster.list("events", "default").await;
            events.iter().any(|event| event["reason"] == "FailedResourceClaimCreation")
        };
        cluster.wait_until("an event says that the template is missing", is_told).await;
        cluster.create(template()).await;
        let name = generated(cluster, "p").await;
        assert!(name.starts_with("p-gpu-"), "{name}");
        let claim = cluster.get("resourceclaims", "default", &name).await.unwrap();
        let metadata = &claim["metadata"];
        assert_eq!(metadata["annotations"], json!({"resource.kubernetes.io/pod-claim-name": "gpu"}));
        assert_eq!(metadata["labels"], json!({"for": "tests"}));
        let owner = &metadata["ownerReferences"][0];
        assert_eq!((&owner["uid"], &owner["controller"]), (&pod["metadata"]["uid"], &json!(true)));
        let requests = &claim["spec"]["devices"]["requests"];
        assert_eq!(requests[0]["exactly"]["deviceClassName"], "gpu");

        for claim in [&name, "shared"] {
            allocate(cluster, claim, Some(&pod)).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let shared = async || cluster.get("resourceclaims", "default", "shared").await.unwrap();
        assert_eq!(shared().await["status"]["reservedFor"][0]["name"], "p", "the pod is not done");
        cluster.delete("pods", "p", DeleteParams::default()).await;
        let is_free = |claim: &Value| {
            let status = &claim["status"];
            status["reservedFor"].is_null()
                && status["allocation"].is_null()
                && claim["metadata"]["finalizers"].is_null()
        };
        cluster.wait_object("resourceclaims", "shared", "is free", is_free).await;
        wait_deleted(cluster, "resourceclaims", &name).await;
    });
}

#[test]
fn claims_are_reserved_for_pods_on_nodes_until_the_pods_are_done() {
    simulate(Setup { seed: 102, ..Setup::controllers() }, async |cluster| {
        cluster.create(template()).await;
        cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).await;
        cluster.create(pod_with("p", json!({"nodeName": "n"}))).await;
        let name = generated(cluster, "p").await;
        allocate(cluster, &name, None).await;
        let is_reserved = |claim: &Value| claim["status"]["reservedFor"][0]["name"] == "p";
        cluster.wait_object("resourceclaims", &name, "is reserved", is_reserved).await;
        let ended = kstore_client::Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        cluster.resource("pods").patch("default", "p", "status", &ended).await.unwrap();
        wait_deleted(cluster, "resourceclaims", &name).await;
        assert!(cluster.get("pods", "default", "p").await.is_some());
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(
            cluster.list("resourceclaims", "default").await.is_empty(),
            "a pod that is done gets no claim"
        );
    });
}
