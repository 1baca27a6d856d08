//! [`ConfigMapSourceFixture`]: the environment in which a source of ConfigMaps is tested for the source contract, with a
//! cluster in this process or the program behind the source.

use crate::{Cluster, Server, Setup, Switchable};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kstore_client::{Api, Client, DeleteParams, ListParams, Obj, Patch, Source, WatchParams, revision_of};
use kstore_informer::testing::contract::ContractWorld;
use kstore_informer::{ListerWatcher, Revision};
use serde_json::{from_value, json};
use std::ops::Deref;
use tempfile::TempDir;

/// ConfigMaps of the namespace `default` that hold a number, read by a source of type `S`.
pub struct ConfigMapSourceFixture<S> {
    client: Client,
    server: SourceServer,
    source: fn(&Self) -> S,
}

/// The server behind a source.
enum SourceServer {
    /// A cluster in this process.
    InProcess { cluster: Box<Cluster>, line: Switchable },
    /// The program, which is killed on drop.
    Program { _server: Server, _folder: TempDir },
}

impl SourceServer {
    /// Compacts the history and switches to another apiserver, since the old one caches recent changes.
    async fn compact(&self) -> bool {
        let Self::InProcess { cluster, line } = self else { return false };
        cluster.store().compact(cluster.store().revision()).await.expect("the newest revision is compacted");
        line.switch(cluster.another_apiserver().await);
        true
    }

    fn disconnect(&self) -> bool {
        let Self::InProcess { line, .. } = self else { return false };
        line.cut();
        true
    }
}

impl<S> ConfigMapSourceFixture<S> {
    /// An API in this process, over a connection that can break. `wired` watches have the wire format.
    pub async fn in_process(source: fn(&Self) -> S, wired: bool) -> Self {
        let cluster = Cluster::start(Setup::api_alone()).await;
        let line = Switchable::new(cluster.in_process());
        let client = Client::over(line.clone(), "contract");
        let feed = line.clone();
        let client = match wired {
            true => client,
            false => client.with_feed(move |request| feed.clone().watch(request)),
        };
        Self { client, server: SourceServer::InProcess { cluster: Box::new(cluster), line }, source }
    }

    /// The program, with its folder. Both are removed with the fixture.
    pub async fn of_program(source: fn(&Self) -> S, server: Server, folder: TempDir) -> Self {
        let client = server.client("contract").await;
        Self { client, server: SourceServer::Program { _server: server, _folder: folder }, source }
    }

    /// The client that writes the ConfigMaps.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The connection to the API in this process.
    ///
    /// # Panics
    ///
    /// The program is behind the source.
    pub fn line(&self) -> Switchable {
        let SourceServer::InProcess { line, .. } = &self.server else { panic!("only in process") };
        line.clone()
    }

    fn maps(&self) -> Api<ConfigMap> {
        self.client.api()
    }
}

impl ConfigMapSourceFixture<Source<Obj<ConfigMap>>> {
    /// The ConfigMaps as the only source of a stream.
    pub fn alone(&self) -> Source<Obj<ConfigMap>> {
        self.maps().source(WatchParams::default().ns("default"))
    }
}

impl<S: ListerWatcher<Obj: Deref<Target = ConfigMap>>> ContractWorld for ConfigMapSourceFixture<S> {
    type Source = S;

    fn source(&self) -> S {
        (self.source)(self)
    }

    async fn create(&self, name: &str, number: u64) -> Revision {
        let map = json!({"metadata": {"name": name}, "data": {"number": number.to_string()}});
        let map = from_value(map).expect("a ConfigMap");
        revision_of(&self.maps().create("default", &map).await.expect("the ConfigMap is created"))
    }

    async fn update(&self, name: &str, number: u64) -> Revision {
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        revision_of(&self.maps().patch("default", name, &patch).await.expect("the ConfigMap is changed"))
    }

    async fn delete(&self, name: &str) -> Revision {
        let deleted = self.maps().delete("default", name, &DeleteParams::default()).await;
        deleted.expect("the ConfigMap is deleted");
        // Without other writers, the newest revision is the deletion's.
        let listed = self.maps().list("default", &ListParams::default()).await;
        listed.expect("ConfigMaps are listed").1
    }

    fn number(&self, object: &S::Obj) -> u64 {
        let data = object.data.as_ref().expect("every ConfigMap of a test has data");
        data["number"].parse().expect("the data is a number")
    }

    async fn elsewhere(&self) -> Option<Revision> {
        let account = from_value(json!({"metadata": {"name": "someone"}})).expect("a service account");
        let created = self.client.api::<ServiceAccount>().create("default", &account).await;
        Some(revision_of(&created.expect("the service account is created")))
    }

    async fn compact(&self) -> bool {
        self.server.compact().await
    }

    async fn disconnect(&self) -> bool {
        self.server.disconnect()
    }
}
