//! The source contract for every source in process: kstore's gRPC API with and without a wire, alone and as a
//! part of a shared stream; and REST through kube-rs.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kstore_client::{Obj, Source, SourcePart, WatchParams};
use kstore_informer::kube::{Kube, KubeSource};
use kstore_informer::{
    Capabilities, Frames, ListRequest, ListerWatcher, Page, Revision, SourceError, Start, source_contract,
};
use kstore_tests::ConfigMapSourceFixture;
use std::time::Duration;

type AloneFixture = ConfigMapSourceFixture<Source<Obj<ConfigMap>>>;

mod grpc_in_process {
    use super::*;

    async fn world() -> AloneFixture {
        AloneFixture::in_process(AloneFixture::alone, true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod without_a_wire {
    use super::*;

    async fn world() -> AloneFixture {
        AloneFixture::in_process(AloneFixture::alone, false).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
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
        let multi = world.client().multi();
        let companion = multi.source(WatchParams::default());
        Self { part: multi.source(WatchParams::default().ns("default")), companion }
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
        ConfigMapSourceFixture::in_process(Paired::new, false).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

type Maps = KubeSource<Kube<ConfigMap>>;

fn kube(world: &ConfigMapSourceFixture<Maps>) -> Maps {
    let client = kube_client::Client::new(world.line(), "default");
    Maps::new(&client).namespace("default").progress_every(Duration::from_secs(60))
}

mod kube_rs_over_rest {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Maps> {
        ConfigMapSourceFixture::in_process(kube, true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod kube_rs_over_rest_without_streaming_lists {
    use super::*;

    async fn world() -> ConfigMapSourceFixture<Maps> {
        ConfigMapSourceFixture::in_process(|world| kube(world).without_streaming(), true).await
    }

    source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}
