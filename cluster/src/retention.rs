//! Automatic compaction: compacts history that is older than the [`Retention`] allows. The store does the compaction.

use crate::phase::Phase;
use jiff::{SignedDuration, Timestamp};
use kstore_apiserver::tags;
use kstore_informer::metrics::Registry;
use kstore_nondet::Clock;
use kstore_store::{KeyRange, Range, Revision, Store};
use std::collections::VecDeque;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Longest interval between samples of the store's revision. A history shorter than ten intervals is sampled
/// ten times in its length.
const SAMPLE: Duration = Duration::from_secs(30);

/// Interval of looks at the size of a history that is bounded in bytes: a burst of writes may exceed the bound for that long.
const SIZE_SAMPLE: Duration = Duration::from_secs(1);
/// Parts of ten of the quota that history may fill, with the newest versions. The rest is for the writes of one interval.
const QUOTA_TENTHS: u64 = 8;

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
    /// Most bytes of versions that are not the newest of their keys.
    bytes: Option<u64>,
}

impl Retention {
    /// Compacts often enough that at most a tenth more than `history` is kept, or what half a minute adds.
    pub fn of(history: History) -> Self {
        Self { history, interval: period(history), bytes: None }
    }

    /// Keeps revisions for this time, and compacts only as often: so up to twice as much is kept, at the lowest cost.
    pub fn coarse(kept: Duration) -> Self {
        Self { history: History::For(kept), interval: kept, bytes: None }
    }

    /// Keeps at most this many bytes of history, besides the bound in time or revisions: whichever is reached first. Superseded versions
    /// then also go before the store's quota would refuse writes. Tags do not keep them from that.
    #[must_use]
    pub fn within(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }
}

/// Compacts a store until `core` ends, then closes it. A watch cache watches the store, and keeps it in memory, until the store is closed.
pub fn keep_store(store: &Store, retention: Retention, clock: Clock, metrics: &Registry, core: &Phase) {
    if let Some(bytes) = retention.bytes {
        let store = store.clone();
        core.supervise("history-size", metrics, move |tasks| {
            bound_size(store.clone(), bytes, tasks.stop().clone())
        });
    }
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

/// Compacts the store whenever its history has more than `bytes`, or too much for the quota, until `stop`.
async fn bound_size(store: Store, bytes: u64, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SIZE_SAMPLE) => {}
        }
        let Some(revision) = excess(&store, bytes) else { continue };
        // The size shows only what is removed from the disk.
        let compacted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            compacted = store.compact_physical(revision) => compacted,
        };
        if let Err(error) = compacted {
            warn!(%error, %revision, "history could not be compacted to its size");
        }
    }
}

/// The revision up to which history has to go; `None` while it is small enough.
fn excess(store: &Store, bytes: u64) -> Option<Revision> {
    let status = store.status();
    let quota = status.quota.map_or(u64::MAX, |quota| quota / 10 * QUOTA_TENTHS);
    let live = status.size.live;
    if live <= bytes.min(quota) {
        return None;
    }
    // Newest versions are shared with the store: this copies references.
    let newest = store.range(&Range::new(KeyRange::all())).ok()?;
    let newest: u64 = newest.kvs.iter().map(|kv| kv.encoded().len() as u64).sum();
    let allowed = bytes.min(quota.saturating_sub(newest));
    let bounds = (status.compacted.max(Revision::FIRST), status.revision);
    let revision = compacted_to(live.saturating_sub(newest), allowed, bounds)?;
    Some(revision.min(before_newest(store))).filter(|revision| *revision > status.compacted)
}

/// The revision up to which a history of `bytes` goes, so that three quarters of the allowed bytes are left if all revisions between the
/// oldest and the newest are equally large.
fn compacted_to(bytes: u64, allowed: u64, (oldest, newest): (Revision, Revision)) -> Option<Revision> {
    if bytes <= allowed {
        return None;
    }
    let span = u128::from((newest.0 - oldest.0).unsigned_abs());
    let kept = span * u128::from(allowed / 4 * 3) / u128::from(bytes);
    Some(Revision(newest.0 - i64::try_from(kept).unwrap_or(i64::MAX)))
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

    #[test]
    fn a_history_that_is_too_large_loses_its_oldest_part() {
        let bounds = (Revision(1_000), Revision(2_000));
        assert_eq!(compacted_to(400, 400, bounds), None);
        assert_eq!(compacted_to(800, 400, bounds), Some(Revision(1_625)));
        assert_eq!(compacted_to(800, 0, bounds), Some(Revision(2_000)));
        assert_eq!(compacted_to(1, 0, (Revision(5), Revision(5))), Some(Revision(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bounded_history_makes_no_write_fail_at_the_quota() {
        const QUOTA: u64 = 1 << 20;
        let nondet = kstore_nondet::Nondet::simulated(1);
        let write = async |bytes: Option<u64>| {
            let mut config = kstore_store::Config::memory();
            config.limits.quota_bytes = Some(QUOTA);
            let (store, stop) =
                (Store::open(config, nondet.clone()).await.unwrap(), CancellationToken::new());
            let task = bytes.map(|bytes| tokio::spawn(bound_size(store.clone(), bytes, stop.clone())));
            let mut largest = 0;
            for at in 0..400 {
                let written = store.put(format!("key-{}", at % 5), vec![b'x'; 10_000]).await;
                largest = largest.max(store.size().live);
                if written.is_err() {
                    return Err(at);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            stop.cancel();
            if let Some(task) = task {
                task.await.unwrap();
            }
            Ok((store.revision(), largest))
        };
        assert!(write(None).await.is_err_and(|at| at < 110), "the quota is reached without a bound");
        let (revision, largest) = write(Some(200_000)).await.unwrap();
        assert_eq!(revision, Revision(401));
        assert!(largest < 400_000, "{largest}: the newest versions, the bound, and the writes of a second");
        let (_, largest) = write(Some(u64::MAX)).await.unwrap();
        assert!(largest < QUOTA && largest > QUOTA / 2, "{largest}: history goes before the quota");
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
