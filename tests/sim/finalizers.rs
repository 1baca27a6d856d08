//! The informer's finalizer helper against the apiserver's deletion.

use k8s_openapi::api::core::v1::ConfigMap;
use kstore_client::{Api, ApiError, DeleteParams, Obj, WatchParams};
use kstore_informer::finalizer::{Duty, FinalizeError, Finalized, finalize};
use kstore_informer::{Action, Builder, Informer, Key, Revision};
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::json;
use std::cell::RefCell;
use tokio_util::sync::CancellationToken;

const OURS: &str = "example.com/ours";

type Outcome = Result<Finalized, FinalizeError<ApiError, ApiError>>;

struct FinalizerFixture {
    api: Api<ConfigMap>,
    cache: Informer<Obj<ConfigMap>>,
    duties: RefCell<Vec<Duty>>,
}

impl FinalizerFixture {
    fn new(cluster: &Cluster, stop: &CancellationToken) -> Self {
        let api: Api<ConfigMap> = cluster.client().api();
        let cache = Builder::new(api.source(WatchParams::default().ns("default"))).spawn(stop);
        Self { api, cache, duties: RefCell::default() }
    }

    /// Runs the helper once for the object in the cache, at least as new as `seen`.
    async fn run(&self, seen: Revision) -> Outcome {
        self.cache.wait_for(seen).await.unwrap();
        let object = self.cache.get(&Key::new("default", "one")).unwrap();
        finalize(&self.api, OURS, &object, async |duty| {
            self.duties.borrow_mut().push(duty);
            Ok(Action::Done)
        })
        .await
    }
}

#[test]
fn an_object_is_deleted_after_its_cleanup_and_other_finalizers_are_kept() {
    simulate(Setup::api_alone(), async |cluster| {
        let stop = CancellationToken::new();
        let world = FinalizerFixture::new(cluster, &stop);
        cluster.create(manifests::config_map("one", "1")).await;
        let created = world.cache.until(&Key::new("default", "one"), |o| o.is_some()).await.unwrap().unwrap();
        let added = world.run(kstore_informer::Object::revision(&*created)).await.unwrap().wrote.unwrap();
        assert!(world.duties.borrow().is_empty(), "nothing is done before the entry is in place");
        let theirs = json!({"metadata": {"finalizers": ["example.com/theirs", OURS]}});
        cluster.merge("configmaps", "one", theirs).await;
        // The cache may still show the older list: only the helper's own entry is removed, or none.
        world.run(added).await.unwrap();
        world.api.delete("default", "one", &DeleteParams::default()).await.unwrap();
        let key = Key::new("default", "one");
        let is_deleting =
            |o: Option<&Obj<ConfigMap>>| o.is_some_and(|o| o.metadata.deletion_timestamp.is_some());
        world.cache.until(&key, is_deleting).await.unwrap();
        let removed = world.run(added).await.unwrap().wrote.unwrap();
        assert_eq!(*world.duties.borrow(), [Duty::Apply, Duty::Cleanup]);
        world.cache.wait_for(removed).await.unwrap();
        let left = world.cache.get(&key).unwrap();
        assert_eq!(left.metadata.finalizers.as_deref(), Some(&["example.com/theirs".to_owned()][..]));
        assert_eq!(world.run(removed).await.unwrap().wrote, None, "others hold it now");
        stop.cancel();
    });
}
