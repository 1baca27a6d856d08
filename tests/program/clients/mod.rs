//! Third-party clients, unmodified, against the kstore-server program over TLS. kubectl has its own module;
//! Python's clients are in `tests/clients/python`, run by CI.

/// kube-rs's request layer: every call of `Api`.
mod kube_api;
/// A custom kind of kstore's client under kube-rs, with its controller.
mod kube_custom;
/// kube-rs's runtime: watcher, controller, finalizer, conditions.
mod kube_runtime;

use crate::SERVER;
use kstore_tests::{Launch, Server};
use kube_client::Client;
use kube_client::config::{Config, KubeConfigOptions, Kubeconfig};

/// A server in memory, and kube-rs's client configured by the server's kubeconfig.
struct KubeRsFixture {
    client: Client,
    _server: Server,
    _dir: tempfile::TempDir,
}

impl KubeRsFixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Launch::in_memory(SERVER, dir.path()).start().unwrap();
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self { client: Client::try_from(config).unwrap(), _server: server, _dir: dir }
    }
}

/// A value from JSON, as Kubernetes' examples are written.
fn from<K: serde::de::DeserializeOwned>(value: serde_json::Value) -> K {
    serde_json::from_value(value).unwrap()
}
