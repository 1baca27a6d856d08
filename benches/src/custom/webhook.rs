//! Latency that a validating webhook on the same machine adds to a create. The webhook allows at once, over
//! TLS.

use super::{APISERVER, CONFIG_MAPS, bytes};
use crate::binary::Binary;
use crate::connection::{Connection, alone};
use crate::limits::WEBHOOK_CREATES;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use anyhow::ensure;
use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kstore_client::Kubeconfig;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// Difference of the median latencies of creates with and without the webhook, in turns over one connection.
pub(crate) async fn overhead(binary: &Binary) -> anyhow::Result<Duration> {
    let calls = Arc::new(AtomicUsize::new(0));
    let (address, authority) = serve(calls.clone()).await?;
    let resolve = format!("default/hook={address}");
    let flags = [APISERVER[0], APISERVER[1], "--webhook-service-resolve", &resolve];
    let server = Server::start_with(binary, Storage::Memory, &flags).await?;
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hook"},
        "webhooks": [{"name": "judge.hooks.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"caBundle": authority,
                "service": {"namespace": "default", "name": "hook", "path": "/allow"}},
            "objectSelector": {"matchLabels": {"judged": "yes"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    server.connect().await?.create(path, bytes(&configuration)).await?;
    let kubeconfig = server.kubeconfig.clone();
    let (judged, others) = alone(move || creates(kubeconfig)).await?;
    server.kill().await?;
    let calls = calls.load(Ordering::Relaxed);
    ensure!(calls == WEBHOOK_CREATES, "{calls} calls for {WEBHOOK_CREATES} creates");
    Ok(judged.quantile(0.5).saturating_sub(others.quantile(0.5)))
}

/// Latencies of creates with the webhook, and without.
async fn creates(kubeconfig: Kubeconfig) -> anyhow::Result<(Spread, Spread)> {
    let mut connection = Connection::open(&kubeconfig).await?;
    let (mut judged, mut others) = (Vec::new(), Vec::new());
    for index in 0..WEBHOOK_CREATES {
        for (judgement, times) in [("yes", &mut judged), ("no", &mut others)] {
            let mut object = (CONFIG_MAPS.object)(&format!("{judgement}-{index}"));
            object["metadata"]["labels"] = json!({"judged": judgement});
            let body = bytes(&object);
            let sent = Instant::now();
            connection.create(CONFIG_MAPS.path, body).await?;
            times.push(sent.elapsed());
        }
    }
    Ok((Spread::of(judged), Spread::of(others)))
}

/// Serves a webhook that counts its calls for the Service `hook` of the namespace `default`, until the
/// process ends. Returns its address, and its authority as `caBundle`.
async fn serve(calls: Arc<AtomicUsize>) -> anyhow::Result<(SocketAddr, String)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec!["hook.default.svc".to_owned()])?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, calls) = (acceptor.clone(), calls.clone());
            tokio::spawn(async move {
                // Without it the kernel would delay small writes.
                let _ = stream.set_nodelay(true);
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    allow(request)
                });
                let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // The server decides when the connection ends; its errors are reported as those of the
                // request.
                let _ = served.await;
            });
        }
    });
    Ok((address, base64::engine::general_purpose::STANDARD.encode(authority.pem())))
}

async fn allow(request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
    let review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true}});
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::new(bytes(&answer)))?)
}
