//! [`Transformers`]: the providers that encrypt the values of each resource. Pure: values in, values out; the
//! only state is the random generator of nonces.

use super::config::{Configuration, GroupResource, ProviderConfig};
use super::keyring::Keyring;
use super::kms::{KmsProvider, SealedSeed};
use super::open_error::OpenError;
use super::seal_error::SealError;
use crate::storage_key::KeyPlace;
use bytes::Bytes;
use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The beginning of every encrypted value, of any provider.
pub const ENCRYPTED: &[u8] = b"k8s:enc:";

/// One provider of a resource.
#[derive(Debug)]
enum Provider {
    /// Stores values as they are.
    Identity,
    /// Encrypts with keys from the configuration.
    Local(Keyring),
    /// Encrypts with keys that a key management service protects.
    Kms(Arc<KmsProvider>),
}

impl Provider {
    /// The beginning of the provider's values; `None` if it stores them as they are.
    fn prefix(&self) -> Option<&str> {
        match self {
            Self::Identity => None,
            Self::Local(keyring) => Some(keyring.cipher.prefix()),
            Self::Kms(kms) => Some(&kms.prefix),
        }
    }

    /// Decrypts a value behind the provider's prefix. Returns whether another key than the first made it.
    fn open(&self, named: &[u8], storage_key: &[u8]) -> Result<(Vec<u8>, bool), OpenFailure> {
        match self {
            Self::Identity => Ok((named.to_vec(), false)),
            Self::Local(keyring) => keyring.open(named, storage_key).map_err(OpenFailure::Error),
            Self::Kms(kms) => match kms.open(named, storage_key).map_err(OpenFailure::Error)? {
                Ok(opened) => Ok(opened),
                Err(seed) => Err(OpenFailure::NeedsSeed(kms.clone(), Box::new(seed))),
            },
        }
    }
}

/// Why a value is not decrypted.
#[derive(Debug)]
pub(super) enum OpenFailure {
    /// It cannot be decrypted.
    Error(OpenError),
    /// A service must decrypt this seed first ([`KmsProvider::fetch`]); then the value may be opened again.
    NeedsSeed(Arc<KmsProvider>, Box<SealedSeed>),
}

/// A decrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) plain: Bytes,
    /// Whether the value must be written again, even unchanged, to be encrypted as the configuration says.
    pub(super) stale: bool,
}

/// The providers of a resource, at least one. The first encrypts; all decrypt.
#[derive(Debug, Default)]
pub(super) struct Providers(Vec<Arc<Provider>>);

impl Providers {
    /// The value to store under a storage key.
    pub(super) fn seal(&self, plain: &Bytes, storage_key: &[u8], rng: &Rng) -> Result<Bytes, SealError> {
        Ok(match &**self.0.first().expect("a resource has a provider") {
            Provider::Identity => plain.clone(),
            Provider::Local(keyring) => keyring.seal(plain, storage_key, rng).into(),
            Provider::Kms(kms) => kms.seal(plain, storage_key, rng)?.into(),
        })
    }

    /// Decrypts the value that is stored under a storage key. Providers are asked in their order, and a
    /// failure of one does not keep the next from trying, as in kube-apiserver: during a rotation two
    /// providers of one cipher may be listed.
    pub(super) fn open(&self, stored: &Bytes, storage_key: &[u8]) -> Result<Opened, OpenFailure> {
        let mut errors = Vec::new();
        for (index, provider) in self.0.iter().enumerate() {
            let Some(prefix) = provider.prefix() else {
                if stored.starts_with(ENCRYPTED) {
                    continue;
                }
                return Ok(Opened { plain: stored.clone(), stale: index != 0 });
            };
            let Some(named) = stored.strip_prefix(prefix.as_bytes()) else { continue };
            match provider.open(named, storage_key) {
                Ok((plain, stale)) => {
                    return Ok(Opened { plain: plain.into(), stale: stale || index != 0 });
                }
                Err(OpenFailure::Error(error)) => errors.push(error),
                Err(needs_seed @ OpenFailure::NeedsSeed(..)) => return Err(needs_seed),
            }
        }
        Err(OpenFailure::Error(OpenError::of_all(errors, OpenError::NoPrefix)))
    }
}

/// The providers of all resources that a configuration names.
#[derive(Debug, Default)]
pub(super) struct Transformers {
    /// By group and plural; each may be `*`.
    by_group: BTreeMap<String, BTreeMap<String, Providers>>,
    /// The key management services, in the order of the configuration.
    services: Vec<Arc<KmsProvider>>,
}

impl Transformers {
    /// The providers of a valid configuration. With a key management service, must be called inside a tokio
    /// runtime.
    pub(super) fn of(configuration: &Configuration, rng: &Rng) -> Self {
        let mut services = Vec::new();
        let mut provider = |config: &ProviderConfig| match config {
            ProviderConfig::Identity => Provider::Identity,
            ProviderConfig::Local(keyring) => Provider::Local(keyring.clone()),
            ProviderConfig::Kms(config) => {
                let kms = Arc::new(KmsProvider::new(config, rng));
                services.push(kms.clone());
                Provider::Kms(kms)
            }
        };
        let mut by_group: BTreeMap<String, BTreeMap<String, Providers>> = BTreeMap::new();
        for rule in &configuration.rules {
            let providers: Vec<_> = rule.providers.iter().map(|config| Arc::new(provider(config))).collect();
            for GroupResource { group, resource } in &rule.resources {
                let group = by_group.entry(group.clone()).or_default();
                group.entry(resource.clone()).or_default().0.extend(providers.iter().cloned());
            }
        }
        Self { by_group, services }
    }

    /// The key management services.
    pub(super) fn services(&self) -> &[Arc<KmsProvider>] {
        &self.services
    }

    /// The providers of the resource that a storage key belongs to; `None` if its values are stored as they
    /// are. A name takes precedence over `*.group`, and that over `*.*`.
    pub(super) fn of_key(&self, key: &str) -> Option<&Providers> {
        let KeyPlace { group, plural, .. } = KeyPlace::of(key)?;
        let get = |group: &str, resource: &str| self.by_group.get(group)?.get(resource);
        get(group, plural).or_else(|| get(group, "*")).or_else(|| get("*", "*"))
    }
}
