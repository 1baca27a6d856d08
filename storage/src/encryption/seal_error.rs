//! [`SealError`]: why a value could not be encrypted. Only a key management service can fail.

/// Why a value could not be encrypted, so that the write is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SealError {
    /// The service has not encrypted a seed yet. The text is kube-apiserver's.
    #[error("got unexpected nil transformer")]
    NoSeed,
    /// The service has been unhealthy for too long, or has another key and encrypts no seed with it.
    #[error("encryptedDEKSource with keyID hash {0:?} expired")]
    Expired(String),
}
