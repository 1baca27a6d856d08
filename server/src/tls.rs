//! TLS of the one port: our certificate, client certificates of known authorities (optional, so that a caller without one is
//! anonymous rather than refused), HTTP/2 and HTTP/1.1.

mod listed_clients;

use crate::pki::{Credential, Pki};
use anyhow::Context;
use listed_clients::ListedClients;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::sync::Arc;

/// The server side of TLS for this authority and certificate.
pub(crate) fn server(pki: &Pki, serving: &Credential) -> anyhow::Result<Arc<ServerConfig>> {
    server_for_clients_of(serving, pki.ca_pem())
}

/// The server side of TLS with a certificate chain, for clients whose certificates one of the authorities in `client_ca` (PEM) signed,
/// or that are in there themselves. If it is empty no client certificate is asked for.
pub(crate) fn server_for_clients_of(
    serving: &Credential,
    client_ca: &str,
) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(serving.certificate_pem.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(serving.key_pem.as_bytes())?;
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = match client_ca.trim() {
        "" => config.with_no_client_auth(),
        client_ca => config.with_client_cert_verifier(client_verifier(client_ca)?),
    };
    let mut config = config.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}

/// Verifies client certificates that one of the authorities (PEM) signed, or that are in there themselves. A client may show none.
pub(crate) fn client_verifier(authorities: &str) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let listed: Vec<_> = CertificateDer::pem_slice_iter(authorities.as_bytes()).collect::<Result<_, _>>()?;
    let mut roots = RootCertStore::empty();
    for authority in &listed {
        roots.add(authority.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authorities = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
        .allow_unauthenticated()
        .build()
        .context("cannot verify clients by the authorities that are given")?;
    Ok(Arc::new(ListedClients { authorities, listed }))
}
