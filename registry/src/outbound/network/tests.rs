//! Tests of calls to a real TLS server on loopback.

use super::*;
use crate::testing::MapLookup;
use bytes::Bytes;
use kstore_api::admission::client::ClientConfig;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server that reads one request on each connection and sends `answer`, and the authority of its
/// certificate.
struct Server {
    port: u16,
    authority: Bytes,
}

async fn serve(name: &str, answer: &'static str) -> Server {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = TlsAcceptor::from(Arc::new(tls.clone())).accept(stream).await else {
                continue;
            };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            if answer.is_empty() {
                // The connection stays open without an answer.
                tokio::spawn(async move {
                    tokio::time::sleep(PATIENCE).await;
                    drop(stream);
                });
                continue;
            }
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    Server { port, authority: authority.pem().into() }
}

/// Far above the time of a call on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

async fn post(server: &Server, endpoint: Endpoint, ca: &Bytes) -> Result<Answer, String> {
    post_within(PATIENCE, server, endpoint, ca).await
}

async fn post_within(
    timeout: Duration,
    server: &Server,
    endpoint: Endpoint,
    ca: &Bytes,
) -> Result<Answer, String> {
    let backend = format!("ns/hook=127.0.0.1:{}", server.port);
    let network = Network::new(ServiceBackends::new(vec![backend.parse().unwrap()]));
    let client = ClientConfig { endpoint, ca_bundle: ca.to_vec().into() };
    let call = Call { client, timeout, body: Bytes::from("{}") };
    network.post(MapLookup::of([]), call).await.map_err(|error| error.to_string())
}

fn service(name: &str) -> Endpoint {
    Endpoint::Service { namespace: "ns".into(), name: name.into(), port: 443, path: "/p".into() }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\ntrue";

#[tokio::test]
async fn a_backend_needs_a_certificate_for_its_service_name() {
    let server = serve("hook.ns.svc", OK).await;
    let answer = post(&server, service("hook"), &server.authority).await;
    assert_eq!(answer.unwrap().body, "true");
    let other = serve("other.ns.svc", OK).await;
    let refused = post(&other, service("hook"), &other.authority).await.unwrap_err();
    let text = "tls: failed to verify certificate: x509: certificate is not valid for hook.ns.svc";
    assert_eq!(refused, text);
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    let server = serve("hook.ns.svc", OK).await;
    let other = serve("hook.ns.svc", OK).await;
    for ca in [&other.authority, &Bytes::new()] {
        let refused = post(&server, service("hook"), ca).await.unwrap_err();
        let text = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
        assert!(refused.ends_with(text), "{refused}");
    }
    let refused = post(&server, service("hook"), &Bytes::from("no PEM")).await.unwrap_err();
    assert!(refused.contains("unable to load root certificates"), "{refused}");
}

#[tokio::test]
async fn calls_to_silent_slow_or_absent_servers_end_within_their_timeout() {
    let silent = serve("127.0.0.1", "").await;
    let slow = Endpoint::Url(format!("https://127.0.0.1:{}/slow", silent.port).into());
    let refused = post_within(Duration::from_millis(500), &silent, slow, &silent.authority).await;
    assert_eq!(refused, Err("context deadline exceeded".to_owned()));
    let gone = Endpoint::Url("https://127.0.0.1:1/dead".into());
    let refused = post(&silent, gone, &Bytes::new()).await;
    assert_eq!(refused, Err("dial tcp 127.0.0.1:1: connect: connection refused".to_owned()));
    let absent = post(&silent, service("none"), &Bytes::new()).await;
    assert_eq!(absent, Err("service \"none\" not found".to_owned()));
}

#[tokio::test]
async fn answers_of_any_status_are_returned_unless_too_large() {
    let endless = serve("hook.ns.svc", "HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n").await;
    let refused = post(&endless, service("hook"), &endless.authority).await;
    assert_eq!(refused, Err("the answer is larger than 3145728 bytes".to_owned()));
    let broken = "HTTP/1.1 500 E\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nbroken";
    let broken = serve("hook.ns.svc", broken).await;
    let answer = post(&broken, service("hook"), &broken.authority).await;
    let expected = Answer { status: 500, content_type: "text/plain".into(), body: Bytes::from("broken") };
    assert_eq!(answer, Ok(expected));
}
