//! Tests of the registry: unique informers, explicit start, wait by name, common shutdown.

use super::{AlreadyRegistered, Factory};
use crate::testing::{FakeStore, Sample};
use crate::{Builder, Informer, Key, SourceError, Status};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(1);

fn failing(store: &FakeStore) -> Builder<crate::testing::FakeSource<Sample>> {
    let source = store.kind::<Sample>("failing").source();
    (0..50).for_each(|_| source.fail_next(SourceError::Fatal("forbidden".into())));
    Builder::new(source)
}

#[tokio::test(start_paused = true)]
async fn informers_are_unique_and_reads_do_not_start_them() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("a", "one"));
    let (factory, source) = (Factory::new(&stop), kind.source());
    let informer = factory.add("all", Builder::new(source.clone())).unwrap();
    let again = factory.add("all", Builder::new(kind.source())).err();
    assert_eq!(again, Some(AlreadyRegistered("all".into())));
    assert!(factory.informer::<Sample>("other").is_none());
    let lister = factory.lister::<Sample>("all").unwrap();
    assert!(lister.get(&Key::new("a", "one")).is_none() && lister.list(|_| true).is_empty());
    tokio::time::sleep(PATIENCE).await;
    assert!(source.calls().is_empty(), "the informer was not started");
    factory.start();
    factory.start();
    factory.wait_for_sync(PATIENCE).await.unwrap();
    assert_eq!((informer.len(), source.calls().len()), (1, 1));
    assert!(lister.namespace("a").get("one").is_some());
    assert_eq!(lister.namespace("a").list(|sample| sample.value > 0).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn wait_for_sync_names_missing_informers_and_reasons() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let factory = Factory::new(&stop);
    factory.add("good", Builder::new(store.kind::<Sample>("samples").source())).unwrap();
    factory.add("bad", failing(&store)).unwrap();
    factory.start();
    factory.add("late", Builder::new(store.kind::<Sample>("samples").source())).unwrap();
    let error = factory.wait_for_sync(PATIENCE).await.unwrap_err();
    let names: Vec<_> = error.informers.iter().map(|missing| missing.informer.as_str()).collect();
    assert_eq!(names, ["bad", "late"]);
    assert!(matches!(error.informers[0].status, Status::Degraded { .. }));
    assert_eq!(
        error.to_string(),
        "informer bad has not synced: refused: forbidden; informer late has not synced: it has not started"
    );
    factory.start();
    let error = factory.wait_for_sync(PATIENCE).await.unwrap_err();
    assert_eq!(error.informers.len(), 1, "what was added later is started by another call");
}

#[tokio::test(start_paused = true)]
async fn shutdown_returns_when_every_informer_has_ended() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let factory = Factory::new(&stop);
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let started: Informer<Sample> = factory.add("started", Builder::new(kind.source())).unwrap();
    factory.start();
    factory.wait_for_sync(PATIENCE).await.unwrap();
    let never = factory.add("never", Builder::new(kind.source())).unwrap();
    factory.shutdown().await;
    assert_eq!((started.status(), never.status()), (Status::Stopped, Status::Stopped));
    assert_eq!(started.len(), 1, "it can still be read");
    assert!(never.synced().await.is_err());
}
