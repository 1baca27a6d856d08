//! Verification of a certificate that is itself listed as a trusted authority, as Go's library, and so
//! Kubernetes, does it. Checks dates and purpose only. The signature does not matter; callers check names,
//! and that the certificate is listed.

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};

/// The side of a connection that a certificate authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client (`clientAuth`).
    Client,
    /// A server (`serverAuth`).
    Server,
}

/// Checks that a certificate is valid now and may be used for `purpose`. A certificate that names no purpose
/// may be used for any.
///
/// # Errors
/// `BadEncoding` if the bytes are not a certificate, `NotValidYet`, `Expired` or `InvalidPurpose`.
pub(crate) fn verify_listed(
    certificate: &CertificateDer<'_>,
    purpose: Purpose,
    now: UnixTime,
) -> Result<(), Error> {
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
