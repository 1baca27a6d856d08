//! The form of values that the provider stores: [`EncryptedObject`] messages, and the derivation of data keys.
//! Pure.

use super::super::aesgcm;
use super::super::key::Key;
use super::super::open_error::OpenError;
use bytes::Bytes;
use kstore_nondet::Rng;
use kstore_proto::kms::v2::{EncryptedDekSourceType, EncryptedObject};
use prost::Message as _;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of a seed, of the input of a derivation, and of a derived key.
pub(super) const SEED: usize = 32;
/// Most bytes of a key's name and of an encrypted seed; Kubernetes' bounds.
const NAME_BYTES: usize = 1024;
/// Most bytes of all annotations together; Kubernetes' bound.
const ANNOTATION_BYTES: usize = 32 * 1024;

/// An encrypted seed or data key, as the service made it and as every value that uses it carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedSeed {
    pub(super) key_id: String,
    pub(super) source: Bytes,
    pub(super) annotations: BTreeMap<String, Bytes>,
    pub(super) kind: EncryptedDekSourceType,
}

impl SealedSeed {
    /// Checks the bounds that Kubernetes sets.
    pub(super) fn validate(&self) -> Result<(), String> {
        let (source, limit) = (self.source.len(), NAME_BYTES);
        let dek = "failed to validate encrypted DEK source: encrypted DEK source is";
        if source == 0 {
            return Err(format!("{dek} empty"));
        }
        if source > limit {
            return Err(format!("{dek} {source} bytes, which exceeds the max size of {limit}"));
        }
        validate_key_id(&self.key_id).map_err(|reason| format!("failed to validate key id: {reason}"))?;
        let failed = |reason: String| Err(format!("failed to validate annotations: {reason}"));
        for name in self.annotations.keys() {
            let is_domain = name.contains('.') && kstore_api::name::dns1123_subdomain(name).is_empty();
            if !is_domain {
                return failed(format!(
                    "annotations: Invalid value: {name:?}: should be a domain with at least two segments separated by dots"
                ));
            }
        }
        let total: usize = self.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        if total > ANNOTATION_BYTES {
            return failed(format!(
                "total size of annotations is {total}, which exceeds the max size of {ANNOTATION_BYTES}"
            ));
        }
        Ok(())
    }

    /// Identifies the seed among those that are decrypted.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(&(self.kind as i32).to_le_bytes());
        part(&self.source);
        part(self.key_id.as_bytes());
        for (name, value) in &self.annotations {
            part(name.as_bytes());
            part(value);
        }
        hash.finalize().into()
    }

    /// The value to store: `plain` encrypted by a new key that follows from the seed.
    pub(super) fn seal(&self, seed: &Key, plain: &[u8], storage_key: &[u8], rng: &Rng) -> Vec<u8> {
        let mut info = [0; SEED];
        rng.fill_secret(&mut info);
        let key = derived_key(seed, &info);
        let body = aesgcm::seal(&key, plain, storage_key, rng);
        let object = EncryptedObject {
            encrypted_data: [&info[..], &body].concat().into(),
            key_id: self.key_id.clone(),
            encrypted_dek_source: self.source.clone(),
            annotations: self.annotations.clone(),
            encrypted_dek_source_type: self.kind as i32,
        };
        object.encode_to_vec()
    }
}

/// A decoded value and the seed that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) sealed: SealedSeed,
    data: Bytes,
}

impl Envelope {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, OpenError> {
        let object =
            EncryptedObject::decode(bytes).map_err(|error| OpenError::Envelope(error.to_string()))?;
        let kind = EncryptedDekSourceType::try_from(object.encrypted_dek_source_type);
        let kind = kind.map_err(|_| {
            let found = object.encrypted_dek_source_type;
            OpenError::Envelope(format!("unknown encryptedDEKSourceType: {found}"))
        })?;
        if object.encrypted_data.is_empty() {
            return Err(OpenError::Envelope("encrypted data is empty".to_owned()));
        }
        let sealed = SealedSeed {
            key_id: object.key_id,
            source: object.encrypted_dek_source,
            annotations: object.annotations,
            kind,
        };
        sealed.validate().map_err(OpenError::Envelope)?;
        Ok(Self { sealed, data: object.encrypted_data })
    }

    /// Decrypts the value with the decrypted seed or key.
    pub(super) fn open(&self, source: &Key, storage_key: &[u8]) -> Result<Vec<u8>, OpenError> {
        match self.sealed.kind {
            EncryptedDekSourceType::AesGcmKey => {
                check_key_size(source)?;
                aesgcm::open(source.bytes(), &self.data, storage_key)
            }
            EncryptedDekSourceType::HkdfSha256XnonceAesGcmSeed => {
                if source.bytes().len() < SEED {
                    let size = source.bytes().len();
                    return Err(OpenError::Envelope(format!(
                        "invalid seed length {size} used for key generation"
                    )));
                }
                let (info, body) = self.data.split_at_checked(SEED).ok_or(OpenError::TooShort)?;
                aesgcm::open(&derived_key(source, info), body, storage_key)
            }
        }
    }
}

fn check_key_size(key: &Key) -> Result<(), OpenError> {
    match key.bytes().len() {
        16 | 24 | 32 => Ok(()),
        size => Err(OpenError::Envelope(format!("crypto/aes: invalid key size {size}"))),
    }
}

/// Checks a key's name in an answer of the service.
pub(super) fn validate_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        length if length > NAME_BYTES => {
            Err(format!("keyID is {length} bytes, which exceeds the max size of {NAME_BYTES}"))
        }
        _ => Ok(()),
    }
}

/// A key's name as messages show it; the name itself may tell about the service.
pub(super) fn shown_key_id(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(key_id) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// HKDF-Expand of RFC 5869 with SHA-256.
fn derived_key(seed: &Key, info: &[u8]) -> [u8; SEED] {
    struct Length;
    impl KeyType for Length {
        fn len(&self) -> usize {
            SEED
        }
    }
    let mut key = [0; SEED];
    let (info, seed) = ([info], Prk::new_less_safe(HKDF_SHA256, seed.bytes()));
    let filled = seed.expand(&info, Length).and_then(|output| output.fill(&mut key));
    filled.expect("32 bytes are less than 255 hashes");
    key
}
