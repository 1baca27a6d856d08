//! The source contract for every source: kstore's gRPC API over a socket, in process and without a wire,
//! alone and as a part of a shared stream; and REST through kube-rs.

use crate::SERVER;
use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kstore_client::{
    Client, DeleteParams, ListParams, Obj, Patch, Source, SourcePart, WatchParams, revision_of,
};
use kstore_informer::kube::{Kube, KubeSource};
use kstore_informer::testing::contract::ContractWorld;
use kstore_informer::{
    Capabilities, Frames, ListRequest, ListerWatcher, Page, Revision, SourceError, Start, source_contract,
};
use kstore_tests::{Cluster, Launch, Server, Setup, Switchable};
use serde_json::{from_value, json};
use std::ops::Deref;
use std::time::Duration;
use tempfile::TempDir;

/// ConfigMaps of the namespace `default` that hold a number, read by a source of type `S`.
struct ConfigMapSourceFixture<S> {
    client: Client,
    place: SourceServer,
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
        cluster.store().compact(cluster.store().revision()).await.unwrap();
        line.switch(cluster.another_apiserver().await);
        true
    }

    fn disconnect(&self) -> bool {
        let Self::InProcess { line, .. } = self else { return false };
        line.cut();
        true
    }

    fn line(&self) -> Switchable {
        let Self::InProcess { line, .. } = self else { panic!("only in process") };
        line.clone()
    }
}

fn maps(client: &Client) -> kstore_client::Api<ConfigMap> {
    client.api()
}

impl<S: ListerWatcher<Obj: Deref<Target = ConfigMap>>> ContractWorld for ConfigMapSourceFixture<S> {
    type Source = S;

    fn source(&self) -> S {
        (self.source)(self)
    }

    async fn create(&self, name: &str, number: u64) -> Revision {
        let map = json!({"metadata": {"name": name}, "data": {"number": number.to_string()}});
        let created = maps(&self.client).create("default", &from_value(map).unwrap()).await;
        revision_of(&created.unwrap())
    }

    async fn update(&self, name: &str, number: u64) -> Revision {
        let patch = Patch::Merge(json!({"data": {"number": number.to_string()}}));
        revision_of(&maps(&self.client).patch("default", name, &patch).await.unwrap())
    }

    async fn delete(&self, name: &str) -> Revision {
        maps(&self.client).delete("default", name, &DeleteParams::default()).await.unwrap();
        // Without other writers, the newest revision is the deletion's.
        maps(&self.client).list("default", &ListParams::default()).await.unwrap().1
    }

    fn number(&self, object: &S::Obj) -> u64 {
        object.data.as_ref().unwrap()["number"].parse().unwrap()
    }

    async fn elsewhere(&self) -> Option<Revision> {
        let account = from_value(json!({"metadata": {"name": "someone"}})).unwrap();
        let created = self.client.api::<ServiceAccount>().create("default", &account).await.unwrap();
        Some(revision_of(&created))
    }

    async fn compact(&self) -> bool {
        self.place.compact().await
    }

    async fn disconnect(&self) -> bool {
        self.place.disconnect()
    }
}

async fn in_process<S>(
    source: fn(&ConfigMapSourceFixture<S>) -> S,
    wired: bool,
) -> ConfigMapSourceFixture<S> {
    let cluster = Cluster::start(Setup::api_alone()).await;
    let line = Switchable::new(cluster.in_process());
    let client = Client::over(line.clone(), "contract");
    let feed = line.clone();
    let client = match wired {
        true => client,
        false => client.with_feed(move |request| feed.clone().watch(request)),
    };
    ConfigMapSourceFixture {
        client,
        place: SourceServer::InProcess { cluster: Box::new(cluster), line },
        source,
    }
}

fn of_default() -> WatchParams {
    WatchParams::default().ns("default")
}

fn alone(world: &ConfigMapSourceFixture<Source<Obj<ConfigMap>>>) -> Source<Obj<ConfigMap>> {
    maps(&world.client).source(of_default())
}

mod grpc_in_process {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Source<Obj<ConfigMap>>> {
        in_process(alone, true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod without_a_wire {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Source<Obj<ConfigMap>>> {
        in_process(alone, false).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod grpc_over_a_socket {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Source<Obj<ConfigMap>>> {
        let folder = tempfile::tempdir().unwrap();
        let alone_there = ["--components", "apiserver"];
        let server = Launch::in_memory(SERVER, folder.path()).args(&alone_there).start().unwrap();
        let client = server.client("contract").await;
        ConfigMapSourceFixture {
            client,
            place: SourceServer::Program { _server: server, _folder: folder },
            source: alone,
        }
    }

    source_contract!(
        #[tokio::test]
        world
    );
}

/// One part of a shared stream, whose other part requests the same start.
struct Paired {
    part: SourcePart<Obj<ConfigMap>>,
    companion: SourcePart<Obj<Namespace>>,
}

impl Paired {
    fn new(world: &ConfigMapSourceFixture<Self>) -> Self {
        let multi = world.client.multi();
        let companion = multi.source(WatchParams::default());
        Self { part: multi.source(of_default()), companion }
    }
}

impl ListerWatcher for Paired {
    type Obj = Obj<ConfigMap>;

    fn capabilities(&self) -> Capabilities {
        self.part.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<Self::Obj>, SourceError> {
        self.part.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<Self::Obj>, SourceError> {
        let (frames, companion) =
            futures::future::try_join(self.part.watch(start), self.companion.watch(start)).await?;
        let both = stream::unfold((frames, companion), |(mut frames, companion)| async {
            Some((frames.next().await?, (frames, companion)))
        });
        Ok(both.boxed())
    }

    fn demand(&self, revision: Revision) {
        self.part.demand(revision);
    }
}

mod a_part_of_a_common_stream {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Paired> {
        in_process(Paired::new, false).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

type Maps = KubeSource<Kube<ConfigMap>>;

fn kube(world: &ConfigMapSourceFixture<Maps>) -> Maps {
    let client = kube_client::Client::new(world.place.line(), "default");
    Maps::new(&client).namespace("default").progress_every(Duration::from_secs(60))
}

mod kube_rs_over_rest {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Maps> {
        in_process(kube, true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod kube_rs_over_rest_without_streaming_lists {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Maps> {
        in_process(|world| kube(world).without_streaming(), true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}
