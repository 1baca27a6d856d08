//! TLS between simulated pods, over streams of the fabric: of servers whose command names a certificate, and of clients that ask for an
//! `https` address.

use crate::pod_certificate::ed25519;
use kstore_container_sim::{ServerCertificate, TlsClient, TlsFailure, TlsTrust};
use kstore_fabric::Stream;
use kstore_nondet::Rng;
use kstore_tls_trust::{AnyServer, ListedServers};
use rcgen::CertificateParams;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, Error, RootCertStore, ServerConfig, WantsVerifier,
};
use std::io;
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// The first byte of a TLS record that begins a handshake.
pub(super) const HANDSHAKE: u8 = 22;

/// What a Go server answers on a port with TLS to a client that speaks without.
pub(super) const PLAIN_REQUEST: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Begins TLS as a server.
///
/// # Errors
/// The certificate or key cannot be used, or the client does not agree.
pub(super) async fn accept(
    stream: Stream,
    certificate: &ServerCertificate,
) -> io::Result<server::TlsStream<Stream>> {
    let config = server_config(certificate).map_err(io::Error::other)?;
    TlsAcceptor::from(Arc::new(config)).accept(stream).await
}

/// The configuration of a server with a certificate.
///
/// # Errors
/// The certificate or the key cannot be read, or one is not for the other.
fn server_config(certificate: &ServerCertificate) -> Result<ServerConfig, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate.chain).collect();
    let chain = chain.map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(&certificate.key).map_err(|error| error.to_string())?;
    let versions = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| error.to_string())?;
    versions.with_no_client_auth().with_single_cert(chain, key).map_err(|error| error.to_string())
}

/// A certificate for `localhost` that its own key signs, as images bring one.
///
/// # Errors
/// It cannot be made.
pub(super) fn self_signed(rng: &Rng) -> Result<ServerCertificate, String> {
    let made = ed25519(rng).and_then(|key| {
        let certificate = CertificateParams::new(["localhost".to_owned()])?.self_signed(&key)?;
        Ok((certificate.pem(), key.serialize_pem()))
    });
    let (chain, key) = made.map_err(|error| format!("generating a certificate: {error}"))?;
    Ok(ServerCertificate { chain: Arc::from(chain.into_bytes()), key: Arc::from(key.into_bytes()) })
}

/// Begins TLS as a client.
///
/// # Errors
/// The server does not agree, or is not trusted.
pub(super) async fn connect(
    stream: Stream,
    tls: &TlsClient,
) -> Result<client::TlsStream<Stream>, TlsFailure> {
    let name =
        ServerName::try_from(tls.name.clone()).map_err(|error| TlsFailure::Other(error.to_string()))?;
    let config = Arc::new(client_config(&tls.trust).map_err(TlsFailure::Other)?);
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| failure(&error))
}

fn client_config(trust: &TlsTrust) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder: ConfigBuilder<ClientConfig, WantsVerifier> = builder.map_err(|error| error.to_string())?;
    let trusting = match trust {
        TlsTrust::Anything => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer::new(provider())))
        }
        TlsTrust::Authorities(pem) => {
            let listed: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
            match listed.is_empty() {
                true => builder.with_root_certificates(RootCertStore::empty()),
                false => {
                    let verifier =
                        ListedServers::new(listed, provider()).map_err(|error| error.to_string())?;
                    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
                }
            }
        }
    };
    Ok(trusting.with_no_client_auth())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Why a handshake failed.
fn failure(error: &io::Error) -> TlsFailure {
    use CertificateError as Certificate;
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(Certificate::UnknownIssuer | Certificate::BadSignature)) => {
            TlsFailure::UnknownAuthority
        }
        Some(Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        )) => TlsFailure::WrongName,
        Some(Error::InvalidCertificate(
            Certificate::Expired
            | Certificate::ExpiredContext { .. }
            | Certificate::NotValidYet
            | Certificate::NotValidYetContext { .. },
        )) => TlsFailure::Expired,
        Some(Error::InvalidMessage(_)) => TlsFailure::NotTls,
        Some(other) => TlsFailure::Other(other.to_string()),
        None => TlsFailure::Other(error.to_string()),
    }
}
