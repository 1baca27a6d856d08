//! The conformance tests that every engine and durability passes: random actions on a store and on the model; all
//! results are compared.

use super::actions::{Action, HistoryPosition, action};
use crate::disk::sim::SimDisk;
use crate::fuzzing::model::{self, Change, Model};
use crate::{
    CompactError, Config, Durability, EngineKind, KeyRange, LeaseError, Limits, Range, RangeError, Revision,
    Store, Txn, TxnError, WatchError, WatchRequest, Watcher,
};
use kstore_nondet::{Nondet, Rng};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};
use std::sync::Arc;
use std::time::Duration;

/// Tiny limits, so that rare branches are common.
pub(super) fn tiny(config: Config, choice: u8) -> Config {
    let limits = Limits {
        window_revisions: 1 + usize::from(choice % 7),
        watcher_events: 1 + usize::from(choice % 5),
        history_revisions: 1 + usize::from(choice % 3),
        first_segment_bytes: 16 << 10,
        segment_bytes: 16 << 10,
        checkpoint_bytes: 1 << 10,
        engine_file_bytes: 2 << 10,
        disk_free_bytes: 0,
        reserve_bytes: 1 << 10,
        pack_rest: Duration::ZERO,
        ..Limits::default()
    };
    Config { limits, ..config }
}

/// How the store under test is opened.
#[derive(Clone)]
pub(super) enum TestSetup {
    /// Through the public interface.
    Plain(Config),
    /// Without threads, on a simulated disk.
    Stepped(SimDisk, Config),
}

impl TestSetup {
    pub(super) fn stepped(engine: EngineKind, choice: u8) -> Self {
        let config = Config { engine, ..Config::durable("/data") };
        Self::Stepped(SimDisk::default(), tiny(config, choice))
    }

    async fn open(&self, seed: u64) -> Store {
        match self {
            Self::Plain(config) => Store::open(config.clone(), Nondet::simulated(seed)).await.unwrap(),
            Self::Stepped(disk, config) => {
                Store::open_stepped(Arc::new(disk.clone()), config, &Rng::seeded(seed)).unwrap()
            }
        }
    }

    fn is_durable(&self) -> bool {
        match self {
            Self::Plain(config) | Self::Stepped(_, config) => config.dir.is_some(),
        }
    }
}

/// A store under test, its model, and its watches.
pub(super) struct Harness {
    bed: TestSetup,
    opened: u64,
    pub(super) store: Store,
    pub(super) model: Model,
    watches: Vec<WatchUnderTest>,
}

struct WatchUnderTest {
    watcher: Watcher,
    request: WatchRequest,
    /// The next revision that has not been compared.
    next: i64,
}

impl Harness {
    pub(super) async fn open(bed: TestSetup) -> Self {
        let store = bed.open(1).await;
        Self { bed, opened: 1, store, model: Model::new(), watches: vec![] }
    }

    pub(super) async fn act(&mut self, action: Action) {
        match action {
            Action::Txn(txn) => self.txn(txn).await,
            Action::Each(txns) => self.each(txns).await,
            Action::Range(range, part) => self.range(range, part),
            Action::Compact(part) => self.compact(part).await,
            Action::Grant(id) => {
                let granted = self.store.lease_grant(60, model::lease(id)).await;
                match self.model.leases.insert(id, 60) {
                    Some(_) => assert_eq!(granted, Err(LeaseError::Exists(model::lease(id)))),
                    None => assert_eq!(granted.unwrap().revision.0, self.model.revision()),
                }
            }
            Action::Revoke(id) => self.revoke(id).await,
            Action::Watch(request, part) => self.watch(request, part),
            Action::Drain => self.drain().await,
            Action::Reopen => self.reopen().await,
        }
        assert_eq!(self.store.revision().0, self.model.revision());
        assert_eq!(self.store.compacted().0, self.model.compacted);
    }

    async fn txn(&mut self, txn: Txn) {
        match self.store.txn(txn.clone()).await {
            Ok(result) => {
                let expected = self.model.txn(&txn);
                assert_eq!(model::outcome(&result), expected, "{txn:?}");
            }
            Err(TxnError::DuplicateKey) => {}
            Err(TxnError::LeaseNotFound(id)) => assert!(!self.model.leases.contains_key(&id.0)),
            Err(TxnError::KeyNotFound) => {}
            Err(error) => panic!("{error}: {txn:?}"),
        }
    }

    async fn each(&mut self, txns: Vec<Txn>) {
        let results = match self.store.each(txns.clone()).await {
            Ok(results) => results,
            // Refused as a whole.
            Err(TxnError::DuplicateKey) => return,
            Err(error) => panic!("{error}: {txns:?}"),
        };
        assert_eq!(results.len(), txns.len());
        for (at, (txn, result)) in txns.iter().zip(results).enumerate() {
            match result {
                Ok(result) => assert_eq!(model::outcome(&result), self.model.txn(txn), "{txn:?}"),
                Err(TxnError::DuplicateKey | TxnError::KeyNotFound) => {}
                Err(TxnError::LeaseNotFound(id)) => assert!(!self.model.leases.contains_key(&id.0)),
                // The bytes of a group, with tiny limits.
                Err(TxnError::TooLarge) if at > 0 => {}
                Err(error) => panic!("{error}: {txn:?}"),
            }
        }
    }

    /// The revision at a position in the history.
    fn at(&self, part: HistoryPosition) -> i64 {
        1 + (part * (self.model.revision() + 1) as f64) as i64
    }

    fn range(&self, mut range: Range, part: HistoryPosition) {
        range.revision = Revision(if part < 0.2 { 0 } else { self.at(part) });
        let (requested, current) = (range.revision, Revision(self.model.revision()));
        let compacted = Revision(self.model.compacted);
        let result = self.store.range(&range);
        if requested > current {
            assert_eq!(result, Err(RangeError::Future { requested, current }));
        } else if requested.0 > 0 && requested < compacted {
            assert_eq!(result, Err(RangeError::Compacted { requested, compacted }));
        } else {
            let map = &self.model.maps[if requested.0 == 0 { current } else { requested }.0 as usize];
            assert_eq!(
                model::range_reply(&result.unwrap()),
                model::range(map, &range, current.0),
                "{range:?}"
            );
        }
    }

    async fn compact(&mut self, part: HistoryPosition) {
        let requested = Revision(self.at(part));
        let (current, compacted) = (Revision(self.model.revision()), Revision(self.model.compacted));
        let expected = if requested <= compacted {
            Err(CompactError::Compacted { requested, compacted })
        } else if requested > current {
            Err(CompactError::Future { requested, current })
        } else {
            self.model.compacted = requested.0;
            Ok(())
        };
        assert_eq!(self.store.compact(requested).await, expected);
    }

    async fn revoke(&mut self, id: i64) {
        let revoked = self.store.lease_revoke(model::lease(id)).await;
        if self.model.leases.contains_key(&id) {
            self.model.revoke(id);
            assert_eq!(revoked, Ok(Revision(self.model.revision())));
        } else {
            assert_eq!(revoked, Err(LeaseError::NotFound(model::lease(id))));
        }
    }

    fn watch(&mut self, mut request: WatchRequest, part: Option<HistoryPosition>) {
        request.start = Revision(part.map_or(0, |part| self.at(part)));
        match self.store.watch(request.clone()) {
            Ok(watcher) => {
                let next = if request.start.0 == 0 { self.model.revision() + 1 } else { request.start.0 };
                self.watches.push(WatchUnderTest { watcher, request, next });
            }
            Err(error) => assert!(error == WatchError::EmptyRange && request.keys.is_empty()),
        }
    }

    /// Reads all batches up to the current revision and compares them. A progress request tells when everything was
    /// returned.
    async fn drain(&mut self) {
        let (model, mut kept) = (&self.model, vec![]);
        for mut watched in self.watches.drain(..) {
            if watched.next > model.revision() {
                assert_eq!(watched.watcher.try_next(), None);
                kept.push(watched);
                continue;
            }
            watched.watcher.handle().request_progress();
            let compacted = watched.compare(model).await;
            if compacted {
                assert!(watched.watcher.next().await.is_none(), "a watch ends after its error");
            } else {
                assert_eq!(watched.watcher.progress().unwrap().0, model.revision());
                kept.push(watched);
            }
        }
        self.watches = kept;
    }

    async fn reopen(&mut self) {
        self.drain().await;
        if !self.bed.is_durable() {
            return;
        }
        self.store.close().await;
        for mut watched in self.watches.drain(..) {
            assert!(watched.watcher.next().await.is_none(), "a watch ends with its store");
        }
        self.opened += 1;
        self.store = self.bed.open(self.opened).await;
        self.check_state().await;
    }

    /// Compares everything readable: all revisions, the whole history, notes and leases.
    pub(super) async fn check_state(&mut self) {
        let everything = Range::new(KeyRange::all());
        for revision in self.model.compacted.max(1)..=self.model.revision() {
            let read = self.store.range(&everything.clone().at(Revision(revision))).unwrap();
            let map = &self.model.maps[revision as usize];
            assert_eq!(model::range_reply(&read), model::range(map, &everything, self.model.revision()));
        }
        for (revision, note) in (0..).zip(&self.model.notes) {
            let read = self.store.note(Revision(revision)).map(|note| note.to_vec());
            let gone = read.is_none() && !self.model.must_keep_note(revision);
            assert!(read == *note || gone, "the note of {revision} is {read:?}");
        }
        for key in self.model.keys() {
            let versions = self.store.versions(&key).unwrap();
            let found: Vec<_> = versions.iter().map(|version| (version.revision.0, version.effect)).collect();
            assert_eq!(found, self.model.versions(&key), "{key:?}");
        }
        let leases = self.store.leases().await.unwrap();
        assert!(leases.iter().map(|id| id.0).eq(self.model.leases.keys().copied()));
        let start = Revision(self.model.compacted.max(1));
        let request = WatchRequest::new(KeyRange::all()).from(start).with_prev_kv();
        let watcher = self.store.watch(request.clone()).unwrap();
        watcher.handle().request_progress();
        if start.0 <= self.model.revision() {
            assert!(!WatchUnderTest { watcher, request, next: start.0 }.compare(&self.model).await);
        }
    }
}

impl WatchUnderTest {
    /// Compares batches with the model up to the current revision. Returns whether the watch was compacted.
    async fn compare(&mut self, model: &Model) -> bool {
        loop {
            let batch = match self.watcher.next().await.expect("a watch of an open store goes on") {
                Ok(batch) => batch,
                Err(WatchError::Compacted { compacted }) => {
                    assert_eq!(compacted.0, model.compacted);
                    assert!(self.next < model.compacted, "nothing that is kept is refused");
                    return true;
                }
                Err(error) => panic!("{error}"),
            };
            let until = batch.revision.0;
            let silent = self.next..if batch.events.is_empty() { until + 1 } else { until };
            for revision in silent {
                assert_eq!(self.expected(model, revision), vec![], "revision {revision} was passed over");
            }
            self.next = until + 1;
            if batch.events.is_empty() {
                assert_eq!(until, model.revision());
                return false;
            }
            self.compare_batch(model, until, &batch);
        }
    }

    fn compare_batch(&self, model: &Model, revision: i64, batch: &crate::Batch) {
        let expected = self.expected(model, revision);
        let notes = batch.events.iter().map(|event| event.note.as_deref());
        assert!(notes.clone().all(|note| note == model.notes[revision as usize].as_deref()), "{notes:?}");
        let mut found: Vec<_> = batch.events.iter().map(|event| model::change(event)).collect();
        for (found, expected) in found.iter_mut().zip(&expected) {
            // If not requested, or compacted, the previous version may be there or not.
            let optional = !self.request.prev_kv || revision <= model.compacted;
            if found.3.is_none() && optional {
                found.3.clone_from(&expected.3);
            }
        }
        assert_eq!(found, expected, "at revision {revision}");
    }

    fn expected(&self, model: &Model, revision: i64) -> Vec<Change> {
        let changes = model.changes.get(revision as usize).into_iter().flatten();
        let kind = |change: &&Change| match change.0 {
            crate::EventKind::Put => !self.request.no_put,
            crate::EventKind::Delete => !self.request.no_delete,
        };
        changes.filter(|change| self.request.keys.contains(&change.1)).filter(kind).cloned().collect()
    }
}

/// Runs actions on a new store, and compares everything at the end.
pub(super) async fn run(bed: TestSetup, actions: Vec<Action>) {
    let mut bench = Harness::open(bed).await;
    for action in actions {
        bench.act(action).await;
    }
    bench.act(Action::Drain).await;
    bench.check_state().await;
    bench.act(Action::Reopen).await;
    bench.store.close().await;
}

/// Runs a future on one thread with paused time, which advances only when no task can run: a deadlock fails at once.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let patience = Duration::from_secs(1_000_000);
    runtime
        .unwrap()
        .block_on(async { tokio::time::timeout(patience, future).await.expect("nothing waits for ever") })
}

/// The number of cases of a property in a quick run. `PROPTEST_CASES` scales it; 256 means `usual` cases.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let scale = ProptestConfig::default();
    ProptestConfig { cases: (usual * scale.cases / 256).max(1), ..scale }
}

/// Runs a future in real time: virtual time would advance ahead of the store's threads.
pub(crate) fn block_on_real<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn in_a_directory(config: impl FnOnce(std::path::PathBuf) -> Config, actions: Vec<Action>, choice: u8) {
    let dir = tempfile::tempdir().unwrap();
    let config = tiny(config(dir.path().join("data")), choice);
    block_on_real(run(TestSetup::Plain(config), actions));
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn a_store_in_memory_conforms_to_the_model(actions in vec(action(), 1..120), choice in any::<u8>()) {
        block_on(run(TestSetup::Plain(tiny(Config::memory(), choice)), actions));
    }

    #[test]
    fn a_store_with_segments_conforms_to_the_model(actions in vec(action(), 1..120), choice in any::<u8>()) {
        block_on(run(TestSetup::stepped(EngineKind::Segments, choice), actions));
    }

    #[test]
    fn a_store_with_a_log_alone_conforms_to_the_model(actions in vec(action(), 1..80), choice in any::<u8>()) {
        block_on(run(TestSetup::stepped(EngineKind::Memory, choice), actions));
    }
}

proptest! {
    // Real files and threads are slow, so there are fewer cases.
    #![proptest_config(cases(12))]

    #[test]
    fn a_store_on_disk_conforms_to_the_model(actions in vec(action(), 1..80), choice in any::<u8>()) {
        in_a_directory(Config::durable, actions, choice);
    }

    #[test]
    fn a_relaxed_store_conforms_to_the_model(actions in vec(action(), 1..80), choice in any::<u8>()) {
        let durability = Durability::Relaxed { interval: Duration::from_millis(3) };
        in_a_directory(|dir| Config { durability, ..Config::durable(dir) }, actions, choice);
    }

    #[test]
    fn a_store_with_sled_conforms_to_the_model(actions in vec(action(), 1..80), choice in any::<u8>()) {
        in_a_directory(|dir| Config { engine: EngineKind::Sled, ..Config::durable(dir) }, actions, choice);
    }
}
