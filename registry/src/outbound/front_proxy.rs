//! [`FrontProxy`]: the client certificate with which this server authenticates to aggregated API servers as
//! their front proxy.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;

/// A client certificate and its key. API servers trust it if its authority is in the ConfigMap
/// `kube-system/extension-apiserver-authentication`.
pub struct FrontProxy {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// The certificate or the key is unusable.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    /// The certificate or the key cannot be parsed.
    #[error("the front proxy's certificate or key cannot be read: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The text has no certificate.
    #[error("the front proxy's certificate is empty")]
    NoCertificate,
}

impl FrontProxy {
    /// Parses a PEM chain, which begins with the certificate itself, and the PEM of its key.
    ///
    /// # Errors
    /// If one of them cannot be parsed. A key that does not belong to the certificate fails in the first
    /// handshake.
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, FrontProxyError> {
        let certificates = CertificateDer::pem_slice_iter(certificates.as_bytes());
        let certificates: Vec<_> = certificates.collect::<Result<_, _>>()?;
        if certificates.is_empty() {
            return Err(FrontProxyError::NoCertificate);
        }
        Ok(Self { certificates, key: PrivateKeyDer::from_pem_slice(key.as_bytes())? })
    }
}

/// Omits the key, which must not appear in logs.
impl fmt::Debug for FrontProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontProxy").finish_non_exhaustive()
    }
}
