//! [`Transformers`]: which providers encrypt the values of which resource. Pure: values in, values out; the
//! only state is the random generator of nonces.

use super::config::{Configuration, GroupResource, ProviderConfig};
use super::keyring::Keyring;
use super::open_error::OpenError;
use crate::kinds::KeyPlace;
use bytes::Bytes;
use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The beginning of every encrypted value, of any provider.
pub(crate) const ENCRYPTED: &[u8] = b"k8s:enc:";

/// One provider of a resource.
#[derive(Debug)]
enum Provider {
    /// Stores values as they are.
    Identity,
    /// Encrypts with keys from the configuration.
    Local(Keyring),
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
    pub(super) fn seal(&self, plain: &Bytes, storage_key: &[u8], rng: &Rng) -> Bytes {
        match &**self.0.first().expect("a resource has a provider") {
            Provider::Identity => plain.clone(),
            Provider::Local(keyring) => keyring.seal(plain, storage_key, rng).into(),
        }
    }

    /// Decrypts the value that is stored under a storage key. Providers are asked in their order, and a
    /// failure of one does not keep the next from trying, as in kube-apiserver: during a rotation two
    /// providers of one cipher may be listed.
    pub(super) fn open(&self, stored: &Bytes, storage_key: &[u8]) -> Result<Opened, OpenError> {
        let mut errors = Vec::new();
        for (index, provider) in self.0.iter().enumerate() {
            match &**provider {
                Provider::Identity if stored.starts_with(ENCRYPTED) => {}
                Provider::Identity => return Ok(Opened { plain: stored.clone(), stale: index != 0 }),
                Provider::Local(keyring) => {
                    let named = stored.strip_prefix(keyring.cipher.prefix().as_bytes());
                    match named.map(|named| keyring.open(named, storage_key)) {
                        None => {}
                        Some(Ok((plain, stale))) => {
                            return Ok(Opened { plain: plain.into(), stale: stale || index != 0 });
                        }
                        Some(Err(error)) => errors.push(error),
                    }
                }
            }
        }
        Err(OpenError::of_all(errors, OpenError::NoPrefix))
    }
}

/// The providers of all resources that a configuration names.
#[derive(Debug, Default)]
pub(super) struct Transformers {
    /// By group and plural, either of which may be `*`.
    by_group: BTreeMap<String, BTreeMap<String, Providers>>,
}

impl Transformers {
    /// The providers of a valid configuration.
    pub(super) fn of(configuration: &Configuration) -> Self {
        let mut by_group: BTreeMap<String, BTreeMap<String, Providers>> = BTreeMap::new();
        for rule in &configuration.rules {
            let providers: Vec<_> = rule.providers.iter().map(|given| Arc::new(provider(given))).collect();
            for GroupResource { group, resource } in &rule.resources {
                let group = by_group.entry(group.clone()).or_default();
                group.entry(resource.clone()).or_default().0.extend(providers.iter().cloned());
            }
        }
        Self { by_group }
    }

    /// The providers of the resource that a storage key belongs to; `None` if its values are stored as they
    /// are. A name takes precedence over `*.group`, and that over `*.*`.
    pub(super) fn of_key(&self, key: &str) -> Option<&Providers> {
        let KeyPlace { group, plural, .. } = KeyPlace::of(key)?;
        let get = |group: &str, resource: &str| self.by_group.get(group)?.get(resource);
        get(group, plural).or_else(|| get(group, "*")).or_else(|| get("*", "*"))
    }
}

fn provider(config: &ProviderConfig) -> Provider {
    match config {
        ProviderConfig::Identity => Provider::Identity,
        ProviderConfig::Local(keyring) => Provider::Local(keyring.clone()),
    }
}
