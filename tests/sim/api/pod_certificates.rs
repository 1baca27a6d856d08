//! Pod certificate requests of Kubernetes 1.37: who asks, who answers, and how long a request stays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_api::version::Minor;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use rcgen::{CertificateParams, CertificateSigningRequestParams, Issuer, KeyPair};
use serde_json::{Value, json};
use std::time::Duration;

const PATH: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
const SIGNER: &str = "example.com/pods";

/// A request of a pod for a certificate.
pub(super) fn request(name: &str) -> Value {
    let key = KeyPair::generate().unwrap();
    let csr = CertificateParams::default().serialize_request(&key).unwrap();
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest", "metadata": {"name": name},
        "spec": {"signerName": SIGNER, "podName": "p", "podUID": "1", "serviceAccountName": "default",
            "serviceAccountUID": "2", "nodeName": "node-0", "nodeUID": "3",
            "stubPKCS10Request": STANDARD.encode(csr.der())}})
}

fn denied(mut object: Value) -> String {
    object["status"] = json!({"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    object.to_string()
}

/// Lets a user write the status of requests; `signers` are those for which the user may sign.
async fn let_write(cluster: &Cluster, user: &str, signers: &[&str]) {
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["podcertificaterequests/status"], "verbs": ["update"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": signers, "verbs": ["sign"]},
    ]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": user}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": user}, "subjects": [{"kind": "User", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}});
    for (path, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{path}");
        assert_eq!(cluster.rest().call("POST", &path, object.to_string()).await.code, 201);
    }
}

#[test]
fn only_a_signer_answers_and_only_once() {
    simulate(Setup::api_alone().kubernetes(Minor::V37), async |cluster| {
        let rest = cluster.rest();
        let created = rest.call("POST", PATH, request("r").to_string()).await;
        assert_eq!(created.code, 201, "{}", created.json());
        let created = created.json();
        assert_eq!(created["spec"]["maxExpirationSeconds"], 86_400);
        let mut odd = request("odd");
        odd["spec"]["stubPKCS10Request"] = json!("AAAA");
        let odd = rest.call("POST", PATH, odd.to_string()).await;
        assert!(
            odd.code == 422 && odd.text("/message").contains("must be a valid PKCS#10 CSR"),
            "{}",
            odd.json()
        );

        let_write(cluster, "signer", &[SIGNER]).await;
        let_write(cluster, "stranger", &["example.com/others"]).await;
        let status = format!("{PATH}/r/status");
        let answer = async |user: &str, body: String| {
            cluster.rest_as(UserInfo::new(user, ["system:authenticated"])).call("PUT", &status, body).await
        };
        let refused = answer("stranger", denied(created.clone())).await;
        let text = "User \"stranger\" is not permitted to \"sign\" for signer \"example.com/pods\"";
        assert!(refused.code == 422 && refused.text("/message").contains(text), "{}", refused.json());
        let answered = answer("signer", denied(created)).await;
        assert_eq!(answered.code, 200, "{}", answered.json());
        let mut again = answered.json();
        again["status"]["certificateChain"] = json!("c");
        let again = answer("signer", again.to_string()).await;
        assert!(
            again
                .text("/message")
                .contains("immutable after PodCertificateRequest is issued, denied, or failed")
        );

        let request =
            http::Request::get(PATH).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table = rest.send(request.body(http_body_util::Full::default()).unwrap()).await.json();
        let cells = json!(["r", "p", "default", "node-0", SIGNER, "Denied"]);
        assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..6], *cells.as_array().unwrap());
        let selected =
            rest.call("GET", &format!("{PATH}?fieldSelector=spec.nodeName%3Dnode-1"), "").await.json();
        assert_eq!(selected["items"], json!([]));
    });
}

#[test]
fn requests_are_deleted_after_a_quarter_of_an_hour() {
    simulate(Setup::controllers().kubernetes(Minor::V37), async |cluster| {
        let rest = cluster.rest();
        assert_eq!(rest.call("POST", PATH, request("r").to_string()).await.code, 201);
        tokio::time::sleep(Duration::from_secs(14 * 60)).await;
        assert_eq!(rest.call("GET", &format!("{PATH}/r"), "").await.code, 200);
        tokio::time::sleep(Duration::from_secs(2 * 60)).await;
        assert_eq!(rest.call("GET", &format!("{PATH}/r"), "").await.code, 404);
    });
}

/// A pod that reads a key and a certificate of the signer in `/certs`.
fn pod(name: &str, key_type: &str) -> Value {
    let source = json!({"podCertificate": {"signerName": SIGNER, "keyType": key_type, "credentialBundlePath": "bundle",
        "keyPath": "key", "userAnnotations": {"example.com/a": "b"}}});
    let mounts = json!([{"name": "certs", "mountPath": "/certs"}]);
    manifests::pod(
        name,
        json!({
            "containers": [{"name": "c", "image": "i", "volumeMounts": mounts}],
            "volumes": [{"name": "certs", "projected": {"sources": [source]}}],
        }),
    )
}

/// Waits for the PodCertificateRequest of a pod that has no answer of a signer yet, and returns it.
async fn open_request(cluster: &Cluster, pod: &str) -> Value {
    let open = async || {
        let all = cluster.rest().call("GET", PATH, "").await.json()["items"].clone();
        let mut all = all.as_array().cloned().unwrap_or_default().into_iter();
        all.find(|one| one["spec"]["podName"] == pod && one["status"]["conditions"].is_null())
    };
    cluster.wait_until("the node requests a certificate", async || open().await.is_some()).await;
    open().await.unwrap()
}

async fn answer(cluster: &Cluster, mut request: Value, status: Value) {
    request["status"] = status;
    let path = format!("{PATH}/{}/status", request["metadata"]["name"].as_str().unwrap());
    let answer = cluster.rest().call("PUT", &path, request.to_string()).await;
    assert_eq!(answer.code, 200, "{}", answer.json());
}

/// Issues a certificate of two hours, to be replaced after one.
async fn issue(cluster: &Cluster, request: Value) {
    const HOUR: u64 = 3600;
    let der = STANDARD.decode(request["spec"]["stubPKCS10Request"].as_str().unwrap()).unwrap();
    let mut leaf = CertificateSigningRequestParams::from_der(&der.as_slice().into()).unwrap();
    let now = cluster.nondet().clock.now_seconds();
    let begin = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now.as_second().unsigned_abs());
    (leaf.params.not_before, leaf.params.not_after) = (begin, begin + Duration::from_secs(2 * HOUR));
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
    let chain = leaf.signed_by(&issuer).unwrap().pem();
    let at = |hours: i64| jiff::Timestamp::from_second(now.as_second() + hours * 3600).unwrap().to_string();
    let condition = json!({"type": "Issued", "status": "True", "reason": "Issued", "message": "",
        "lastTransitionTime": at(0)});
    let status = json!({"conditions": [condition], "certificateChain": chain,
        "notBefore": at(0), "beginRefreshAt": at(1), "notAfter": at(2)});
    answer(cluster, request, status).await;
}

async fn file(cluster: &Cluster, pod: &str, name: &str) -> String {
    let path = super::streams::exec(pod, &["cat", &format!("/certs/{name}")], "");
    let [_, out, err, _] = cluster.websocket(&path, "v5.channel.k8s.io").await.unwrap().channels().await;
    assert_eq!(err, "");
    out
}

/// Waits for an event of a pod with this reason, and returns its message.
async fn event(cluster: &Cluster, pod: &str, reason: &str) -> String {
    let found = async || {
        let events = cluster.list("events", "default").await;
        let is_meant = |event: &&Value| event["involvedObject"]["name"] == pod && event["reason"] == reason;
        events.iter().find(is_meant).map(|event| event["message"].as_str().unwrap().to_owned())
    };
    cluster.wait_until(reason, async || found().await.is_some()).await;
    found().await.unwrap()
}

async fn phase(cluster: &Cluster, pod: &str) -> Value {
    cluster.get("pods", "default", pod).await.unwrap()["status"]["phase"].clone()
}

#[test]
fn a_pod_starts_when_its_certificate_is_issued_and_shows_the_next_one() {
    simulate(Setup::seed(66).nodes(1).network().kubernetes(Minor::V37), async |cluster| {
        cluster.create(pod("p", "ED25519")).await;
        let request = open_request(cluster, "p").await;
        let (spec, owner) = (&request["spec"], &request["metadata"]["ownerReferences"][0]);
        let stored = cluster.get("pods", "default", "p").await.unwrap();
        assert_eq!(
            (&spec["podUID"], &owner["uid"]),
            (&stored["metadata"]["uid"], &stored["metadata"]["uid"])
        );
        assert_eq!((&spec["nodeName"], &spec["serviceAccountName"]), (&json!("node-0"), &json!("default")));
        assert_eq!(spec["unverifiedUserAnnotations"], json!({"example.com/a": "b"}));
        let why = event(cluster, "p", "FailedMount").await;
        assert_eq!(
            why,
            "MountVolume.SetUp failed for volume \"certs\" : credential bundle is not issued yet"
        );
        assert_eq!(phase(cluster, "p").await, "Pending");

        issue(cluster, request).await;
        cluster.wait_until("the pod runs", async || phase(cluster, "p").await == "Running").await;
        let (first, bundle) = (file(cluster, "p", "key").await, file(cluster, "p", "bundle").await);
        assert!(first.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{first}");
        assert!(bundle.starts_with(&first) && bundle.ends_with("-----END CERTIFICATE-----\n"), "{bundle}");

        tokio::time::sleep(Duration::from_secs(59 * 60)).await;
        assert_eq!(file(cluster, "p", "key").await, first, "it is not due yet");
        tokio::time::sleep(Duration::from_secs(6 * 60)).await;
        issue(cluster, open_request(cluster, "p").await).await;
        cluster.wait_until("the volume is replaced", async || file(cluster, "p", "key").await != first).await;
        assert_eq!(phase(cluster, "p").await, "Running");
    });
}

#[test]
fn a_pod_whose_certificate_is_refused_stays_pending_and_says_why() {
    simulate(Setup::seed(67).nodes(1).kubernetes(Minor::V37), async |cluster| {
        cluster.create(pod("p", "ECDSAP384")).await;
        let request = open_request(cluster, "p").await;
        let name = request["metadata"]["name"].as_str().unwrap().to_owned();
        let status: Value = serde_json::from_str(&denied(request.clone())).unwrap();
        answer(cluster, request, status["status"].clone()).await;
        let why = event(cluster, "p", "Denied").await;
        assert_eq!(
            why,
            format!("PodCertificateRequest default/{name} was denied, reason=\"No\", message=\"\"")
        );
        cluster.create(pod("r", "RSA3072")).await;
        let why = event(cluster, "r", "Failed").await;
        assert!(why.contains("simulated nodes generate no RSA3072 keys"), "{why}");
        assert_eq!(
            (phase(cluster, "p").await, phase(cluster, "r").await),
            (json!("Pending"), json!("Pending"))
        );
    });
}

#[test]
fn a_node_sees_its_own_requests_alone() {
    simulate(Setup::api_alone().kubernetes(Minor::V37), async |cluster| {
        let mut other = request("r");
        other["spec"]["nodeName"] = json!("node-1");
        assert_eq!(cluster.rest().call("POST", PATH, other.to_string()).await.code, 201);
        let [own, stranger] = ["node-1", "node-0"].map(|name| cluster.rest_as(UserInfo::node(name)));
        let one = format!("{PATH}/r");
        assert_eq!(own.call("GET", &one, "").await.code, 200);
        assert_eq!(stranger.call("GET", &one, "").await.code, 403);
        let selected = format!("{PATH}?fieldSelector=spec.nodeName%3Dnode-1");
        assert_eq!(
            (own.call("GET", &selected, "").await.code, own.call("GET", PATH, "").await.code),
            (200, 403)
        );
        assert_eq!(stranger.call("GET", &selected, "").await.code, 403);
        assert_eq!(own.call("DELETE", &one, "").await.code, 403);
        let refused = stranger.call("POST", PATH, other.to_string()).await;
        let text =
            "PodCertificateRequest.Spec.NodeName=\"node-1\", which is not the requesting node \"node-0\"";
        assert!(refused.code == 403 && refused.text("/message").contains(text), "{}", refused.json());
    });
}
