//! [`Keyring`]: a local provider, which is a cipher and its keys. The first key encrypts, all keys decrypt.

use super::key::NamedKey;
use super::open_error::OpenError;
use super::{aescbc, aesgcm, secretbox};
use kstore_nondet::Rng;

/// The cipher of a local provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cipher {
    AesCbc,
    AesGcm,
    Secretbox,
}

impl Cipher {
    /// The beginning of all values of the cipher, before the name of the key.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::AesCbc => "k8s:enc:aescbc:v1:",
            Self::AesGcm => "k8s:enc:aesgcm:v1:",
            Self::Secretbox => "k8s:enc:secretbox:v1:",
        }
    }

    fn seal(self, key: &[u8], plain: &[u8], storage_key: &[u8], rng: &Rng) -> Vec<u8> {
        match self {
            Self::AesCbc => aescbc::seal(key, plain, rng),
            Self::AesGcm => aesgcm::seal(key, plain, storage_key, rng),
            Self::Secretbox => secretbox::seal(key, plain, rng),
        }
    }

    fn open(self, key: &[u8], sealed: &[u8], storage_key: &[u8]) -> Result<Vec<u8>, OpenError> {
        match self {
            Self::AesCbc => aescbc::open(key, sealed),
            Self::AesGcm => aesgcm::open(key, sealed, storage_key),
            Self::Secretbox => secretbox::open(key, sealed),
        }
    }

    fn missing_key(self) -> OpenError {
        OpenError::NoKey(match self {
            Self::AesCbc | Self::AesGcm => "AES",
            Self::Secretbox => "Secretbox",
        })
    }
}

/// A cipher with at least one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keyring {
    pub(super) cipher: Cipher,
    pub(super) keys: Vec<NamedKey>,
}

impl Keyring {
    /// Appends the encrypted value to the provider's prefix.
    pub(super) fn seal(&self, plain: &[u8], storage_key: &[u8], rng: &Rng) -> Vec<u8> {
        let NamedKey { name, key } = self.keys.first().expect("a provider has a key");
        let body = self.cipher.seal(key.bytes(), plain, storage_key, rng);
        [self.cipher.prefix().as_bytes(), name.as_bytes(), b":", &body].concat()
    }

    /// Decrypts a value behind the provider's prefix. Returns whether another key than the first made it.
    pub(super) fn open(&self, named: &[u8], storage_key: &[u8]) -> Result<(Vec<u8>, bool), OpenError> {
        let mut errors = Vec::new();
        for (index, NamedKey { name, key }) in self.keys.iter().enumerate() {
            let sealed = named.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b":"));
            match sealed.map(|sealed| self.cipher.open(key.bytes(), sealed, storage_key)) {
                None => {}
                Some(Ok(plain)) => return Ok((plain, index != 0)),
                Some(Err(error)) => errors.push(error),
            }
        }
        Err(OpenError::of_all(errors, self.cipher.missing_key()))
    }
}
