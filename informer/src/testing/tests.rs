//! Tests of the fakes: they keep the contract of sources, and fail as scripted.

use super::world::World;
use super::*;
use crate::{Builder, SourceError};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::advance;
use tokio_util::sync::CancellationToken;

mod a_source_that_streams {
    use super::*;

    async fn world() -> World<FakeSource<Sample>> {
        World::over(|source| source.with_progress(Duration::from_secs(5)))
    }

    crate::source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod a_source_that_lists {
    use super::*;

    async fn world() -> World<FakeSource<Sample>> {
        World::over(|source| source.without_streaming().with_paging().with_exact_lists())
    }

    crate::source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

#[tokio::test(start_paused = true)]
async fn objects_of_an_expired_lease_are_deleted_and_watched() {
    let (store, ttl) = (FakeStore::new(), Duration::from_secs(10));
    let kind = store.kind::<Sample>("nodes");
    let informer = Builder::new(kind.source()).spawn(&CancellationToken::new());
    let lease = store.lease(ttl);
    kind.put_under(Sample::new("", "leased"), &lease).unwrap();
    kind.put(Sample::new("", "free"));
    assert_converges(&informer, &kind).await;
    advance(ttl - Duration::from_secs(1)).await;
    lease.keep_alive().unwrap();
    advance(ttl - Duration::from_millis(1)).await;
    assert_eq!(informer.len(), 2);
    let before = store.revision();
    // No write wakes the store: its streams wake by themselves.
    tokio::time::sleep(Duration::from_millis(2)).await;
    yield_now().await;
    assert_eq!((informer.len(), informer.revision()), (1, Revision(before.0 + 1)));
    assert!(lease.is_over());
    assert_eq!(lease.keep_alive(), Err(StoreError::NotFound));
    assert_eq!(kind.put_under(Sample::new("", "late"), &lease).err(), Some(StoreError::NotFound));
    let other = store.lease(ttl);
    kind.put_under(Sample::new("", "leased"), &other).unwrap();
    other.revoke();
    assert_converges(&informer, &kind).await;
    assert_eq!(informer.len(), 1);
}

#[test]
fn the_generation_changes_with_the_spec_and_not_with_the_status() {
    let kind = FakeStore::new().kind::<Sample>("samples");
    let generation = |sample: Sample| kind.put(sample).generation();
    assert_eq!(generation(Sample::new("", "a").value(1)), Some(1));
    assert_eq!(generation(Sample::new("", "a").value(1).tag("ready")), Some(1));
    assert_eq!(generation(Sample::new("", "a").value(2)), Some(2));
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "fault seeds [42]):\n  the store is at 1, the cache at 0\n  a: stored Some((\"uid-1\", Revision(1))), cached None"
)]
async fn assert_converges_reports_differences_and_seeds() {
    let kind = FakeStore::new().kind::<Sample>("samples");
    let chaos = Chaos { refuse: 100, ..Chaos::seeded(42) };
    let informer = Builder::new(kind.source().chaos(chaos)).spawn(&CancellationToken::new());
    kind.put(Sample::new("", "a"));
    assert_converges(&informer, &kind).await;
}

#[tokio::test(start_paused = true)]
async fn faults_follow_the_script_and_then_stop() {
    let kind = FakeStore::new().kind::<Sample>("samples");
    kind.put(Sample::new("", "a"));
    let refused = SourceError::Fatal("no".into());
    let script =
        FaultScript::new([Fault::refuse(refused), Fault::repeat(), Fault::undecodable(Key::new("", "a"))]);
    let source = kind.source().faults(&script);
    let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
    assert_converges(&informer, &kind).await;
    assert_eq!(source.calls().len(), 2);
    source.disconnect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    kind.put(Sample::new("", "a").value(1));
    assert_converges(&informer, &kind).await;
    assert_eq!(informer.undecodable().len(), 1, "only on the third stream");
    source.disconnect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    kind.put(Sample::new("", "a").value(2));
    assert_converges(&informer, &kind).await;
    assert_eq!(informer.undecodable().len(), 0);
}

/// The same seed gives the same sequence of calls.
#[test]
fn random_faults_are_reproducible_by_seed() {
    let story = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let kind = FakeStore::new().kind::<Sample>("samples");
            let source = kind.source().with_paging().faults(&FaultScript::random(9));
            let informer = Builder::new(source.clone()).spawn(&CancellationToken::new());
            for n in 0..50 {
                kind.put(Sample::new("", &(n % 7).to_string()).value(n));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            assert_converges(&informer, &kind).await;
            (source.calls(), tokio::time::Instant::now().elapsed())
        })
    };
    let (first, second) = (story(), story());
    assert!(first.0.len() > 5);
    assert_eq!(first, second);
}
