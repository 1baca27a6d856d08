//! Tests of retries after conflicts.

use super::*;
use crate::testing::{FakeKind, FakeStore, Sample, StoreError};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::time::Instant;

/// A kind with a second writer, which wins the first `overtakes` races.
struct ConcurrentWriter {
    kind: FakeKind<Sample>,
    overtakes: AtomicU32,
    reads: AtomicU32,
    writes: AtomicU32,
}

impl ConcurrentWriter {
    fn new(overtakes: u32) -> Self {
        let kind = FakeStore::new().kind("samples");
        kind.put(Sample::new("", "a").value(100));
        Self { kind, overtakes: overtakes.into(), reads: 0.into(), writes: 0.into() }
    }
}

impl Writer for ConcurrentWriter {
    type Obj = Sample;
    type Error = StoreError;

    async fn get(&self, key: &Key) -> Result<Option<Sample>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Writer::get(&self.kind, key).await
    }

    async fn update(&self, object: Sample) -> Result<Sample, StoreError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        if self.overtakes.load(Ordering::Relaxed) > 0 {
            self.overtakes.fetch_sub(1, Ordering::Relaxed);
            let theirs = self.kind.get(&key()).unwrap();
            self.kind.put(Sample::clone(&theirs).value(theirs.value + 100));
        }
        Writer::update(&self.kind, object).await
    }

    fn uid(object: &Sample) -> &str {
        <FakeKind<Sample> as Writer>::uid(object)
    }

    fn refusal(error: &StoreError) -> Refusal {
        <FakeKind<Sample> as Writer>::refusal(error)
    }
}

fn key() -> Key {
    Key::new("", "a")
}

fn add_one(object: &mut Sample) -> bool {
    object.value += 1;
    true
}

/// Runs a future on a single-threaded runtime with paused time.
fn paused<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}

proptest! {
    /// B1: at most k attempts; each but the first, which may have a cached state, reads again; no write of
    /// the other writer is lost.
    #[test]
    fn modify_retries_at_most_k_times_with_a_fresh_read(
        overtakes in 0_u32..8, most in 0_u32..7, cached in any::<bool>(),
    ) {
        let rival = ConcurrentWriter::new(overtakes);
        let first = cached.then(|| Sample::clone(&rival.kind.get(&key()).unwrap()));
        let tries = Tries { most, ..Tries::DEFAULT };
        let outcome = paused(modify(&rival, &key(), first, tries, add_one));
        let (reads, writes) = (rival.reads.into_inner(), rival.writes.into_inner());
        prop_assert_eq!(writes, most.max(1).min(overtakes + 1));
        prop_assert_eq!(reads + u32::from(cached), writes);
        let stored = rival.kind.get(&key()).unwrap().value;
        match outcome {
            Ok(Modified::Wrote(object)) => {
                prop_assert!(overtakes < most.max(1));
                prop_assert_eq!(stored, 101 + 100 * u64::from(overtakes));
                prop_assert_eq!(object.value, stored);
            }
            Err(StoreError::Conflict) => prop_assert_eq!(stored, 100 + 100 * u64::from(writes)),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    /// B1, for a caller with its own requests.
    #[test]
    fn on_conflict_retries_only_conflicts_and_at_most_k_times(
        outcomes in proptest::collection::vec(0_u8..3, 10), most in 0_u32..7,
    ) {
        let mut calls = 0;
        let result = paused(on_conflict(Tries { most, ..Tries::DEFAULT }, |e| *e == "conflict", || {
            calls += 1;
            let outcome = match outcomes[calls - 1] {
                0 => Ok(calls),
                1 => Err("refused"),
                _ => Err("conflict"),
            };
            async move { outcome }
        }));
        let decided = outcomes.iter().take(most.max(1) as usize).position(|o| *o < 2);
        prop_assert_eq!(calls, decided.map_or(most.max(1) as usize, |at| at + 1));
        prop_assert_eq!(result.is_ok(), decided.is_some_and(|at| outcomes[at] == 0));
    }
}

#[tokio::test(start_paused = true)]
async fn modify_writes_nothing_without_a_change() {
    let rival = ConcurrentWriter::new(0);
    let outcome = modify(&rival, &key(), None, Tries::DEFAULT, |_| false).await;
    assert_eq!((outcome, rival.writes.into_inner()), (Ok(Modified::Unchanged), 0));
}

#[tokio::test(start_paused = true)]
async fn modify_leaves_deleted_and_recreated_objects_alone() {
    let kind: FakeKind<Sample> = FakeStore::new().kind("samples");
    let cached = Sample::clone(&kind.put(Sample::new("", "a")));
    kind.delete(&key()).unwrap();
    let gone = modify(&kind, &key(), Some(cached.clone()), Tries::DEFAULT, add_one).await;
    assert_eq!(gone, Ok(Modified::Gone));
    assert_eq!(modify(&kind, &key(), None, Tries::DEFAULT, add_one).await, Ok(Modified::Gone));
    kind.put(Sample::new("", "a").value(7));
    let gone = modify(&kind, &key(), Some(cached), Tries::DEFAULT, add_one).await;
    assert_eq!((gone, kind.get(&key()).unwrap().value), (Ok(Modified::Gone), 7));
}

#[tokio::test(start_paused = true)]
async fn writers_of_a_busy_object_wait_longer_each_time() {
    let mut at = Vec::new();
    let start = Instant::now();
    let outcome: Result<(), _> = on_conflict(
        Tries::BUSY,
        |_| true,
        || {
            at.push(start.elapsed().as_millis());
            async { Err("conflict") }
        },
    )
    .await;
    assert_eq!((outcome, at), (Err("conflict"), vec![0, 10, 60, 310]));
}
