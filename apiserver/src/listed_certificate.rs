//! Certificates that are themselves in a list of authorities: which of them Go's library accepts, and so Kubernetes. Only what is left
//! to check when no signature counts; names, and whether the certificate is listed, are the callers' to check.

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};

/// The side of a connection that a certificate speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client's (`clientAuth`).
    Client,
    /// A server's (`serverAuth`).
    Server,
}

/// Checks the dates of a certificate, and that it may be used for `purpose`; a certificate that names no purpose may be used for any.
///
/// # Errors
/// `BadEncoding` if it is no certificate, `NotValidYet`, `Expired` or `InvalidPurpose`.
pub fn verify_listed(certificate: &CertificateDer<'_>, purpose: Purpose, now: UnixTime) -> Result<(), Error> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    let usage = certificate.extended_key_usage().map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let is_meant = usage.is_none_or(|usage| {
        usage.value.any
            || match purpose {
                Purpose::Client => usage.value.client_auth,
                Purpose::Server => usage.value.server_auth,
            }
    });
    if is_meant { Ok(()) } else { Err(CertificateError::InvalidPurpose.into()) }
}
