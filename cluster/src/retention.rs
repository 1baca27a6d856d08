//! Automatic compaction: compacts history that is older than the [`Retention`] allows. The store does the compaction. A bound in bytes is
//! the store's own: [`kstore_store::Limits::history_bytes`].

use crate::phase::Phase;
use jiff::{SignedDuration, Timestamp};
use kstore_apiserver::tags;
use kstore_informer::metrics::Registry;
use kstore_nondet::Clock;
use kstore_store::{Revision, Store};
use std::collections::VecDeque;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Longest interval between samples of the store's revision. A history shorter than ten intervals is sampled
/// ten times in its length.
const SAMPLE: Duration = Duration::from_secs(30);

/// Bytes of history that a cluster keeps whose history has no bound in time, and which lives as long as a test or a command: enough for the
/// beginning of a failed test, and little beside what the process takes.
pub const SHORT_LIVED_HISTORY_BYTES: u64 = 128 << 20;

/// History that automatic compaction keeps. The states before the newest revision always stay readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// Revisions younger than this.
    For(Duration),
    /// This many of the newest revisions.
    Revisions(u64),
    /// Everything.
    #[default]
    All,
}

/// The history that a store keeps, and the interval of its compactions. The default keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    history: History,
    interval: Duration,
}

impl Retention {
    /// Compacts often enough that at most a tenth more than `history` is kept, or what half a minute adds.
    pub fn of(history: History) -> Self {
        Self { history, interval: period(history) }
    }

    /// Keeps revisions for this time, and compacts only as often: so up to twice as much is kept, at the lowest cost.
    pub fn coarse(kept: Duration) -> Self {
        Self { history: History::For(kept), interval: kept }
    }
}

/// Compacts a store until `core` ends, then closes it. A watch cache watches the store, and keeps it in memory, until the store is closed.
pub fn keep_store(store: &Store, retention: Retention, clock: Clock, metrics: &Registry, core: &Phase) {
    if retention.history != History::All {
        let store = store.clone();
        core.supervise("retention", metrics, move |tasks| {
            run(store.clone(), retention, clock, tasks.stop().clone())
        });
    }
    let (store, stop) = (store.clone(), core.stop());
    core.spawn("store", async move {
        stop.cancelled().await;
        store.close().await;
    });
}

/// Compacts the store by `retention` until `stop`.
async fn run(store: Store, retention: Retention, clock: Clock, stop: CancellationToken) {
    let Retention { history, interval, .. } = retention;
    let mut samples = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        samples.push_back((clock.now(), store.revision()));
        let Some(revision) = due(history, &mut samples, clock.now()) else { continue };
        let revision = revision.min(before_newest(&store)).min(oldest_tag(&store).unwrap_or(revision));
        if revision <= store.compacted() {
            continue;
        }
        match store.compact(revision).await {
            // The store logs compactions.
            Ok(()) => {}
            Err(error) => warn!(%error, %revision, "history could not be compacted"),
        }
    }
}

/// The newest revision to which automatic compaction may compact. The states before the newest revision stay
/// readable: a client that resumes inside the newest revision needs them, and without further writes there is
/// no newer revision at which it could list.
fn before_newest(store: &Store) -> Revision {
    Revision(store.revision().0 - 1)
}

/// The oldest revision that a tag names. Tags that are encrypted at rest cannot be read here, and keep nothing.
fn oldest_tag(store: &Store) -> Option<Revision> {
    let stored = store.get(tags::storage_key()).ok()??;
    let object = serde_json::from_slice(stored.value()).ok()?;
    tags::of(&object).into_values().min().map(Revision)
}

fn period(history: History) -> Duration {
    match history {
        History::For(kept) => SAMPLE.min(kept / 10).max(Duration::from_secs(1)),
        History::Revisions(_) | History::All => SAMPLE,
    }
}

/// The newest revision that may be compacted. `samples` are times and revisions, ascending; used samples are
/// removed.
fn due(history: History, samples: &mut VecDeque<(Timestamp, Revision)>, now: Timestamp) -> Option<Revision> {
    match history {
        History::All => None,
        History::Revisions(kept) => {
            let newest = samples.pop_back()?.1;
            samples.clear();
            Some(Revision(newest.0.saturating_sub(i64::try_from(kept).unwrap_or(i64::MAX))))
                .filter(|r| r.0 > 0)
        }
        History::For(kept) => {
            let kept = SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX);
            let old = |(at, _): &(Timestamp, Revision)| now.duration_since(*at) >= kept;
            let mut revision = None;
            while samples.front().is_some_and(old) {
                revision = samples.pop_front().map(|(_, revision)| revision);
            }
            revision
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn history_is_kept_by_age_or_by_number_of_revisions() {
        let samples =
            || VecDeque::from([(at(0), Revision(5)), (at(60), Revision(9)), (at(400), Revision(30))]);
        let five = History::For(Duration::from_secs(300));
        assert_eq!(due(five, &mut samples(), at(299)), None);
        assert_eq!(due(five, &mut samples(), at(361)), Some(Revision(9)));
        assert_eq!(due(History::Revisions(10), &mut samples(), at(0)), Some(Revision(20)));
        assert_eq!(due(History::Revisions(100), &mut samples(), at(0)), None);
        assert_eq!(due(History::All, &mut samples(), at(9999)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn automatic_compaction_keeps_the_states_from_the_oldest_tag_on() {
        let nondet = kstore_nondet::Nondet::simulated(1);
        let store = Store::open(kstore_store::Config::memory(), nondet.clone()).await.unwrap();
        for value in ["1", "2", "3", "4"] {
            store.put("key", value).await.unwrap();
        }
        let map =
            |data: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{}},"data":{data}}}"#);
        let tagged = map(r#"{"before":"3","later":"4","broken":"x"}"#);
        store.put(tags::storage_key(), tagged).await.unwrap();
        let stop = CancellationToken::new();
        let retention = Retention::of(History::For(Duration::from_secs(1)));
        let task = tokio::spawn(run(store.clone(), retention, nondet.clock, stop.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((store.revision(), store.compacted()), (Revision(6), Revision(3)));
        store.put(tags::storage_key(), map("{}")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(store.compacted(), Revision(6), "the tag is deleted");
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn automatic_compaction_keeps_the_states_before_the_newest_revision() {
        let nondet = kstore_nondet::Nondet::simulated(1);
        let store = Store::open(kstore_store::Config::memory(), nondet.clone()).await.unwrap();
        for value in ["1", "2", "3"] {
            store.put("key", value).await.unwrap();
        }
        let stop = CancellationToken::new();
        let retention = Retention::of(History::For(Duration::from_secs(1)));
        let task = tokio::spawn(run(store.clone(), retention, nondet.clock, stop.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((store.revision(), store.compacted()), (Revision(4), Revision(3)));
        stop.cancel();
        task.await.unwrap();
    }
}
