//! Encryption at rest by an `EncryptionConfiguration`, in Kubernetes' formats: a kube-apiserver with the same
//! configuration reads what this server writes to an etcd, and the reverse.
//!
//! Objects are encrypted where their bytes meet the storage ([`EncryptedStorage`]) and decrypted once for
//! each value that is read there. So the watch cache and all watchers share plaintext, and neither the log
//! nor the history of the store has any. Pure parts: `config` parses the configuration, `transformer` chooses
//! the providers of a resource, `keyring` encrypts with local keys by `aescbc`, `aesgcm` and `secretbox`.

mod aescbc;
mod aesgcm;
mod config;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod key;
mod keyring;
mod kms;
mod live;
mod open_error;
mod seal_error;
mod secretbox;
mod storage;
#[cfg(test)]
mod tests;
mod transformer;

pub use config::ConfigError;
pub use live::{Encryption, LoadError};
pub use storage::EncryptedStorage;
pub use transformer::ENCRYPTED;
