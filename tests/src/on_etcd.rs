//! [`OnEtcd`]: an apiserver in this process on an external etcd; several may share one etcd.

use crate::Rest;
use crate::cluster::admin;
use async_trait::async_trait;
use kstore_apiserver::{ApiServer, ServerConfig, StartError};
use kstore_client::Client;
use kstore_etcd::EmbeddedServer;
use kstore_nondet::Nondet;
use kstore_storage::storage::Storage as _;
use kstore_storage::storage::etcd::{Config, Dial, Etcd, Url, Wire};
use kstore_store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Buffer size of a pipe in bytes, about that of a socket.
const PIPE: usize = 256 * 1024;

/// The configuration for these members, without compaction.
///
/// # Panics
///
/// A member is not a URL.
pub fn etcd_config(members: &[&str]) -> Config {
    Config {
        members: members.iter().map(|url| url.parse().expect("it is a URL")).collect(),
        prefix: "/registry".into(),
        user: None,
        compaction: Duration::ZERO,
    }
}

/// kstore's etcd API over a store, through in-process pipes: deterministic, and in virtual time if the
/// runtime is.
pub struct Pipes {
    server: EmbeddedServer,
    tasks: TaskTracker,
}

impl Pipes {
    /// Serves this store until `stop` is cancelled.
    pub fn new(store: &Store, stop: &CancellationToken, tasks: &TaskTracker) -> Arc<Self> {
        let server = EmbeddedServer::new(store.clone(), "http://etcd.invalid:2379", stop.clone());
        Arc::new(Self { server, tasks: tasks.clone() })
    }
}

#[async_trait]
impl Dial for Pipes {
    async fn dial(&self, _: &Url) -> std::io::Result<Box<dyn Wire>> {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let server = self.server.clone();
        self.tasks.spawn(async move { server.serve_connection(theirs).await });
        Ok(Box::new(ours))
    }
}

/// A running apiserver on an external etcd.
pub struct OnEtcd {
    /// The running apiserver.
    pub api: ApiServer,
    /// The apiserver's storage.
    pub storage: Arc<Etcd>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl OnEtcd {
    /// Starts an apiserver; the REST and gRPC APIs answer on return.
    ///
    /// # Errors
    ///
    /// The etcd does not answer.
    ///
    /// # Panics
    ///
    /// The configuration is invalid.
    pub async fn start(config: &Config, dial: Arc<dyn Dial>, nondet: &Nondet) -> Result<Self, StartError> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (storage, work) = Etcd::new(config, dial, &nondet.rng).expect("the configuration is good");
        tasks.spawn(work);
        let server = ServerConfig { nondet: nondet.clone(), stop: stop.clone(), ..ServerConfig::default() };
        let follow = |task| drop(tasks.spawn(task));
        match ApiServer::start(storage.clone(), server, follow).await {
            Ok(api) => Ok(Self { api, storage, stop, tasks }),
            Err(error) => {
                storage.close().await;
                Err(error)
            }
        }
    }

    /// The REST API, as the administrator.
    pub fn rest(&self) -> Rest {
        Rest::new(self.api.in_process(admin()))
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        let api = self.api.in_process(admin());
        Client::over(api.clone(), "test").with_feed(move |request| api.watch(request))
    }

    /// Stops the apiserver.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.storage.close().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}
