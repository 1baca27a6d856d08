//! [`Ground`]: what the apiservers of a simulated cluster stand on, and the tests' own look at it, past the apiservers. One of
//! three, as [`Storage`] says.

use crate::Change;
use crate::on_etcd::{Pipes, etcd_config};
use crate::relay::{Loan, Relay};
use futures::StreamExt as _;
use kstore_apiserver::storage::SharedStorage;
use kstore_apiserver::storage::Storage as _;
use kstore_apiserver::storage::embedded::Embedded;
use kstore_apiserver::storage::etcd::{Config as EtcdConfig, Dial, Etcd};
use kstore_nondet::Nondet;
use kstore_store::{Config, KeyRange, Revision, Store, WatchRequest, Watcher};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where the apiservers keep objects. Tests of the API hold on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a store of their own.
    Embedded,
    /// In what they take for an external etcd: the same store, behind our own etcd API, reached over pipes within the process.
    /// So this too is deterministic and in virtual time.
    Etcd,
    /// In a real etcd, which the test has to itself while it runs, under a prefix of its own. Virtual time stands still while
    /// etcd works: see `relay`.
    RealEtcd,
}

/// The variable that says where.
pub const STORAGE: &str = "KSTORE_TEST_STORAGE";

impl Storage {
    /// The one that the environment asks for: `KSTORE_TEST_STORAGE=etcd`, or `=http://…` for real ones (several, with commas
    /// between them, for as many tests at once), else the embedded store.
    ///
    /// # Panics
    /// When it asks for something else.
    pub fn asked_for() -> Self {
        match std::env::var(STORAGE) {
            Err(_) => Self::Embedded,
            Ok(name) if name == "etcd" => Self::Etcd,
            Ok(urls) if urls.starts_with("http://") => Self::RealEtcd,
            Ok(name) => panic!("{STORAGE}={name:?}: only `etcd` and URLs of real ones are known"),
        }
    }
}

/// See the module.
pub struct Ground {
    kind: Kind,
    nondet: Nondet,
    stop: CancellationToken,
    tasks: TaskTracker,
}

enum Kind {
    /// With the etcd API of the store, if that is the way to it.
    Ours {
        store: Store,
        pipes: Option<Arc<Pipes>>,
    },
    Real {
        relay: Relay,
        _loan: Loan,
    },
}

impl Ground {
    pub(crate) async fn new(
        storage: Storage,
        nondet: &Nondet,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let store =
            async || Store::open(Config::memory(), nondet.clone()).await.expect("a store in memory opens");
        let kind = match storage {
            Storage::Embedded => Kind::Ours { store: store().await, pipes: None },
            Storage::Etcd => {
                let store = store().await;
                let pipes = Some(Pipes::new(&store, stop, tasks));
                Kind::Ours { store, pipes }
            }
            Storage::RealEtcd => {
                let loan = Loan::take();
                Kind::Real { relay: Relay::to(loan.url(), tasks), _loan: loan }
            }
        };
        Self { kind, nondet: nondet.clone(), stop: stop.clone(), tasks: tasks.clone() }
    }

    /// One apiserver's way to it.
    pub(crate) fn storage(&self) -> SharedStorage {
        let config = etcd_config(&["http://etcd.invalid:2379"]);
        match &self.kind {
            Kind::Ours { store, pipes: None } => Arc::new(Embedded::new(store.clone())),
            Kind::Ours { pipes: Some(pipes), .. } => self.etcd(&config, pipes.clone()),
            Kind::Real { relay, .. } => {
                let config = EtcdConfig { prefix: relay.prefix().to_owned(), ..config };
                self.etcd(&config, Arc::new(relay.clone()))
            }
        }
    }

    fn etcd(&self, config: &EtcdConfig, dial: Arc<dyn Dial>) -> SharedStorage {
        let (etcd, work) = Etcd::new(config, dial, &self.nondet.rng).expect("the configuration is good");
        self.tasks.spawn(work);
        let (closing, stop) = (etcd.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            stop.cancelled().await;
            closing.close().await;
        });
        etcd
    }

    /// The newest revision.
    pub fn revision(&self) -> Revision {
        match &self.kind {
            Kind::Ours { store, .. } => store.revision(),
            Kind::Real { relay, .. } => Revision(relay.revision()),
        }
    }

    /// Forgets what was before a revision.
    ///
    /// # Errors
    /// When that cannot be.
    pub async fn compact(&self, revision: Revision) -> Result<(), String> {
        match &self.kind {
            Kind::Ours { store, .. } => {
                store.compact(revision).await.map(drop).map_err(|error| error.to_string())
            }
            Kind::Real { relay, .. } => relay.compact(revision.0).map_err(|status| status.to_string()),
        }
    }

    /// Writes past the apiservers: `key` begins with `/registry/` on any.
    ///
    /// # Errors
    /// When that cannot be.
    pub async fn put(&self, key: &str, value: String) -> Result<(), String> {
        match &self.kind {
            Kind::Ours { store, .. } => {
                store.put(key.to_owned(), value).await.map(drop).map_err(|error| error.to_string())
            }
            Kind::Real { relay, .. } => relay.put(key, value).map_err(|status| status.to_string()),
        }
    }

    /// It is gone, for the apiservers too.
    pub async fn close(&self) {
        match &self.kind {
            Kind::Ours { store, .. } => store.close().await,
            Kind::Real { relay, .. } => relay.cut(),
        }
    }

    /// Everything that was ever written to objects, in order. The key beside them in which an etcd keeps notes is none.
    pub(crate) fn history(&self) -> Vec<Change> {
        match &self.kind {
            Kind::Ours { store, .. } => Change::of_store(store),
            Kind::Real { relay, .. } => relay.history(),
        }
    }

    /// Tells of what is written from now on.
    pub(crate) fn changes(&self) -> Changes {
        match &self.kind {
            Kind::Ours { store, .. } => {
                let everything = WatchRequest::new(KeyRange::all());
                Changes::Ours(Box::new(store.watch(everything).expect("an open store can be watched")))
            }
            Kind::Real { relay, .. } => Changes::Real(relay.changes(relay.revision() + 1)),
        }
    }
}

/// Wakes whoever waits for a change, see [`Ground::changes`].
pub(crate) enum Changes {
    Ours(Box<Watcher>),
    Real(crate::relay::Events),
}

impl Changes {
    /// Returns after a change that no earlier call has returned after; false if there will be none.
    pub(crate) async fn next(&mut self) -> bool {
        match self {
            Self::Ours(watcher) => {
                let next = watcher.next().await;
                // What else has been written by now needs no look of its own.
                while watcher.try_next().is_some() {}
                matches!(next, Some(Ok(_)))
            }
            Self::Real(events) => events.next().await.is_some_and(|next| next.is_ok()),
        }
    }
}
