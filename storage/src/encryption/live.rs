//! [`Encryption`]: the encryption configuration in use. Another configuration replaces it in one step.

use super::config::{ConfigError, Configuration};
use super::kms::KmsProvider;
use super::storage::EncryptedStorage;
use super::transformer::Transformers;
use crate::limits::ENCRYPTION_RELOAD;
use crate::storage::SharedStorage;
use futures::future::BoxFuture;
use kstore_nondet::Rng;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

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
    /// A key management service of the configuration does not work.
    #[error("health check for new transformers failed: {0}")]
    Unhealthy(String),
    /// The content is not a valid configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A configuration in use.
struct Active {
    transformers: Arc<Transformers>,
    /// The tasks that check key management services; they end with the configuration.
    _checks: Vec<AbortOnDropHandle<()>>,
}

/// The encryption of one server's objects. Shared by `Arc`.
pub struct Encryption {
    current: RwLock<Active>,
    /// Hash of the file's text that `current` was made of.
    loaded: Mutex<[u8; 32]>,
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
        let text = read(file)?;
        let encryption = Self::of(&parse(file, &text)?, root, rng);
        *encryption.loaded.lock() = hash(&text);
        Ok(encryption)
    }

    pub(super) fn of(configuration: &Configuration, root: &str, rng: Rng) -> Self {
        Self {
            current: RwLock::new(Active {
                transformers: Arc::new(Transformers::of(configuration, &rng)),
                _checks: Vec::new(),
            }),
            loaded: Mutex::default(),
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
        self.current.read().transformers.clone()
    }

    /// Reads the configuration file again at intervals of [`ENCRYPTION_RELOAD`], and uses it once it has
    /// changed and is valid. Never returns.
    /// Boxed here, so that no crate above generates the code again.
    pub fn reload_changes(self: Arc<Self>, file: PathBuf) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let shown = file.display();
            loop {
                tokio::time::sleep(ENCRYPTION_RELOAD).await;
                match self.reload(&file).await {
                    Ok(false) => {}
                    Ok(true) => tracing::info!(%shown, "the encryption configuration was read again"),
                    Err(error) => {
                        tracing::error!("the encryption configuration stays as it was: {error}");
                    }
                }
            }
        })
    }

    /// Checks all key management services, and goes on checking them. A service that does not answer is no
    /// error: until it does, its values are not written, and not read unless their seed is known.
    /// Boxed here, so that no crate above generates the code again.
    pub fn begin<'a>(self: &'a Arc<Self>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let transformers = self.transformers();
            check_all(&transformers).await;
            self.activate(transformers);
        })
    }

    fn activate(self: &Arc<Self>, transformers: Arc<Transformers>) {
        let check = |kms: &Arc<KmsProvider>| {
            let (kms, this) = (kms.clone(), Arc::downgrade(self));
            let again = move || {
                if let Some(encryption) = this.upgrade() {
                    encryption.try_again();
                }
            };
            AbortOnDropHandle::new(tokio::spawn(async move { kms.keep_checking(again).await }))
        };
        let _checks = transformers.services().iter().map(check).collect();
        *self.current.write() = Active { transformers, _checks };
    }

    /// Whether all key management services are healthy; `None` if there are none.
    pub(super) fn has_healthy_keys(&self) -> Option<bool> {
        let transformers = self.transformers();
        let services = transformers.services();
        // All are asked: each may have to be checked again.
        let healthy = services.iter().filter(|kms| kms.is_healthy()).count();
        (!services.is_empty()).then_some(healthy == services.len())
    }

    /// Uses the file's configuration if its text has changed; returns whether it has.
    async fn reload(self: &Arc<Self>, file: &Path) -> Result<bool, LoadError> {
        let text = read(file)?;
        if *self.loaded.lock() == hash(&text) {
            return Ok(false);
        }
        let configuration = parse(file, &text)?;
        let transformers = Arc::new(Transformers::of(&configuration, &self.rng));
        check_all(&transformers).await;
        if let Some(error) = transformers.services().iter().find_map(|kms| kms.last_error()) {
            return Err(LoadError::Unhealthy(error));
        }
        self.activate(transformers);
        *self.loaded.lock() = hash(&text);
        self.try_again();
        Ok(true)
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
    pub fn take_failure(&self) -> bool {
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

async fn check_all(transformers: &Transformers) {
    futures::future::join_all(transformers.services().iter().map(|kms| kms.check())).await;
}

fn read(file: &Path) -> Result<Vec<u8>, LoadError> {
    let unreadable = |error| LoadError::Unreadable { file: file.display().to_string(), error };
    std::fs::read(file).map_err(unreadable)
}

fn parse(file: &Path, text: &[u8]) -> Result<Configuration, ConfigError> {
    Configuration::parse(text, &file.display().to_string())
}

/// Stands for a configuration's text, which has keys and is not kept.
fn hash(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}
