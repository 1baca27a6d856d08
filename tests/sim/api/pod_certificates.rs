//! Pod certificate requests of Kubernetes 1.37: who asks, who answers, and how long a request stays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_api::version::Minor;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, simulate};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

const PATH: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
const SIGNER: &str = "example.com/pods";

fn request(name: &str) -> Value {
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
        tokio::time::sleep(std::time::Duration::from_secs(14 * 60)).await;
        assert_eq!(rest.call("GET", &format!("{PATH}/r"), "").await.code, 200);
        tokio::time::sleep(std::time::Duration::from_secs(2 * 60)).await;
        assert_eq!(rest.call("GET", &format!("{PATH}/r"), "").await.code, 404);
    });
}
