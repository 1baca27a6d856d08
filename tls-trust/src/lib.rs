//! Verifiers of TLS certificates that accept a peer whose own certificate is in the list of authorities, as Go's
//! library does. For servers, for clients, and without any verification.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod clients;
mod listed;
mod servers;
mod signature_checks;

pub use clients::ListedClients;
pub use servers::{AnyServer, ListedServers};

/// Why a list of authorities cannot verify anything.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ListError(#[from] ListFault);

#[derive(Debug, thiserror::Error)]
enum ListFault {
    /// An entry of the list is not a certificate.
    #[error(transparent)]
    Certificate(rustls::Error),
    /// The list is empty.
    #[error(transparent)]
    Verifier(rustls::server::VerifierBuilderError),
}

/// The list as trust anchors.
fn anchors(
    listed: &[rustls::pki_types::CertificateDer<'static>],
) -> Result<rustls::RootCertStore, ListError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in listed {
        roots.add(certificate.clone()).map_err(ListFault::Certificate)?;
    }
    Ok(roots)
}
