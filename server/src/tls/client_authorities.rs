//! [`ClientAuthorities`]: verifies client certificates by the authorities in files. A replaced file is used from
//! the next handshake on. Clients are not told the names of the authorities, since these may change.

use super::client_verifier;
use crate::files::unusable;
use kstore_access::reloaded::Reloaded;
use kstore_tls_trust::signature_checks_of;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DistinguishedName, Error};
use std::path::PathBuf;
use std::sync::Arc;

/// A verifier of client certificates by the authorities in files. A client may show none.
#[derive(Debug)]
pub(crate) struct ClientAuthorities(Reloaded<Authorities>);

/// Certificate authorities of one state of the files.
#[derive(Debug)]
pub(crate) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    /// The contents of the files, in their order.
    pub(crate) pems: Vec<String>,
}

impl ClientAuthorities {
    /// The authorities in all of these files (PEM).
    ///
    /// # Errors
    /// A file cannot be read, or is no list of certificates.
    pub(crate) fn of_files(files: Vec<PathBuf>) -> anyhow::Result<Arc<Self>> {
        let authorities = |contents: &[String], _: Option<&_>| {
            let verifier = client_verifier(&contents.join("\n")).map_err(|error| unusable(&error))?;
            Ok(Authorities { verifier, pems: contents.to_vec() })
        };
        Ok(Arc::new(Self(Reloaded::new(files, authorities)?)))
    }

    fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.0.get().verifier.clone()
    }

    /// The authorities in use.
    pub(crate) fn current(&self) -> Arc<Authorities> {
        self.0.get()
    }

    /// Waits until a handshake uses other authorities than `seen`, and returns those.
    pub(crate) async fn changed_since(&self, seen: &Arc<Authorities>) -> Arc<Authorities> {
        self.0.changed_since(seen).await
    }
}

impl ClientCertVerifier for ClientAuthorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.get().verifier.verify_client_cert(certificate, intermediates, now)
    }

    signature_checks_of!(Self::verifier);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use std::time::Duration;

    #[test]
    fn a_replaced_file_of_authorities_decides_from_the_next_handshake_on() {
        let authority = || {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
        };
        let ((first_pem, first), (second_pem, second)) = (authority(), authority());
        let client =
            |issuer| CertificateParams::default().signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
        let (of_first, of_second) = (client(&first), client(&second));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, &first_pem).unwrap();
        let verifier = ClientAuthorities::of_files(vec![file.clone()]).unwrap();
        assert!(verifier.offer_client_auth() && !verifier.client_auth_mandatory());
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600));
        let accepts = |shown: &rcgen::Certificate| verifier.verify_client_cert(shown.der(), &[], now).is_ok();
        assert_eq!([accepts(&of_first), accepts(&of_second)], [true, false]);
        std::fs::write(&file, [first_pem, second_pem.clone()].concat()).unwrap();
        assert_eq!([accepts(&of_first), accepts(&of_second)], [true, true]);
        crate::files::write_private(&file, second_pem.as_bytes()).unwrap();
        assert_eq!([accepts(&of_first), accepts(&of_second)], [false, true]);
    }
}
