//! TLS of the listeners: server certificate, HTTP/2 and HTTP/1.1, and optional client certificates of known
//! authorities. A client without a certificate is anonymous rather than refused.

mod client_authorities;
mod serving_certificate;

use anyhow::Context;
pub(crate) use client_authorities::{Authorities, ClientAuthorities};
use kstore_tls_trust::ListedClients;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::danger::ClientCertVerifier;
pub(crate) use serving_certificate::ServingCertificate;
use std::sync::Arc;

/// TLS configuration of a server with this certificate. Clients may show certificates that `clients` accepts;
/// without it the server requests none.
pub(crate) fn server(
    serving: ServingCertificate,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(clients) => config.with_client_cert_verifier(clients),
    };
    let mut config = config.with_cert_resolver(Arc::new(serving));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}

/// A verifier of client certificates that one of the authorities (PEM) signed, or that are themselves in the
/// list. A client may show none.
pub(crate) fn client_verifier(authorities: &str) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let listed: Vec<_> = CertificateDer::pem_slice_iter(authorities.as_bytes()).collect::<Result<_, _>>()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = ListedClients::new(listed, provider);
    Ok(Arc::new(verifier.context("cannot verify client certificates by the given authorities")?))
}
