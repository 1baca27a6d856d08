//! TLS of the API listener: server certificate, HTTP/2 and HTTP/1.1, and optional client certificates of
//! known authorities. A client without a certificate is anonymous rather than refused.

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

/// TLS configuration of a server with this certificate, for clients of this authority.
pub(crate) fn server(pki: &Pki, serving: &Credential) -> anyhow::Result<Arc<ServerConfig>> {
    server_for_clients_of(serving, pki.ca_pem())
}

/// TLS configuration of a server with this certificate chain. It accepts client certificates that an
/// authority in `client_ca` (PEM) signed, or that are themselves in `client_ca`. If `client_ca` is empty, the
/// server requests no client certificate.
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

/// A verifier of client certificates that one of the authorities (PEM) signed, or that are themselves in the
/// list. A client may show none.
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
        .context("cannot verify client certificates by the given authorities")?;
    Ok(Arc::new(ListedClients { authorities, listed }))
}
