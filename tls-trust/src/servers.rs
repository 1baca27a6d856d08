//! Verifiers of servers' certificates.

use crate::listed::{Purpose, verify_listed};
use crate::{ListError, ListFault, anchors};
use rustls::DigitallySignedStruct;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use std::sync::Arc;

/// Accepts any certificate. The handshake's signature is still verified, so the server holds the
/// certificate's key.
#[derive(Debug)]
pub struct AnyServer(Arc<CryptoProvider>);

impl AnyServer {
    /// A verifier that checks signatures of handshakes by the algorithms of `provider`.
    #[must_use]
    pub fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies certificates by a list of authorities. A certificate that is itself in the list is accepted too,
/// as in Go's library: a `caBundle` may be the server's own certificate. Its name, dates and purposes are
/// checked all the same.
#[derive(Debug)]
pub struct ListedServers {
    /// The verifier for certificates that an authority of the list signed.
    authorities: Arc<WebPkiServerVerifier>,
    /// All certificates of the list.
    listed: Vec<CertificateDer<'static>>,
}

impl ListedServers {
    /// A verifier of servers by the certificates `listed`.
    ///
    /// # Errors
    /// The list is empty, or an entry is not a certificate.
    pub fn new(
        listed: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, ListError> {
        let roots = anchors(&listed)?.into();
        let authorities = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        Ok(Self { authorities: authorities.map_err(ListFault::Verifier)?, listed })
    }

    fn verify_listed(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        rustls::client::verify_server_name(&parsed, name)?;
        verify_listed(certificate, Purpose::Server, now)
    }
}

impl ServerCertVerifier for ListedServers {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict =
            self.authorities.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match verdict {
            Err(_) if self.listed.iter().any(|listed| listed.as_ref() == certificate.as_ref()) => {
                self.verify_listed(certificate, name, now).map(|()| ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use std::time::Duration;

    /// A certificate for `name`, signed by an authority that is in no list.
    fn leaf(name: &str) -> CertificateDer<'static> {
        leaf_for(name, &[])
    }

    /// A certificate for `name` that may be used for `purposes` only.
    fn leaf_for(name: &str, purposes: &[ExtendedKeyUsagePurpose]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(params, KeyPair::generate().unwrap());
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = purposes.to_vec();
        params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().clone()
    }

    fn verify(
        listed: &CertificateDer<'static>,
        shown: &CertificateDer<'_>,
        name: &str,
        year: u64,
    ) -> Result<(), rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = ListedServers::new(vec![listed.clone()], provider).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(shown, &[], &name, &[], now).map(drop)
    }

    #[test]
    fn a_listed_certificate_is_trusted_for_its_name_dates_and_purposes_only() {
        let own = leaf("localhost");
        verify(&own, &own, "localhost", 2026).unwrap();
        assert!(verify(&own, &own, "example.com", 2026).is_err(), "another name");
        assert!(verify(&own, &own, "localhost", 4100).is_err(), "after its end");
        assert!(verify(&own, &leaf("localhost"), "localhost", 2026).is_err(), "another certificate");
        let server = leaf_for("localhost", &[ExtendedKeyUsagePurpose::ServerAuth]);
        verify(&server, &server, "localhost", 2026).unwrap();
        let client = leaf_for("localhost", &[ExtendedKeyUsagePurpose::ClientAuth]);
        assert!(verify(&client, &client, "localhost", 2026).is_err(), "for clients only");
    }
}
