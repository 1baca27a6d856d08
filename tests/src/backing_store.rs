//! [`BackingStore`]: the storage below the apiservers of a simulated cluster, with the tests' own access to
//! it. [`Storage`] selects one of three.

use crate::Change;
use crate::on_etcd::{Pipes, etcd_config};
use crate::relay::{EtcdLoan, Relay};
use futures::StreamExt as _;
use kstore_cluster::Phase;
use kstore_nondet::Nondet;
use kstore_storage::storage::etcd::{Config as EtcdConfig, Dial};
use kstore_store::{Config, KeyRange, Range, Revision, Store, StoreImage, WatchRequest, Watcher};
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Storage of objects below the apiservers. The API tests run on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// An embedded store.
    Embedded,
    /// The store behind kstore's etcd API, over in-process pipes, used as an external etcd: also
    /// deterministic and in virtual time.
    Etcd,
    /// A real etcd, used exclusively by one test at a time, under a unique prefix. Virtual time stands still
    /// while etcd works: see `relay`.
    RealEtcd,
}

/// Environment variable that selects the storage.
pub const STORAGE: &str = "KSTORE_TEST_STORAGE";

impl Storage {
    /// The storage that the environment selects: `KSTORE_TEST_STORAGE=etcd`, or `=http://…` for real etcds
    /// (comma-separated, one per concurrent test), otherwise the embedded store.
    ///
    /// # Panics
    ///
    /// The variable has another value.
    pub fn from_environment() -> Self {
        match std::env::var(STORAGE) {
            Err(_) => Self::Embedded,
            Ok(name) if name == "etcd" => Self::Etcd,
            Ok(urls) if urls.starts_with("http://") => Self::RealEtcd,
            Ok(name) => panic!("{STORAGE}={name:?}: only `etcd` and URLs of real ones are known"),
        }
    }
}

/// The storage below the apiservers of one cluster.
pub struct BackingStore {
    kind: BackendKind,
    nondet: Nondet,
    /// The last phase of the cluster, in which the storage closes.
    core: Phase,
    /// Tasks of the etcd, or of its relay.
    tasks: TaskTracker,
}

enum BackendKind {
    /// The embedded store, with its etcd API if apiservers use that.
    Embedded {
        store: Store,
        pipes: Option<Arc<Pipes>>,
    },
    Real {
        relay: Relay,
        _loan: EtcdLoan,
    },
}

impl BackingStore {
    pub(crate) async fn new(
        storage: Storage,
        image: Option<&StoreImage>,
        nondet: &Nondet,
        core: &Phase,
    ) -> Self {
        let (stop, tasks) = (core.stop(), TaskTracker::new());
        let store = async || match image {
            Some(image) => Store::from_image(image, nondet),
            None => Store::open(Config::memory(), nondet.clone()).await.expect("a store in memory opens"),
        };
        let kind = match storage {
            Storage::Embedded => BackendKind::Embedded { store: store().await, pipes: None },
            Storage::Etcd => {
                let store = store().await;
                let pipes = Some(Pipes::new(&store, &stop, &tasks));
                let closing = store.clone();
                core.spawn("store-of-etcd", async move {
                    stop.cancelled().await;
                    closing.close().await;
                });
                BackendKind::Embedded { store, pipes }
            }
            Storage::RealEtcd => {
                let loan = EtcdLoan::take();
                let relay = Relay::to(loan.url(), &tasks);
                let closing = relay.clone();
                core.spawn("relay-to-etcd", async move {
                    stop.cancelled().await;
                    closing.cut();
                });
                relay.put_all(image.map(objects).unwrap_or_default());
                BackendKind::Real { relay, _loan: loan }
            }
        };
        Self { kind, nondet: nondet.clone(), core: core.clone(), tasks }
    }

    /// The storage for one apiserver.
    pub(crate) fn storage(&self) -> kstore_cluster::Storage {
        let config = etcd_config(&["http://etcd.invalid:2379"]);
        match &self.kind {
            BackendKind::Embedded { store, pipes: None } => kstore_cluster::Storage::Opened(store.clone()),
            BackendKind::Embedded { pipes: Some(pipes), .. } => self.etcd(&config, pipes.clone()),
            BackendKind::Real { relay, .. } => {
                let config = EtcdConfig { prefix: relay.prefix().to_owned(), ..config };
                self.etcd(&config, Arc::new(relay.clone()))
            }
        }
    }

    fn etcd(&self, config: &EtcdConfig, dial: Arc<dyn Dial>) -> kstore_cluster::Storage {
        kstore_cluster::Storage::etcd(config, dial, &self.nondet.rng, &self.core)
            .expect("the configuration is good")
    }

    /// Waits until the tasks of the etcd have ended, after the cluster's.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The contents of the embedded store, from which others can start.
    ///
    /// # Panics
    ///
    /// The storage is a real etcd, or closed.
    pub(crate) fn image(&self) -> StoreImage {
        match &self.kind {
            BackendKind::Embedded { store, .. } => store.image().expect("an open store can be copied"),
            BackendKind::Real { .. } => panic!("a real etcd is not copied"),
        }
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        match &self.kind {
            BackendKind::Embedded { store, .. } => store.revision(),
            BackendKind::Real { relay, .. } => Revision(relay.revision()),
        }
    }

    /// Compacts the history before a revision.
    ///
    /// # Errors
    ///
    /// The revision cannot be compacted.
    pub async fn compact(&self, revision: Revision) -> Result<(), String> {
        match &self.kind {
            BackendKind::Embedded { store, .. } => {
                store.compact(revision).await.map(drop).map_err(|error| error.to_string())
            }
            BackendKind::Real { relay, .. } => relay.compact(revision.0).map_err(|status| status.to_string()),
        }
    }

    /// Writes a key directly, bypassing the apiservers; `key` begins with `/registry/` on every storage.
    ///
    /// # Errors
    ///
    /// The write failed.
    pub async fn put(&self, key: &str, value: impl Into<Vec<u8>>) -> Result<(), String> {
        let value = value.into();
        match &self.kind {
            BackendKind::Embedded { store, .. } => {
                store.put(key.to_owned(), value).await.map(drop).map_err(|error| error.to_string())
            }
            BackendKind::Real { relay, .. } => relay.put(key, value).map_err(|status| status.to_string()),
        }
    }

    /// Closes the storage, also for the apiservers.
    pub async fn close(&self) {
        match &self.kind {
            BackendKind::Embedded { store, .. } => store.close().await,
            BackendKind::Real { relay, .. } => relay.cut(),
        }
    }

    /// All changes of objects, in order. The key in which an etcd keeps notes is left out.
    pub(crate) fn history(&self) -> Vec<Change> {
        match &self.kind {
            BackendKind::Embedded { store, .. } => Change::of_store(store),
            BackendKind::Real { relay, .. } => relay.history(),
        }
    }

    /// Notifications of writes from now on.
    pub(crate) fn changes(&self) -> Changes {
        match &self.kind {
            BackendKind::Embedded { store, .. } => {
                let everything = WatchRequest::new(KeyRange::all());
                Changes::Embedded(Box::new(store.watch(everything).expect("an open store can be watched")))
            }
            BackendKind::Real { relay, .. } => Changes::Real(relay.changes(relay.revision() + 1)),
        }
    }
}

/// The keys and values of all objects of a store.
fn objects(image: &StoreImage) -> Vec<(String, Vec<u8>)> {
    let store = Store::from_image(image, &Nondet::simulated(0));
    let all = store.range(&Range::new(KeyRange::prefix("/registry/")));
    let all = all.expect("a store in memory is readable").kvs;
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).expect("keys of objects are text");
    all.iter().map(|object| (text(object.key()), object.value().to_vec())).collect()
}

/// Wakes a waiter after changes, see [`BackingStore::changes`].
pub(crate) enum Changes {
    Embedded(Box<Watcher>),
    Real(crate::relay::Events),
}

impl Changes {
    /// Returns after a change that no earlier call has reported; false if there will be none.
    pub(crate) async fn next(&mut self) -> bool {
        match self {
            Self::Embedded(watcher) => {
                let next = watcher.next().await;
                // Other changes up to now are covered by the same check.
                while watcher.try_next().is_some() {}
                matches!(next, Some(Ok(_)))
            }
            Self::Real(events) => events.next().await.is_some_and(|next| next.is_ok()),
        }
    }
}
