//! [`TlsServer`]: an HTTPS server on loopback with its own authority, like the webhooks and aggregated API
//! servers that operators run.

use axum::Router;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// TLS of a server with a new certificate for these names, and its authority as PEM.
pub(crate) fn tls_for(names: &[&str]) -> (Arc<ServerConfig>, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key can be made");
    let authority = CertifiedIssuer::self_signed(params, key).expect("an authority can sign itself");
    let key = KeyPair::generate().expect("a key can be made");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let leaf = CertificateParams::new(names).expect("the names can be in a certificate");
    let leaf = leaf.signed_by(&key, &authority).expect("an authority can sign");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("the key is PKCS#8");
    let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .expect("key and certificate fit");
    (Arc::new(tls), authority.pem())
}

/// A bound listener with a certificate, which does not serve yet.
pub struct TlsServer {
    listener: TcpListener,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    authority: String,
}

impl TlsServer {
    /// Binds a free port, with a certificate for this name.
    pub async fn bind(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority can sign itself");
        let key = KeyPair::generate().expect("a key can be made");
        let leaf = CertificateParams::new(vec![name.to_owned()]).expect("the name can be in a certificate");
        let leaf = leaf.signed_by(&key, &authority).expect("an authority can sign");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        Self {
            listener,
            certificate: leaf.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("the key is PKCS#8"),
            authority: authority.pem(),
        }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a listener has an address")
    }

    /// The server's authority, encoded for a `caBundle`.
    pub fn ca_bundle(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(&self.authority)
    }

    /// The server's own certificate, encoded for the `caBundle` of test suites without an authority.
    pub fn own_bundle(&self) -> String {
        use base64::Engine as _;
        let engine = base64::engine::general_purpose::STANDARD;
        let body = engine.encode(&self.certificate);
        engine.encode(format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"))
    }

    /// Serves all clients until the handle is dropped, which also ends connections.
    pub fn serve(self, router: Router) -> AbortOnDropHandle<()> {
        self.run(router, None)
    }

    /// Serves only clients with a certificate of this authority (PEM).
    pub fn serve_clients_of(self, authority: &str, router: Router) -> AbortOnDropHandle<()> {
        self.run(router, Some(authority))
    }

    fn run(self, router: Router, clients: Option<&str>) -> AbortOnDropHandle<()> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring has the default versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                let authority = CertificateDer::from_pem_slice(pem.as_bytes()).expect("the authority is PEM");
                roots.add(authority).expect("the authority is a certificate");
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().expect("there is an authority"))
            }
        };
        let tls =
            builder.with_single_cert(vec![self.certificate], self.key).expect("key and certificate fit");
        let (acceptor, listener) = (TlsAcceptor::from(Arc::new(tls)), self.listener);
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), router.clone());
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = hyper_util::service::TowerToHyperService::new(service);
                    let served = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    let _ = served.with_upgrades().await;
                });
            }
        }))
    }
}
