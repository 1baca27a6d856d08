//! [`ServingCertificate`]: the certificate that a listener shows. If it comes from files, a replaced file is
//! used from the next handshake on, without a restart; open connections keep the certificate of theirs.

use crate::files::unusable;
use crate::pki::Credential;
use anyhow::Context;
use kstore_access::reloaded::Reloaded;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::PathBuf;
use std::sync::Arc;

/// The certificate of a listener.
#[derive(Debug)]
pub(crate) struct ServingCertificate(Reloaded<Arc<CertifiedKey>>);

impl ServingCertificate {
    /// A certificate that is only in memory.
    ///
    /// # Errors
    /// The certificate and its key cannot be used together.
    pub(crate) fn fixed(credential: &Credential) -> anyhow::Result<Self> {
        let key = certified(&credential.certificate_pem, &credential.key_pem)?;
        Ok(Self(Reloaded::fixed(key)))
    }

    /// The certificate chain and the key in these files (PEM).
    ///
    /// # Errors
    /// They cannot be read, or not be used together.
    pub(crate) fn of_files(certificate: PathBuf, key: PathBuf) -> anyhow::Result<Self> {
        let make = |contents: &[String], _: Option<&_>| match contents {
            [certificate, key] => certified(certificate, key).map_err(|error| unusable(&error)),
            _ => unreachable!("two files have two contents"),
        };
        Ok(Self(Reloaded::new(vec![certificate, key], make)?))
    }

    /// The certificate in its files, or this one if there are none.
    ///
    /// # Errors
    /// As [`Self::of_files`] and [`Self::fixed`].
    pub(crate) fn of(credential: &Credential, files: Option<(PathBuf, PathBuf)>) -> anyhow::Result<Self> {
        match files {
            Some((certificate, key)) => Self::of_files(certificate, key),
            None => Self::fixed(credential),
        }
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.get()))
    }
}

fn certified(certificate_pem: &str, key_pem: &str) -> anyhow::Result<Arc<CertifiedKey>> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(certificate_pem.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes())?;
    let certified = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider());
    Ok(Arc::new(certified.context("the certificate and the key do not match")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Pki;
    use jiff::Timestamp;

    #[test]
    fn a_renewed_certificate_is_shown_without_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::open(dir.path(), Timestamp::constant(1_767_225_600, 0)).unwrap();
        let credential = pki.serving("127.0.0.1", [10, 96, 0, 1].into()).unwrap();
        let serving = ServingCertificate::of(&credential, pki.serving_files()).unwrap();
        let shown = || serving.0.get().cert[0].clone();
        let first = shown();
        assert_eq!(first, shown());
        pki.renew_serving().unwrap();
        let second = shown();
        assert_ne!(first, second);
        let written = std::fs::read(dir.path().join("apiserver.crt")).unwrap();
        assert_eq!(second, CertificateDer::from_pem_slice(&written).unwrap());
        // A key without its certificate, as between two writes.
        let (_, key) = pki.serving_files().unwrap();
        std::fs::copy(dir.path().join("ca.key"), key).unwrap();
        assert_eq!(second, shown());
        pki.renew_serving().unwrap();
        assert_ne!(second, shown());
    }
}
