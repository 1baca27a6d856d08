//! Tests of [`Map`]: it keeps the contract of sources and transforms each version once.

use crate::testing::world::World;
use crate::testing::{FakeSource, FakeStore, Fault, FaultScript, Sample, assert_converges};
use crate::{Builder, Key, Map};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

mod a_source_with_transformed_objects {
    use super::*;

    async fn world() -> World<Map<FakeSource<Sample>, Sample>> {
        World::over(|source| Map::new(source.with_paging(), Ok))
    }

    crate::source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

/// R13: client-go runs a transform twice on an object of a streaming list, once for its temporary store and
/// once for its queue. Here a version is transformed once on each arrival.
#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_per_arriving_version() {
    for streaming in [true, false] {
        let (store, stop) = (FakeStore::new(), CancellationToken::new());
        let kind = store.kind::<Sample>("samples");
        for n in 0..10 {
            kind.put(Sample::new("", &n.to_string()).value(n));
        }
        let mut source = kind.source().with_paging();
        if !streaming {
            source = source.without_streaming();
        }
        let runs = Arc::new(AtomicU64::new(0));
        let counter = runs.clone();
        let informer = Builder::new(source.clone())
            .map(move |sample| {
                counter.fetch_add(1, Ordering::Relaxed);
                sample.tag("made over")
            })
            .spawn(&stop);
        assert_converges(&informer, &kind).await;
        assert_eq!(runs.load(Ordering::Relaxed), 10);
        kind.put(Sample::new("", "3").value(33));
        kind.delete(&Key::new("", "4")).unwrap();
        assert_converges(&informer, &kind).await;
        assert_eq!(runs.load(Ordering::Relaxed), 12, "one change, and the last state of what was deleted");
        assert!(informer.view().iter().all(|sample| sample.tags == ["made over"]));
        let before = informer.list();
        // A relist: all nine objects arrive again, and the cache keeps its own.
        store.compact(store.revision());
        source.disconnect();
        source.fail_next(crate::SourceError::Expired);
        store.kind::<Sample>("others").put(Sample::new("", "x"));
        assert_converges(&informer, &kind).await;
        assert_eq!(runs.load(Ordering::Relaxed), 21);
        assert!(before.iter().zip(informer.list()).all(|(old, new)| Arc::ptr_eq(old, &new)));
    }
}

/// R11: an object that a transform refuses is treated as undecodable.
#[tokio::test(start_paused = true)]
async fn a_refused_object_is_undecodable_until_the_transform_accepts_it() {
    let (store, stop) = (FakeStore::new(), CancellationToken::new());
    let kind = store.kind::<Sample>("samples");
    kind.put(Sample::new("", "odd").value(1));
    kind.put(Sample::new("", "even").value(2));
    let source = kind.source().faults(&FaultScript::new([Fault::cut_after(0)]));
    let even = |sample: Sample| match sample.value % 2 {
        0 => Ok(sample),
        _ => Err(format!("{} is odd", sample.value)),
    };
    let informer = Builder::new(source).try_map(even).spawn(&stop);
    assert_converges(&informer, &kind).await;
    assert_eq!(informer.undecodable()[0].error, "1 is odd");
    assert_eq!(informer.len(), 1);
    kind.put(Sample::new("", "odd").value(4));
    assert_converges(&informer, &kind).await;
    assert_eq!((informer.undecodable().len(), informer.len()), (0, 2));
}
