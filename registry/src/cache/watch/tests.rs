//! Watches over a store in memory: more watches than are woken in one turn, and watches that start at
//! revisions before or within the kept recent changes.

use super::*;
use crate::kinds::Kinds;
use bytes::Bytes;
use kstore_api::kind;
use kstore_nondet::Nondet;
use kstore_storage::limits;
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::{Commit, SharedStorage, Write};
use kstore_store::{Config, Store};
use serde_json::json;
use std::sync::atomic::{AtomicI64, Ordering};

fn row(group: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, "v1", plural).unwrap()
}

fn maps() -> &'static Resource {
    row("", "configmaps")
}

fn leases() -> &'static Resource {
    row("coordination.k8s.io", "leases")
}

async fn cache() -> Arc<Cache> {
    let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
    cache_over(Arc::new(Embedded::new(store))).await
}

async fn cache_over(storage: SharedStorage) -> Arc<Cache> {
    let (cache, follow) = Cache::fill(storage, |_| {}).await.unwrap();
    tokio::spawn(follow);
    cache
}

/// Stores an object of each kind under this name, at one revision.
async fn put(cache: &Cache, kinds: &[&'static Resource], name: &str) {
    let write = |kind: &&'static Resource| {
        let metadata = json!({"name": name, "namespace": "ns"});
        let object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata});
        let value = kstore_api::object::encode_stored(&object).into();
        Write::Put { key: kind.storage_key("ns", name), value, ttl_seconds: 0 }
    };
    let writes = kinds.iter().map(write).collect();
    cache.storage().commit(Commit { guards: Vec::new(), writes, note: Bytes::new() }).await.unwrap();
}

/// The kinds and revisions of the next `count` deliveries, in order.
async fn deliveries(watch: &mut Watch, count: usize) -> Vec<(&'static str, i64)> {
    let mut found = Vec::new();
    while found.len() < count {
        let batch = watch.next().await.unwrap();
        found.extend(batch.deliveries.iter().map(|d| (d.change.any().resource.plural, d.change.revision)));
        assert!(found.last().is_some_and(|(_, revision)| *revision <= batch.revision));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watches_each_get_every_change_once_and_in_order() {
    const CHANGES: usize = 40;
    let cache = cache().await;
    let mut watching = tokio::task::JoinSet::new();
    for _ in 0..16 * limits::WAKE_UPS {
        let filters = vec![Filter::all(maps())];
        let mut watch = Watch::start(cache.clone(), filters, WatchStart::State).await.unwrap();
        watching.spawn(async move { deliveries(&mut watch, CHANGES).await });
    }
    let first = cache.fresh().await.unwrap() + 1;
    for number in 0..CHANGES {
        put(&cache, &[maps()], &number.to_string()).await;
    }
    let want: Vec<_> = (first..).take(CHANGES).map(|revision| ("configmaps", revision)).collect();
    while let Some(found) = watching.join_next().await {
        assert_eq!(found.unwrap(), want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_delivers_several_kinds_in_the_order_of_their_changes() {
    let cache = cache().await;
    let begin = cache.fresh().await.unwrap();
    for kinds in [vec![leases()], vec![maps()], vec![leases(), maps()], vec![maps(), leases()]] {
        put(&cache, &kinds, "a").await;
    }
    let end = cache.fresh().await.unwrap();
    let filters = || vec![Filter::all(maps()), Filter::all(leases())];
    let mut resumed = Watch::start(cache.clone(), filters(), WatchStart::After(begin)).await.unwrap();
    assert!(matches!(resumed.source, Source::Live { .. }), "the rings reach back");
    let found = deliveries(&mut resumed, 6).await;
    let plurals: Vec<_> = found.iter().map(|(plural, _)| *plural).collect();
    assert_eq!(plurals, ["leases", "configmaps", "leases", "configmaps", "configmaps", "leases"]);
    assert_eq!((found[0].1, found[5].1), (begin + 1, end));
    let mut history = cache.storage().watch(ROOT, begin).await.unwrap();
    let mut from_history = Vec::new();
    while from_history.len() < found.len() {
        let batch = history.next().await.unwrap().unwrap();
        from_history.extend(
            resumed.deliveries(&batch).iter().map(|d| (d.change.any().resource.plural, d.change.revision)),
        );
    }
    assert_eq!(from_history, found, "the storage's history has the same changes");
}

/// Drops all kept changes, as the cache does with old ones.
fn forget(cache: &Cache) {
    let mut state = cache.state.write();
    let super::super::CacheState { kinds, retained, .. } = &mut *state;
    retained.release(kinds, i64::MAX, 0, usize::MAX);
}

/// Event types and names of all deliveries before that of `marker`.
async fn events_before(watch: &mut Watch, marker: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    loop {
        for delivery in watch.next().await.unwrap().deliveries {
            let name = delivery.change.any().name().to_owned();
            if name == marker {
                return found;
            }
            found.push((delivery.seen.as_str(), name));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumed_inside_a_revision_repeats_its_changes() {
    let cache = cache().await;
    for name in ["changed", "gone"] {
        put(&cache, &[maps(), leases()], name).await;
    }
    let before = cache.fresh().await.unwrap();
    let write = |name: &str| {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}});
        let value = kstore_api::object::encode_stored(&object).into();
        Write::Put { key: maps().storage_key("ns", name), value, ttl_seconds: 0 }
    };
    let writes =
        vec![write("new"), write("changed"), Write::Delete { key: maps().storage_key("ns", "gone") }];
    cache.storage().commit(Commit { guards: Vec::new(), writes, note: Bytes::new() }).await.unwrap();
    let shared = cache.fresh().await.unwrap();
    put(&cache, &[maps(), leases()], "single").await;
    let single = cache.fresh().await.unwrap();
    put(&cache, &[maps(), leases()], "marker").await;
    cache.fresh().await.unwrap();
    let named = |name: &str| Filter { namespace: "ns".into(), name: name.into(), ..Filter::all(maps()) };
    let owned = |events: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
        events.iter().map(|(seen, name)| (*seen, (*name).to_owned())).collect()
    };
    let as_it_was = [("ADDED", "new"), ("MODIFIED", "changed"), ("DELETED", "gone"), ("ADDED", "single")];
    let again = [("MODIFIED", "new"), ("MODIFIED", "changed"), ("DELETED", "gone"), ("ADDED", "single")];
    let single_only = [("ADDED", "single")];
    for is_history in [false, true] {
        if is_history {
            forget(&cache);
        }
        for (filter, start, want) in [
            (Filter::all(maps()), WatchStart::Resume(before), &as_it_was[..]),
            (Filter::all(maps()), WatchStart::Resume(shared), &again),
            (Filter::all(maps()), WatchStart::After(shared), &single_only),
            (Filter::all(leases()), WatchStart::Resume(shared), &single_only),
            (Filter::all(maps()), WatchStart::Resume(single), &[]),
        ] {
            let text = format!("{start:?} {is_history}");
            let mut watch = Watch::start(cache.clone(), vec![filter], start).await.unwrap();
            assert_eq!(matches!(watch.source, Source::History(_)), is_history, "{text}");
            assert_eq!(events_before(&mut watch, "marker").await, owned(want), "{text}");
        }
        let filters = vec![named("changed")];
        let mut watch = Watch::start(cache.clone(), filters, WatchStart::Resume(shared)).await.unwrap();
        let nothing = tokio::time::timeout(std::time::Duration::from_secs(60), watch.next()).await;
        assert!(
            nothing.is_err(),
            "a watch of one object has seen its only change of the revision: {nothing:?}"
        );
        assert!(watch.revision() >= shared);
    }
}

/// A storage whose history lacks the states before a revision, like an etcd after compaction to that
/// revision.
struct Compacted {
    inner: Embedded,
    revision: Arc<AtomicI64>,
}

#[async_trait::async_trait]
impl kstore_storage::storage::Layer for Compacted {
    fn inner(&self) -> &dyn kstore_storage::storage::Storage {
        &self.inner
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        let inner = kstore_storage::storage::Storage::watch(&self.inner, prefix, after).await?;
        Ok(Box::new(CompactedWatch { inner, revision: self.revision.clone() }))
    }
}

struct CompactedWatch {
    inner: Box<dyn RawWatch>,
    revision: Arc<AtomicI64>,
}

#[async_trait::async_trait]
impl RawWatch for CompactedWatch {
    async fn next(&mut self) -> Option<Result<RawBatch, ReadError>> {
        let mut batch = self.inner.next().await?;
        if let Ok(batch) = &mut batch
            && batch.revision <= self.revision.load(Ordering::Relaxed)
        {
            batch.events.iter_mut().for_each(|event| event.previous = None);
        }
        Some(batch)
    }
}

/// A client resumes inside the newest revision without having seen a deletion. Compaction removed the deleted
/// state, so the watch cannot repeat the deletion: the client must list again, although no newer revision
/// exists yet.
#[tokio::test(start_paused = true)]
async fn a_watch_from_inside_the_newest_revision_expires_if_compaction_removed_a_deleted_state() {
    let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
    let compacted = Arc::new(AtomicI64::new(0));
    let storage = Compacted { inner: Embedded::new(store), revision: compacted.clone() };
    let cache = cache_over(Arc::new(storage)).await;
    for name in ["changed", "gone"] {
        put(&cache, &[maps()], name).await;
    }
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "changed", "namespace": "ns"}});
    let value = kstore_api::object::encode_stored(&object).into();
    let writes = vec![
        Write::Put { key: maps().storage_key("ns", "changed"), value, ttl_seconds: 0 },
        Write::Delete { key: maps().storage_key("ns", "gone") },
    ];
    cache.storage().commit(Commit { guards: Vec::new(), writes, note: Bytes::new() }).await.unwrap();
    let shared = cache.fresh().await.unwrap();
    forget(&cache);
    compacted.store(shared, Ordering::Relaxed);

    let filters = || vec![Filter::all(maps())];
    let first = async |start| match Watch::start(cache.clone(), filters(), start).await {
        Ok(mut watch) => tokio::time::timeout(limits::FRESH_WAIT, watch.next()).await.ok(),
        Err(end) => Some(Err(end)),
    };
    let expired = Some(WatchEnd::Expired { after: shared, oldest: shared + 1 });
    let end = first(WatchStart::Resume(shared)).await.map(|first| first.expect_err("not a batch"));
    assert_eq!(end, expired);
    let whole = first(WatchStart::After(shared)).await;
    assert!(whole.is_none(), "a client that has the whole revision waits for the next: {whole:?}");

    // The next write makes a revision to list at and to resume from.
    put(&cache, &[maps()], "single").await;
    let next = cache.fresh().await.unwrap();
    let mut watch = Watch::start(cache.clone(), filters(), WatchStart::Resume(next)).await.unwrap();
    put(&cache, &[maps()], "marker").await;
    assert!(events_before(&mut watch, "marker").await.is_empty());
}

/// The task that feeds the cache panics while it applies a change: the cache is filled again, and no watch
/// keeps a state that lacks a change.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_cache_task_ends_watches_and_refills_the_cache() {
    let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
    let metrics = Arc::new(kstore_storage::metrics::Metrics::default());
    let seen = std::sync::atomic::AtomicU32::new(0);
    let observe = move |_: &kstore_storage::storage::RawBatch| {
        assert_ne!(seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed), 3, "the fourth change");
    };
    let storage = Arc::new(Embedded::new(store));
    let (cache, follow) =
        Cache::fill_counted(storage, Kinds::built_in(), metrics.clone(), observe).await.unwrap();
    let task = tokio::spawn(follow);
    let filters = vec![Filter::all(maps())];
    let mut watch = Watch::start(cache.clone(), filters.clone(), WatchStart::State).await.unwrap();
    for number in 0..3 {
        put(&cache, &[maps()], &number.to_string()).await;
    }
    assert_eq!(deliveries(&mut watch, 3).await.len(), 3);
    put(&cache, &[maps()], "3").await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!cache.is_healthy(), "no change is applied");
    let revision = cache.fresh().await.expect("the cache reaches the storage's revision again");
    assert_eq!((cache.count(maps()), cache.is_healthy()), (4, true));
    assert!(matches!(watch.next().await, Err(WatchEnd::Overrun)), "it may have missed something");
    let mut again = Watch::start(cache.clone(), filters, WatchStart::State).await.unwrap();
    assert_eq!(again.initial().len(), 4);
    put(&cache, &[maps()], "4").await;
    assert_eq!(deliveries(&mut again, 1).await, [("configmaps", revision + 1)]);
    assert!(!task.is_finished());
    let page = metrics.render(kstore_api::version::Minor::DEFAULT, std::iter::empty());
    assert!(page.contains("kstore_apiserver_task_restarts_total{task=\"watch-cache\"} 1\n"), "{page}");
}

/// A cache that can apply no change would show an old state for ever: it closes, and its process shuts down.
#[tokio::test(start_paused = true)]
async fn a_cache_whose_task_panics_repeatedly_closes() {
    let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
    let storage = Arc::new(Embedded::new(store));
    let (cache, follow) = Cache::fill(storage, |_| panic!("every change")).await.unwrap();
    let mut task = tokio::spawn(follow);
    for number in 0..limits::CACHE_PANICS {
        assert!(!task.is_finished() && !cache.is_closed());
        put(&cache, &[maps()], &number.to_string()).await;
        let reached = tokio::time::timeout(limits::RESTART_BACKOFF_CAP, cache.reached(i64::from(number) + 2));
        let _ = reached.await;
    }
    tokio::time::timeout(limits::RESTART_BACKOFF_CAP, &mut task).await.unwrap().unwrap();
    assert!(cache.is_closed());
}

/// A filter with as many requirements as a request may have; objects without labels match.
fn costly() -> Filter {
    let labels: Vec<_> = (0..limits::SELECTOR_REQUIREMENTS).map(|number| format!("!l{number}")).collect();
    let labels = kstore_api::selector::label::Selector::parse(&labels.join(",")).unwrap();
    Filter { labels, ..Filter::all(maps()) }
}

#[tokio::test(start_paused = true)]
async fn costly_selectors_are_evaluated_by_their_own_watch_in_steps() {
    const CHANGES: usize = 40;
    let cache = cache().await;
    let begin = cache.fresh().await.unwrap();
    let start = async |filter: Filter, start| Watch::start(cache.clone(), vec![filter], start).await.unwrap();
    let mut live = start(costly(), WatchStart::State).await;
    let unmatched =
        Filter { labels: kstore_api::selector::label::Selector::parse("l0,l1").unwrap(), ..costly() };
    let mut quiet = start(unmatched, WatchStart::State).await;
    for number in 0..CHANGES {
        put(&cache, &[maps()], &number.to_string()).await;
    }
    let end = cache.fresh().await.unwrap();
    let mut resumed = start(costly(), WatchStart::After(begin)).await;
    let want = deliveries(&mut start(Filter::all(maps()), WatchStart::After(begin)).await, CHANGES).await;
    let step = limits::SELECTION_CHECKS / (1 + limits::SELECTOR_REQUIREMENTS);
    for watch in [&mut live, &mut resumed] {
        let first = watch.next().await.unwrap();
        assert_eq!(first.deliveries.len(), step);
        assert_eq!(first.revision, first.deliveries[step - 1].change.revision);
        let rest = deliveries(watch, CHANGES - step).await;
        assert_eq!((rest, watch.revision()), (want[step..].to_vec(), end));
    }
    assert!(quiet.progress().unwrap().deliveries.is_empty());
    let none = tokio::time::timeout(std::time::Duration::from_secs(1), quiet.next()).await;
    assert!(none.is_err() && quiet.revision() == end, "{none:?}");
}

/// A bound that a test moves.
#[derive(Debug, Default)]
struct TestBound {
    limit: AtomicI64,
    /// The revision before which the watch ends; 0: none.
    end: AtomicI64,
    changed: tokio::sync::Notify,
}

impl TestBound {
    fn move_to(&self, limit: i64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.changed.notify_waiters();
    }
}

impl ReadBound for TestBound {
    fn state(&self) -> Option<i64> {
        None
    }

    fn refusal(&self) -> Option<WatchEnd> {
        None
    }

    fn limit(&self) -> i64 {
        self.limit.load(Ordering::Relaxed)
    }

    fn due(&self, delivery: &Delivery) -> super::super::Verdict {
        match delivery.change.revision == self.end.load(Ordering::Relaxed) {
            true => super::super::Verdict::End(WatchEnd::Closed),
            false => super::super::Verdict::Show,
        }
    }

    fn changed(&self) -> &tokio::sync::Notify {
        &self.changed
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_stops_at_its_bound_and_goes_on_in_order_when_it_moves() {
    let cache = cache().await;
    let begin = cache.fresh().await.unwrap();
    let bound = Arc::new(TestBound::default());
    bound.move_to(begin);
    let start = WatchStart::After(begin);
    let watch = Watch::start(cache.clone(), vec![Filter::all(maps())], start).await.unwrap();
    let mut watch = watch.within(bound.clone(), None);
    for name in ["a", "b", "c", "d"] {
        put(&cache, &[maps()], name).await;
    }
    cache.fresh().await.unwrap();
    let nothing = tokio::time::timeout(std::time::Duration::from_secs(60), watch.next()).await;
    assert!(nothing.is_err(), "everything is beyond the bound");
    let progress = watch.progress().unwrap();
    assert_eq!((progress.deliveries.len(), progress.revision), (0, begin), "no bookmark is beyond it");
    bound.move_to(begin + 1);
    assert_eq!(deliveries(&mut watch, 1).await, [("configmaps", begin + 1)]);
    assert_eq!(watch.revision(), begin + 1);
    bound.end.store(begin + 4, Ordering::Relaxed);
    let waiting = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        bound.move_to(i64::MAX);
    };
    let (found, ()) = tokio::join!(deliveries(&mut watch, 2), waiting);
    assert_eq!(found, [("configmaps", begin + 2), ("configmaps", begin + 3)]);
    assert_eq!(watch.revision(), begin + 3);
    assert!(matches!(watch.next().await, Err(WatchEnd::Closed)), "the bound ends it before the last change");
}
