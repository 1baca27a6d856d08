//! A webhook that is a Deployment of simulated pods behind a Service: the program calls it without any flag.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::wait::until;
use kstore_tests::{Https, Launch};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A certificate for the Service, its key and its authority, as PEM.
pub(crate) fn certificate() -> (String, String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["hook.default.svc".to_owned()]).unwrap();
    (leaf.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem(), authority.pem())
}

fn deployment() -> Value {
    let arguments =
        ["webhook", "--tls-cert-file=/certs/tls.crt", "--tls-private-key-file=/certs/tls.key", "--port=8444"];
    let container = json!({"name": "hook", "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0", "args": arguments,
        "readinessProbe": {"httpGet": {"scheme": "HTTPS", "path": "/readyz", "port": 8444}, "periodSeconds": 1},
        "volumeMounts": [{"name": "certs", "mountPath": "/certs"}]});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "hook"}, "spec": {
        "selector": {"matchLabels": {"app": "hook"}}, "template": {"metadata": {"labels": {"app": "hook"}}, "spec": {
            "containers": [container], "volumes": [{"name": "certs", "secret": {"secretName": "hook"}}]}}}})
}

pub(crate) fn map(data: Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}, "data": data})
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_reference_reaches_a_webhook_server_in_a_pod() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    let (certificate, key, authority) = certificate();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook"},
        "stringData": {"tls.crt": certificate, "tls.key": key}});
    let ports = json!([{"port": 8443, "targetPort": 8444}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"selector": {"app": "hook"}, "ports": ports}});
    let hooks = json!([{"name": "maps.hooks.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": base64::Engine::encode(&base64::prelude::BASE64_STANDARD, authority),
            "service": {"namespace": "default", "name": "hook", "path": "/configmaps", "port": 8443}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}]);
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "maps"}, "webhooks": hooks});
    for (path, object) in [
        ("/api/v1/namespaces/default/secrets", secret),
        ("/apis/apps/v1/namespaces/default/deployments", deployment()),
        ("/api/v1/namespaces/default/services", service),
    ] {
        assert_eq!(https.call("POST", path, &object.to_string()).await.code, 201, "{path}");
    }
    let is_available = async || {
        let slices =
            https.call("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "").await.json();
        let slices = slices["items"].as_array().cloned().unwrap_or_default();
        let is_ready = slices.iter().any(|slice| {
            slice["metadata"]["labels"]["kubernetes.io/service-name"] == "hook"
                && slice["endpoints"][0]["conditions"]["ready"] == true
        });
        is_ready.then_some(())
    };
    until("the webhook is ready", is_available).await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(https.call("POST", path, &configuration.to_string()).await.code, 201);
    let unwanted = map(json!({"webhook-e2e-test": "webhook-disallow"}));
    let denied = https.call("POST", MAPS, &unwanted).await;
    assert_eq!(denied.code, 400, "{}", denied.json());
    let text = "admission webhook \"maps.hooks.test\" denied the request: the configmap contains unwanted key and value";
    assert_eq!(denied.json()["message"], text);
    assert_eq!(https.call("POST", MAPS, &map(json!({"a": "b"}))).await.code, 201);
    server.terminate();
}
