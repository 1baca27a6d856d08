//! [`Storage`]: where the objects of a control plane are stored.

use crate::phase::Phase;
use crate::retention::SHORT_LIVED_HISTORY_BYTES;
use kstore_nondet::{Nondet, Rng};
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::etcd::{Config as EtcdConfig, ConfigError, Dial, Etcd};
use kstore_storage::storage::{SharedStorage, Storage as _};
use kstore_store::{Config, NoSpaceReason, OpenError, Store};
use std::fmt;
use std::sync::Arc;

/// Where the objects of a control plane are stored. The default is a new store in memory, whose history has at most
/// [`SHORT_LIVED_HISTORY_BYTES`].
#[derive(Clone)]
pub enum Storage {
    /// A store of this process, which the control plane opens: in memory or on disk. Its core phase closes the store.
    Embedded(Box<Config>),
    /// A store of this process that is already open. The control plane's core phase closes it.
    Opened(Store),
    /// Another storage, which its owner closes when the core phase ends: see [`Storage::etcd`].
    External(SharedStorage),
}

impl Default for Storage {
    fn default() -> Self {
        let mut config = Config::memory();
        config.limits.history_bytes = Some(SHORT_LIVED_HISTORY_BYTES);
        Self::Embedded(Box::new(config))
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded(_) => "Storage::Embedded",
            Self::Opened(_) => "Storage::Opened",
            Self::External(_) => "Storage::External",
        })
    }
}

impl Storage {
    /// An etcd. Nothing is dialled before the first request; the connections close when `core`, the core phase of the control plane, is
    /// stopped.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn etcd(
        config: &EtcdConfig,
        dial: Arc<dyn Dial>,
        rng: &Rng,
        core: &Phase,
    ) -> Result<Self, ConfigError> {
        let (storage, work) = Etcd::new(config, dial, rng)?;
        core.spawn("external-etcd", work);
        let (closing, stop) = (storage.clone(), core.stop());
        core.spawn("external-etcd-end", async move {
            stop.cancelled().await;
            closing.close().await;
        });
        Ok(Self::External(storage))
    }

    /// Opens the storage. The store is `None` if it is outside of this process.
    pub(crate) async fn open(
        self,
        nondet: &Nondet,
        explain: fn(&NoSpaceReason) -> String,
    ) -> Result<(SharedStorage, Option<Store>), OpenError> {
        let store = match self {
            Self::External(storage) => return Ok((storage, None)),
            Self::Opened(store) => store,
            Self::Embedded(config) => Store::open(*config, nondet.clone()).await?,
        };
        Ok((Arc::new(Embedded::explaining(store.clone(), explain)), Some(store)))
    }
}
