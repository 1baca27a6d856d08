//! Which requests are approved, by which permission.

use super::plan::{approved, is_answered, permissions, question};
use crate::certificate_request::CertificateRequest;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, from_value, json};

fn csr(signer: &str, user: &str, usages: &[&str], status: Value) -> CertificateSigningRequest {
    from_value(json!({"metadata": {"name": "r"}, "status": status, "spec": {
        "request": "", "signerName": signer, "username": user, "groups": ["g"], "usages": usages}}))
    .unwrap()
}

fn node(name: &str) -> CertificateRequest {
    CertificateRequest {
        common_name: name.to_owned(),
        organizations: vec!["system:nodes".to_owned()],
        ..CertificateRequest::default()
    }
}

#[test]
fn only_client_certificates_of_kubelets_are_approved_and_renewal_needs_less_than_a_first_one() {
    const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
    const CLIENT: &[&str] = &["digital signature", "client auth"];
    let tried = |csr: &CertificateSigningRequest, parsed: &CertificateRequest| -> Vec<&'static str> {
        permissions(csr, parsed).iter().map(|permission| permission.subresource).collect()
    };
    let own = csr(KUBELET, "system:node:a", CLIENT, json!({}));
    assert_eq!(tried(&own, &node("system:node:a")), ["selfnodeclient", "nodeclient"]);
    let first = csr(KUBELET, "system:bootstrap:x", CLIENT, json!({}));
    assert_eq!(tried(&first, &node("system:node:a")), ["nodeclient"]);
    assert!(tried(&first, &node("a")).is_empty(), "it is no node's name");
    let client = csr("kubernetes.io/kube-apiserver-client", "u", CLIENT, json!({}));
    assert!(tried(&client, &node("system:node:a")).is_empty(), "another signer");
    let server = csr(KUBELET, "u", &["digital signature", "server auth"], json!({}));
    assert!(tried(&server, &node("system:node:a")).is_empty(), "other usages");
    for answer in [
        json!({"conditions": [{"type": "Denied", "status": "True"}]}),
        json!({"conditions": [{"type": "Approved", "status": "True"}]}),
        json!({"certificate": "YQ=="}),
    ] {
        assert!(tried(&csr(KUBELET, "system:node:a", CLIENT, answer), &node("system:node:a")).is_empty());
    }
    let permission = permissions(&own, &node("system:node:a"))[0];
    let review = question(&own, permission).spec;
    assert_eq!((review.user.as_deref(), review.groups), (Some("system:node:a"), Some(vec!["g".to_owned()])));
    let approved = approved(&own, permission, Timestamp::UNIX_EPOCH);
    assert!(is_answered(&approved) && !is_answered(&own));
}
