//! The provider `kms` (KMS v2): values are encrypted with keys that follow from a seed, and a key management
//! service outside encrypts the seed. Reading needs one call for each seed, writing none.
//!
//! `envelope` is the form of stored values and `write_key` the life of the seed for writes, both pure;
//! `service` calls the plugin; `provider` joins them.

mod endpoint;
mod envelope;
mod provider;
mod service;
#[cfg(test)]
mod tests;
mod write_key;

use endpoint::Endpoint;
pub(super) use endpoint::EndpointError;
pub(super) use envelope::SealedSeed;
pub(super) use provider::KmsProvider;
use std::time::Duration;

/// Whether bytes are a stored value, for fuzzing.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn decodes(bytes: &[u8]) -> bool {
    let key = super::key::Key::new(vec![7; 32]);
    envelope::Envelope::decode(bytes).is_ok_and(|envelope| envelope.open(&key, b"/registry/a").is_ok())
}

/// The configuration of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KmsConfig {
    /// Name of the provider, which precedes its values. Unique in a configuration.
    pub(super) name: String,
    /// The service's socket.
    pub(super) endpoint: Endpoint,
    /// How long a call may take.
    pub(super) timeout: Duration,
}

impl KmsConfig {
    pub(super) fn new(name: String, endpoint: &str, timeout: Duration) -> Result<Self, EndpointError> {
        Ok(Self { name, endpoint: endpoint.parse()?, timeout })
    }
}
