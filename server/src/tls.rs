//! TLS of the one port: our certificate, client certificates of our authority (optional, so that a caller without one is
//! anonymous rather than refused), HTTP/2 and HTTP/1.1.

use crate::pki::{Credential, Pki};
use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;

/// The server side of TLS for this authority and certificate.
pub(crate) fn server(pki: &Pki, serving: &Credential) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca_pem().as_bytes())?)?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .allow_unauthenticated()
        .build()
        .context("cannot verify clients with our own authority")?;
    let chain = vec![CertificateDer::from_pem_slice(serving.certificate_pem.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(serving.key_pem.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}
