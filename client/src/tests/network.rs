//! Tests of the client behind TLS, with certificates made for the test.

use super::fake::Fake;
use super::pod;
use crate::{ApiError, Client, Identity, Kubeconfig};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::Pod;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Ports of servers that are started again.
#[path = "../../../tests/src/ports.rs"]
mod ports;

/// A certificate authority with server and client certificates.
struct Pki {
    ca: Vec<u8>,
    server: Arc<ServerConfig>,
    client: Identity,
}

fn pki() -> Pki {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::from_params(&params, &ca_key);
    let sign = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer);
        (certificate.unwrap(), key)
    };
    let (server, server_key) = sign("127.0.0.1");
    let (client, client_key) = sign("admin");
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Pki {
        ca: ca.pem().into_bytes(),
        server: Arc::new(config),
        client: Identity {
            certificate: client.pem().into_bytes(),
            key: client_key.serialize_pem().into_bytes(),
        },
    }
}

/// A server with a certificate that it signed itself, which may sign others too, and requests no client certificates.
/// The certificate is the authority of its kubeconfig.
fn self_signed() -> Pki {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(vec![own.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Pki { ca: own.pem().into_bytes(), server: Arc::new(config), client: pki().client }
}

/// Serves until `stop`, then drops the listener and all connections.
async fn serve(fake: Fake, pki: &Pki, listener: TcpListener, stop: CancellationToken) {
    let acceptor = TlsAcceptor::from(pki.server.clone());
    let mut connections = JoinSet::new();
    while let Some(Ok((tcp, _))) = stop.run_until_cancelled(listener.accept()).await {
        let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(fake.service()));
        connections.spawn(async move {
            if let Ok(tls) = acceptor.accept(tcp).await {
                let builder = Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(tls), service).await;
            }
        });
    }
}

fn kubeconfig(address: SocketAddr, pki: &Pki) -> Kubeconfig {
    Kubeconfig {
        server: format!("https://{address}"),
        ca: Some(pki.ca.clone()),
        tls_server_name: None,
        insecure: false,
        identity: Some(pki.client.clone()),
        token: Some("secret".into()),
        namespace: "default".into(),
        cluster: "kstore".into(),
    }
}

#[tokio::test]
async fn a_server_is_trusted_by_its_own_certificate_for_its_name_only() {
    let (pki, stop) = (self_signed(), CancellationToken::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = kubeconfig(address, &pki);
    let other_name = Kubeconfig { tls_server_name: Some("example.com".to_owned()), ..config.clone() };
    let other_ca = Kubeconfig { ca: Some(self_signed().ca), ..config.clone() };
    let server = {
        let stop = stop.clone();
        tokio::spawn(async move { serve(Fake::default(), &pki, listener, stop).await })
    };
    Client::connect(&config, "test").await.unwrap();
    assert!(Client::connect(&other_name, "test").await.is_err(), "another name");
    assert!(Client::connect(&other_ca, "test").await.is_err(), "another certificate of the same subject");
    stop.cancel();
    server.await.unwrap();
}

#[tokio::test]
async fn a_connection_authenticates_both_sides_and_reconnects_after_a_restart() {
    let (fake, pki, stop) = (Fake::default(), Arc::new(pki()), CancellationToken::new());
    // No other program takes it while the server is down.
    let address = SocketAddr::from(([127, 0, 0, 1], ports::reserve()));
    let listener = TcpListener::bind(address).await.unwrap();
    let start = |listener, stop: CancellationToken| {
        let (fake, pki) = (fake.clone(), pki.clone());
        tokio::spawn(async move { serve(fake, &pki, listener, stop).await })
    };
    let server = start(listener, stop.clone());
    let good = kubeconfig(address, &pki);
    let client = Client::connect(&good, "test").await.unwrap();
    client.api::<Pod>().create("default", &pod("a")).await.unwrap();
    let call = fake.calls().remove(0);
    assert!(call.agent.starts_with("test/kstore"), "{call:?}");
    assert_eq!(call.authorization, "Bearer secret");

    let other = super::network::pki();
    let wrong_ca = Kubeconfig { ca: Some(other.ca.clone()), ..good.clone() };
    assert!(Client::connect(&wrong_ca, "test").await.is_err(), "a server of another authority is refused");
    let insecure = Kubeconfig { insecure: true, ..wrong_ca };
    Client::connect(&insecure, "test").await.unwrap().api::<Pod>().get("default", "a").await.unwrap();
    let stranger = Kubeconfig { identity: Some(other.client), ..good.clone() };
    let refused = match Client::connect(&stranger, "test").await {
        Ok(client) => client.api::<Pod>().get("default", "a").await.is_err(),
        Err(_) => true,
    };
    assert!(refused, "a client of another authority is refused");

    stop.cancel();
    server.await.unwrap();
    let error = client.api::<Pod>().get("default", "a").await.unwrap_err();
    assert!(matches!(error, ApiError::Transport(_)), "{error:?}");
    let listener = TcpListener::bind(address).await.unwrap();
    start(listener, CancellationToken::new());
    let back = async {
        while client.api::<Pod>().get("default", "a").await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(180), back).await.unwrap();
}

#[tokio::test]
async fn a_server_without_grpc_is_refused_with_its_address() {
    let pki = pki();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(pki.server.clone());
    let server = async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let tls = acceptor.accept(tcp).await.unwrap();
        let service = tower::service_fn(|_| async {
            let status = br#"{"kind":"Status","apiVersion":"v1","code":403}"#;
            let body = http_body_util::Full::new(bytes::Bytes::from_static(status));
            let answer = http::Response::builder().status(403).header("content-type", "application/json");
            Ok::<_, std::convert::Infallible>(answer.body(body).unwrap())
        });
        let _ = Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(tls), TowerToHyperService::new(service))
            .await;
    };
    tokio::spawn(server);
    let Err(error) = Client::connect(&kubeconfig(address, &pki), "test").await else { panic!("connected") };
    let expected = format!(
        "the server at https://{address} does not speak kstore's API (kstore.v1 over gRPC): it answered 403 Forbidden; \
         components of kstore need an API server of kstore"
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn invalid_addresses_and_credentials_are_reported() {
    let pki = pki();
    let good = kubeconfig("127.0.0.1:1".parse().unwrap(), &pki);
    let fails = |config: Kubeconfig| match Client::connect_lazy(&config, "test") {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    assert!(fails(Kubeconfig { server: "http://a".into(), ..good.clone() }).contains("https"));
    assert!(fails(Kubeconfig { ca: None, ..good.clone() }).contains("certificate authority"));
    let identity = Identity { key: b"x".to_vec(), ..pki.client };
    assert!(fails(Kubeconfig { identity: Some(identity), ..good }).contains("client key"));
}
