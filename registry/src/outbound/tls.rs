//! TLS client configuration for servers outside the process: trusted certificates and the client's own
//! certificate.

use super::trust::Trust;
use kstore_tls_trust::{AnyServer, ListedServers};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// A client certificate chain, the leaf first, and its key.
type ClientIdentity<'a> = (&'a [CertificateDer<'static>], &'a PrivateKeyDer<'static>);

/// The TLS configuration is unusable: the reason.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// The list of authorities cannot be used.
    #[error("{0}")]
    Trust(String),
    /// The client certificate cannot be used.
    #[error("the client certificate cannot be used: {0}")]
    Identity(rustls::Error),
}

/// Builds the TLS configuration of a client that verifies servers as `trust` says and presents the
/// certificate `identity`.
pub(super) fn client_config(
    trust: &Trust,
    system_roots: impl FnOnce() -> Arc<RootCertStore>,
    identity: Option<ClientIdentity<'_>>,
) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let versions = versions.expect("ring serves the default versions of TLS");
    let trusting = match trust {
        Trust::Authorities(pem) if pem.is_empty() => versions.with_root_certificates(system_roots()),
        Trust::Authorities(pem) => {
            let verifier = Arc::new(listed_servers(pem, provider).map_err(TlsError::Trust)?);
            versions.dangerous().with_custom_certificate_verifier(verifier)
        }
        Trust::Insecure => {
            let any = Arc::new(AnyServer::new(provider));
            versions.dangerous().with_custom_certificate_verifier(any)
        }
    };
    match identity {
        None => Ok(trusting.with_no_client_auth()),
        Some((certificates, key)) => {
            trusting.with_client_auth_cert(certificates.to_vec(), key.clone_key()).map_err(TlsError::Identity)
        }
    }
}

/// Builds a verifier that trusts the certificates of a PEM text, both as authorities and as servers' own
/// certificates.
fn listed_servers(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<ListedServers, String> {
    const NO_PEM: &str = "unable to load root certificates: unable to parse bytes as PEM block";
    let listed: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| NO_PEM)?;
    if listed.is_empty() {
        return Err(NO_PEM.to_owned());
    }
    ListedServers::new(listed, provider).map_err(|error| format!("unable to load root certificates: {error}"))
}

/// The authorities that this machine trusts. An unreadable one is logged and left out; servers that need it
/// then fail verification.
pub(super) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    for error in &loaded.errors {
        tracing::warn!(%error, "a certificate authority of this machine cannot be read");
    }
    roots.add_parsable_certificates(loaded.certs);
    roots
}
