//! [`Encryption`]: the encryption configuration in use. Another configuration replaces it in one step.

use super::config::{ConfigError, Configuration};
use super::storage::EncryptedStorage;
use super::transformer::Transformers;
use crate::storage::SharedStorage;
use kstore_nondet::Rng;
use parking_lot::RwLock;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Prefix of all storage keys of the embedded store, and Kubernetes' default in an etcd.
pub(super) const ROOT: &str = "/registry";

/// Why the configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(
        "error while parsing file: error while loading file: error reading encryption provider configuration file {file:?}: {error}"
    )]
    Unreadable {
        /// The file's name.
        file: String,
        /// The reason.
        error: std::io::Error,
    },
    /// The content is not a valid configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The encryption of one server's objects. Shared by `Arc`.
pub struct Encryption {
    current: RwLock<Arc<Transformers>>,
    /// Source of nonces and initialization vectors.
    pub(super) rng: Rng,
    /// Prefix of the keys in the storage itself, which AES-GCM authenticates.
    root: String,
    /// Whether a value could not be decrypted since the configuration last changed.
    has_failed: AtomicBool,
    /// Number of changes after which values that could not be decrypted may be readable.
    generation: AtomicU64,
    changed: Notify,
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encryption").finish_non_exhaustive()
    }
}

impl Encryption {
    /// The encryption that the configuration in a file describes. `root` is the prefix of the storage's keys,
    /// which replaces `/registry` in an etcd.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid configuration.
    pub fn open(file: &Path, root: &str, rng: Rng) -> Result<Self, LoadError> {
        let configuration = read(file)?;
        Ok(Self::of(&configuration, root, rng))
    }

    pub(super) fn of(configuration: &Configuration, root: &str, rng: Rng) -> Self {
        Self {
            current: RwLock::new(Arc::new(Transformers::of(configuration))),
            rng,
            root: format!("/{}", root.trim_matches('/')),
            has_failed: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// A storage that encrypts and decrypts in front of another one.
    pub fn over(self: &Arc<Self>, storage: SharedStorage) -> SharedStorage {
        Arc::new(EncryptedStorage::new(storage, self.clone()))
    }

    /// The providers in use now. A caller that keeps the result sees one configuration.
    pub(super) fn transformers(&self) -> Arc<Transformers> {
        self.current.read().clone()
    }

    /// Replaces the configuration for all later reads and writes.
    pub(super) fn replace(&self, configuration: &Configuration) {
        *self.current.write() = Arc::new(Transformers::of(configuration));
        self.try_again();
    }

    /// The key in the storage itself, for a key in the apiserver.
    pub(super) fn stored_key(&self, key: &str) -> Vec<u8> {
        let rest = key.strip_prefix(ROOT).unwrap_or(key);
        format!("{}{rest}", self.root).into_bytes()
    }

    /// Records that a value could not be decrypted.
    pub(super) fn record_failure(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    /// Whether a value could not be decrypted since this was last asked.
    pub(super) fn take_failure(&self) -> bool {
        self.has_failed.swap(false, Ordering::AcqRel)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Has all values that could not be decrypted read again.
    pub(super) fn try_again(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Waits until the generation is not `seen` any more.
    pub(super) async fn changed_since(&self, seen: u64) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.generation() != seen {
                return;
            }
            changed.await;
        }
    }
}

/// Reads and parses a configuration file.
pub(super) fn read(file: &Path) -> Result<Configuration, LoadError> {
    let shown = file.display().to_string();
    let text = std::fs::read(file).map_err(|error| LoadError::Unreadable { file: shown.clone(), error })?;
    Ok(Configuration::parse(&text, &shown)?)
}
