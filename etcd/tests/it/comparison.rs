//! A real etcd and kstore side by side. Both start empty and get the same calls, so their revisions stay equal.

use crate::call::Call;
use crate::etcd_process::EtcdProcess;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

/// A kstore server.
pub(crate) struct KstoreServer {
    pub(crate) url: String,
    stop: CancellationToken,
}

impl KstoreServer {
    /// Starts a server with an empty store in memory.
    pub(crate) async fn start() -> Self {
        let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(kstore_etcd::serve(store, listener, kstore_etcd::Options::plain(&url), stop.clone()));
        Self { url, stop }
    }
}

impl Drop for KstoreServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Both servers, with a connection to each.
pub(crate) struct Comparison {
    pub(crate) etcd: EtcdProcess,
    pub(crate) ours: KstoreServer,
    pub(crate) channels: [Channel; 2],
}

impl Comparison {
    /// Starts both servers, empty; none if no etcd is installed.
    pub(crate) async fn begin() -> Option<Self> {
        Some(Self::between(EtcdProcess::start()?, KstoreServer::start().await).await)
    }

    /// Connects to these two servers.
    pub(crate) async fn between(etcd: EtcdProcess, ours: KstoreServer) -> Self {
        let channels = [connect(etcd.url()).await, connect(&ours.url).await];
        Self { etcd, ours, channels }
    }

    /// Makes the same call to both servers. Panics if the responses differ; returns the response.
    pub(crate) async fn both(&self, what: &str, call: &Call) -> String {
        let theirs = call.perform(&self.channels[0]).await;
        let ours = call.perform(&self.channels[1]).await;
        assert_eq!(ours, theirs, "kstore (left) and etcd (right) differ in {what}: {call:?}");
        ours
    }

    /// Makes the calls of a script to both servers.
    pub(crate) async fn all(&self, what: &str, calls: &[Call]) {
        for (number, call) in calls.iter().enumerate() {
            self.both(&format!("call {number} of {what}"), call).await;
        }
    }
}

pub(crate) async fn connect(url: &str) -> Channel {
    Endpoint::new(url.to_owned()).unwrap().connect().await.unwrap()
}
