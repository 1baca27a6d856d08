//! The gRPC API `kstore.v1` over a connection: the client over TLS against the program.

use crate::SERVER;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kstore_client::{DeleteParams, Gvr, ListParams, Patch, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, ReadAt, Start};
use kstore_tests::{Launch, manifests};
use serde_json::json;

#[test]
fn the_client_works_over_tls_as_in_process() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = server.client("grpc-test").await;
        let api = client.dynamic(Gvr::of::<ConfigMap>());
        let created = api.create("default", &manifests::config_map("one", "1")).await.unwrap();
        let frames = client.api::<ConfigMap>().source(WatchParams::default().ns("default"));
        let mut frames = frames.watch(Start::Initial(ReadAt::Latest)).await.unwrap();
        let patch = Patch::Merge(json!({ "data": { "value": "2" } }));
        let patched = api.patch("default", "one", "", &patch).await.unwrap();
        assert!(api.update(&created).await.unwrap_err().is_conflict());
        let mut puts = Vec::new();
        while puts.last()
            != Some(&kstore_client::revision_of(
                &serde_json::from_value::<ConfigMap>(patched.clone()).unwrap(),
            ))
        {
            for frame in frames.next().await.unwrap().unwrap() {
                if let Frame::Put(object) = frame {
                    puts.push(kstore_client::revision_of(&*object));
                }
            }
        }
        let (all, _) = api.list("default", &ListParams::default()).await.unwrap();
        assert_eq!(all, [patched]);
        api.delete("default", "one", &DeleteParams::default()).await.unwrap();
        assert!(api.get("default", "one").await.unwrap_err().is_not_found());
    });
}
