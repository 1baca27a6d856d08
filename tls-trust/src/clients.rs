//! The verifier of client certificates that are themselves in the list of authorities, such as a self-signed one given
//! as `--client-ca-file`. Go's library accepts these whether or not they may sign; rustls accepts none that may sign.

use crate::listed::{Purpose, verify_listed};
use crate::{ListError, ListFault, anchors, signature_checks_of};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DistinguishedName, Error};
use std::sync::Arc;

/// A verifier by authorities that also accepts the listed certificates themselves, within their dates and
/// purposes. A client may show none.
#[derive(Debug)]
pub struct ListedClients {
    /// Verifies certificates that a listed authority signed.
    authorities: Arc<dyn ClientCertVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ListedClients {
    /// A verifier of clients by the certificates `listed`.
    ///
    /// # Errors
    /// The list is empty, or an entry is not a certificate.
    pub fn new(
        listed: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, ListError> {
        let roots = anchors(&listed)?.into();
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let authorities = builder.allow_unauthenticated().build().map_err(ListFault::Verifier)?;
        Ok(Self { authorities, listed })
    }

    fn by_authorities(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.authorities
    }
}

impl ClientCertVerifier for ListedClients {
    fn offer_client_auth(&self) -> bool {
        self.authorities.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.authorities.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authorities.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.authorities.verify_client_cert(certificate, intermediates, now) {
            Err(_) if self.listed.iter().any(|listed| listed.as_ref() == certificate.as_ref()) => {
                verify_listed(certificate, Purpose::Client, now).map(|()| ClientCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    signature_checks_of!(Self::by_authorities);
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use rustls::pki_types::UnixTime;
    use rustls::server::danger::ClientCertVerifier as _;
    use std::sync::Arc;
    use std::time::Duration;

    fn verify(listed: &[&rcgen::Certificate], shown: &rcgen::Certificate, year: u64) -> bool {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let listed = listed.iter().map(|certificate| certificate.der().clone()).collect();
        let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600));
        let verifier = super::ListedClients::new(listed, provider).unwrap();
        verifier.verify_client_cert(shown.der(), &[], now).is_ok()
    }

    #[test]
    fn a_listed_certificate_is_accepted_whether_it_may_sign_or_not() {
        for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
            let params = || {
                let mut params = CertificateParams::default();
                params.is_ca = is_ca;
                params
            };
            let own = params().self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert!(verify(&[&own], &own, 2026), "{is_ca:?}");
            assert!(!verify(&[&own], &own, 4100), "{is_ca:?} after its end");
            let other = params().self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert!(!verify(&[&own], &other, 2026), "another one of the same subject");
        }
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert!(!verify(&[&server], &server, 2026), "for servers only");
    }

    #[test]
    fn the_signer_is_found_among_authorities_with_equal_subjects() {
        let authority = || {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            (certificate, Issuer::new(params, key))
        };
        let ((first, _), (second, issuer), (third, _)) = (authority(), authority(), authority());
        let client = CertificateParams::default().signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        assert!(verify(&[&first, &second, &third], &client, 2026));
        assert!(!verify(&[&first, &third], &client, 2026));
    }
}
