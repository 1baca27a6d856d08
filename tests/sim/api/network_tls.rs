//! TLS in the network of simulated pods: webhooks, conversion and API servers that are pods behind Services, commands that ask for `https`
//! addresses, and probes.

use super::network::{log, of_image, sh};
use super::streams::run;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kstore_tests::{Cluster, Setup, simulate};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use std::time::Duration;

/// A Secret with a certificate for this name, and its authority as PEM.
fn secret(name: &str, host: &str) -> (Value, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let data = json!({"tls.crt": leaf.pem(), "tls.key": key.serialize_pem(), "ca.crt": authority.pem()});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
    (secret, authority.pem())
}

/// A pod of agnhost that serves TLS with the Secret of its name, behind a Service of this name, once it is an endpoint.
async fn serve(cluster: &Cluster, name: &str, arguments: &[&str], port: u16) -> String {
    let (secret, authority) = secret(name, &format!("{name}.default.svc"));
    cluster.create(secret).await;
    let files = ["--tls-cert-file=/certs/tls.crt", "--tls-private-key-file=/certs/tls.key"];
    let mut pod = of_image(name, "agnhost", &[arguments, &files].concat());
    pod["metadata"]["labels"] = json!({"app": name});
    let container = &mut pod["spec"]["containers"][0];
    container["volumeMounts"] = json!([{"name": "certs", "mountPath": "/certs", "readOnly": true}]);
    container["readinessProbe"] =
        json!({"httpGet": {"scheme": "HTTPS", "path": "/readyz", "port": port}, "periodSeconds": 1});
    pod["spec"]["volumes"] = json!([{"name": "certs", "secret": {"secretName": name}}]);
    run(cluster, pod).await;
    let spec = json!({"selector": {"app": name}, "ports": [{"port": 443, "targetPort": port}]});
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}))
        .await;
    let is_endpoint = async || {
        let slices = cluster.list("endpointslices", "default").await;
        let mut own =
            slices.iter().filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name);
        own.any(|slice| slice["endpoints"][0]["conditions"]["ready"] == true)
    };
    cluster.wait_until("it is an endpoint", is_endpoint).await;
    authority
}

fn client(service: &str, path: &str, authority: &str) -> Value {
    let bundle = BASE64_STANDARD.encode(authority);
    json!({"caBundle": bundle, "service": {"namespace": "default", "name": service, "path": path}})
}

fn hook(name: &str, resources: &str, client: Value) -> Value {
    json!({"name": format!("{name}.hooks.test"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": client, "timeoutSeconds": 3, "objectSelector": {"matchLabels": {"hook": name}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resources]}]})
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"hook": name}}, "data": data})
}

#[test]
fn webhooks_in_pods_judge_and_change_objects_through_their_services() {
    simulate(Setup::seed(36).network(), async |cluster| {
        let authority = serve(cluster, "hook", &["webhook", "--port=8444"], 8444).await;
        let (_, other) = secret("x", "hook.default.svc");
        let hooks = json!([
            hook("deny", "configmaps", client("hook", "/configmaps", &authority)),
            hook("late", "configmaps", client("hook", "/always-allow-delay-5s", &authority)),
            hook("untrusted", "configmaps", client("hook", "/always-deny", &other)),
            hook("absent", "configmaps", client("none", "/", &authority)),
        ]);
        let group = "admissionregistration.k8s.io/v1";
        let configuration = |kind: &str, hooks: Value| json!({"apiVersion": group, "kind": kind, "metadata": {"name": "all"}, "webhooks": hooks});
        cluster.create(configuration("ValidatingWebhookConfiguration", hooks)).await;
        let mutating =
            json!([hook("stages", "configmaps", client("hook", "/mutating-configmaps", &authority))]);
        cluster.create(configuration("MutatingWebhookConfiguration", mutating)).await;
        let before = cluster.nondet().clock.now();
        for (name, text) in [
            (
                "deny",
                "admission webhook \"deny.hooks.test\" denied the request: the configmap contains unwanted key and value",
            ),
            (
                "late",
                "https://hook.default.svc:443/always-allow-delay-5s?timeout=3s\": context deadline exceeded",
            ),
            ("untrusted", "x509: certificate signed by unknown authority"),
            ("absent", "service \"none\" not found"),
        ] {
            let refused =
                cluster.try_create(map(name, json!({"webhook-e2e-test": "webhook-disallow"}))).await;
            let text_of = refused.unwrap_err().to_string();
            assert!(text_of.contains(text), "{name}: {text_of}");
        }
        let took = cluster.nondet().clock.now().duration_since(before).as_secs();
        assert!((3..5).contains(&took), "only the late one takes time, which is that of the cluster: {took}");
        let made = cluster.create(map("stages", json!({"mutation-start": "yes"}))).await;
        assert_eq!(made["data"], json!({"mutation-start": "yes", "mutation-stage-1": "yes"}));
        cluster.create(map("deny", json!({"a": "b"}))).await;
        assert!(log(cluster, "hook").await.contains("http: TLS handshake error from 127.0.0.1:"));
        // A port at which nothing listens.
        let service = json!({"spec": {"ports": [{"port": 443, "targetPort": 1}]}});
        cluster.merge("services", "hook", service).await;
        let moved = async || {
            let slices = cluster.list("endpointslices", "default").await;
            slices.iter().any(|slice| slice["ports"][0]["port"] == 1)
        };
        cluster.wait_until("the endpoint has the port", moved).await;
        let refused = cluster.try_create(map("deny", json!({"c": "d"}))).await.unwrap_err().to_string();
        assert!(refused.contains(":1: connect: connection refused"), "{refused}");
    });
}

#[test]
fn pods_convert_custom_resources_and_serve_aggregated_apis() {
    simulate(Setup::seed(37).network(), async |cluster| {
        let authority = serve(cluster, "convert", &["crd-conversion-webhook", "--port=9444"], 9444).await;
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version = |name: &str, stores: bool| json!({"name": name, "served": true, "storage": stores, "schema": schema});
        let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": client("convert", "/crdconvert", &authority)}});
        cluster
            .create(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "tests.stable.example.com"}, "spec": {"group": "stable.example.com", "scope": "Namespaced",
                    "names": {"plural": "tests", "singular": "test", "kind": "Test", "listKind": "TestList"},
                    "preserveUnknownFields": false, "versions": [version("v1", true), version("v2", false)], "conversion": conversion}}))
            .await;
        let rest = cluster.rest();
        let path = |version: &str| format!("/apis/stable.example.com/{version}/namespaces/default/tests");
        let object = json!({"apiVersion": "stable.example.com/v1", "kind": "Test", "metadata": {"name": "a"}, "hostPort": "h:80"});
        let is_made = async || rest.call("POST", &path("v1"), object.to_string()).await.code == 201;
        cluster.wait_until("the kind is served", is_made).await;
        let read = rest.call("GET", &format!("{}/a", path("v2")), "").await.json();
        assert_eq!(
            (&read["host"], &read["port"], &read["hostPort"]),
            (&json!("h"), &json!("80"), &Value::Null)
        );

        let authority = serve(cluster, "api", &["netexec", "--http-port=8443", "--udp-port=-1"], 8443).await;
        cluster
            .create(json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.time.example.com"},
                "spec": {"group": "time.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 1,
                    "caBundle": BASE64_STANDARD.encode(&authority), "service": {"namespace": "default", "name": "api", "port": 443}}}))
            .await;
        let serves = async || rest.call("GET", "/apis/time.example.com/v1/now", "").await.code == 200;
        cluster.wait_until("it serves", serves).await;
        let page = rest.call("GET", "/apis/time.example.com/v1/now", "").await;
        assert!(page.body.starts_with(b"NOW: "), "{:?}", page.body);
        let lines = log(cluster, "api").await;
        assert!(
            lines.contains("Started HTTPS server on port 8443\n")
                && lines.contains(" GET /apis/time.example.com/v1/now\n"),
            "{lines}"
        );
    });
}

#[test]
fn commands_ask_servers_over_tls_and_servers_without_certificate_do_not_start() {
    simulate(Setup::seed(38), async |cluster| {
        serve(cluster, "net", &["netexec", "--http-port=8443"], 8443).await;
        let mut c = of_image("c", "busybox", &["sleep", "86400"]);
        c["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "certs", "mountPath": "/certs"}]);
        c["spec"]["volumes"] = json!([{"name": "certs", "secret": {"secretName": "net"}}]);
        run(cluster, c).await;
        run(cluster, of_image("plain", "agnhost", &["netexec"])).await;
        let plain = cluster.get("pods", "default", "plain").await.unwrap()["status"]["podIP"].clone();
        let plain = plain.as_str().unwrap();
        let unknown = "curl: (60) SSL certificate problem: unable to get local issuer certificate\n";
        let not_tls = "curl: (35) TLS connect error: error:0A00010B:SSL routines::wrong version number\n";
        let named =
            "curl: (60) SSL: no alternative certificate subject name matches target host name 'net'\n";
        let noted = "wget: note: TLS certificate validation not implemented\n";
        for (script, out, err, code) in [
            ("curl -sk https://net/hostname", "net", "", 0),
            ("curl -sS https://net/hostname", "", unknown, 60),
            ("curl -sS --cacert /certs/ca.crt https://net.default.svc/hostname", "net", "", 0),
            ("curl -sS --cacert /certs/ca.crt https://net/hostname", "", named, 60),
            ("wget -qO- https://net/hostname", "net", noted, 0),
            ("curl -s http://net:443/", "Client sent an HTTP request to an HTTPS server.\n", "", 0),
            (&format!("curl -sSk https://{plain}:8080/"), "", not_tls, 35),
        ] {
            assert_eq!(sh(cluster, "c", script).await, (out.to_owned(), err.to_owned(), code), "{script}");
        }
        cluster
            .create(of_image(
                "bare",
                "agnhost",
                &["webhook", "--tls-cert-file=/no", "--tls-private-key-file=/no"],
            ))
            .await;
        let ended = async || {
            let pod = cluster.get("pods", "default", "bare").await.unwrap();
            pod["status"]["containerStatuses"][0]["restartCount"].as_i64().is_some_and(|count| count > 0)
        };
        cluster.wait_until("it ends", ended).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(log(cluster, "bare").await.ends_with("open /no: no such file or directory\n"));
    });
}
