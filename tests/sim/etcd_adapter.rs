//! The apiserver's storage on an external etcd, in virtual time: kstore's etcd API over pipes, with injected
//! disconnections and lost answers. `etcd_storage` of the binary `program` tests with a real etcd.

use async_trait::async_trait;
use futures::StreamExt as _;
use kstore_apiserver::{ApiServer, ServerConfig};
use kstore_client::{Gvr, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, Revision, SourceError, Start};
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::etcd::Etcd;
use kstore_storage::storage::{Commit, CommitError, Guard, Layer, Outcome, ReadError, Storage, Write};
use kstore_store::{Config, KeyRange, Put, Range, Store};
use kstore_tests::{FaultyDial, OnEtcd, Pipes, Rest, etcd_config};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const KEY: &str = "/registry/configmaps/default/a";

/// A store, with connections to it that can fail.
struct ExternalEtcdFixture {
    store: Store,
    nondet: Nondet,
    pipes: Arc<Pipes>,
    faulty_dial: Arc<FaultyDial>,
}

impl ExternalEtcdFixture {
    async fn new() -> Self {
        let nondet = Nondet::simulated(1);
        let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
        let pipes = Pipes::new(&store, &CancellationToken::new(), &TaskTracker::new());
        let faulty_dial = FaultyDial::new(pipes.clone());
        Self { store, nondet, pipes, faulty_dial }
    }

    /// A storage whose connections can fail.
    fn storage(&self) -> Arc<Etcd> {
        let config = etcd_config(&["http://etcd.invalid:2379"]);
        let (storage, work) = Etcd::new(&config, self.faulty_dial.clone(), &self.nondet.rng).unwrap();
        tokio::spawn(work);
        storage
    }

    /// An apiserver, over connections that can fail or not.
    async fn apiserver(&self, is_faulty: bool) -> OnEtcd {
        let config = etcd_config(&["http://etcd.invalid:2379"]);
        if is_faulty {
            return OnEtcd::start(&config, self.faulty_dial.clone(), &self.nondet).await.unwrap();
        }
        OnEtcd::start(&config, self.pipes.clone(), &self.nondet).await.unwrap()
    }

    fn value(&self) -> Option<String> {
        let found = self.store.range(&Range::key(KEY)).unwrap();
        found.kvs.first().map(|kv| String::from_utf8(kv.value_bytes().to_vec()).unwrap())
    }
}

fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test)
}

fn put(value: &str, revision: i64) -> Commit {
    Commit {
        guards: vec![Guard { key: KEY.into(), revision }],
        writes: vec![Write::Put { key: KEY.into(), value: value.to_owned().into(), ttl_seconds: 0 }],
        note: "why".into(),
    }
}

fn committed(outcome: Result<Outcome, CommitError>) -> i64 {
    match outcome {
        Ok(Outcome::Committed { revision }) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

#[test]
fn a_commit_with_a_lost_answer_is_applied_once_and_recognised() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let storage = world.storage();
        let first = committed(storage.commit(put("1", 0)).await);
        // Between the attempts: no other write, a write to another key, an overwrite of the key.
        for (round, between) in [(1, None), (2, Some("/registry/other")), (3, Some(KEY))] {
            let before = world.store.revision().0;
            let revision = world.store.range(&Range::key(KEY)).unwrap().kvs[0].mod_revision().0;
            world.faulty_dial.lose_answers();
            let commit = tokio::spawn({
                let storage = storage.clone();
                async move { storage.commit(put(&format!("round {round}"), revision)).await }
            });
            sleep(Duration::from_secs(1)).await;
            assert_eq!(world.store.revision().0, before + 1, "it was carried out");
            if let Some(key) = between {
                let beside = Etcd::new(&etcd_config(&["http://b:1"]), world.pipes.clone(), &world.nondet.rng);
                let (beside, work) = beside.unwrap();
                tokio::spawn(work);
                let write = Write::Put { key: key.into(), value: "theirs".into(), ttl_seconds: 0 };
                committed(beside.commit(Commit { writes: vec![write], ..Commit::default() }).await);
                beside.close().await;
            }
            let after = world.store.revision().0;
            world.faulty_dial.shut();
            world.faulty_dial.open();
            assert_eq!(committed(commit.await.unwrap()), before + 1, "round {round}");
            assert_eq!(world.store.revision().0, after, "it was not carried out again");
        }
        assert_eq!(first, 2);
        assert_eq!(world.value().unwrap(), "theirs");
        storage.close().await;
    });
}

#[test]
fn a_commit_outcome_is_unknown_only_if_no_member_can_be_asked() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let storage = world.storage();
        committed(storage.commit(put("1", 0)).await);
        world.faulty_dial.lose_answers();
        let began = Instant::now();
        let (outcome, ()) = tokio::join!(storage.commit(put("2", 2)), async {
            sleep(Duration::from_secs(1)).await;
            world.faulty_dial.shut();
        });
        assert!(matches!(outcome, Err(CommitError::Unknown(_))), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
        assert_eq!(world.value().unwrap(), "2", "this time it had happened");

        // The client knows that etcd is unreachable: nothing is sent, and calls fail at once.
        let began = Instant::now();
        let outcome = storage.commit(put("3", 3)).await;
        assert!(matches!(outcome, Err(CommitError::Unavailable(_))), "{outcome:?}");
        assert!(matches!(storage.revision().await, Err(ReadError::Unavailable(_))));
        assert!(matches!(storage.get(KEY, 0).await, Err(ReadError::Unavailable(_))));
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(!storage.is_healthy());

        // The client notices the reconnection without a call.
        world.faulty_dial.open();
        sleep(Duration::from_secs(3)).await;
        assert!(storage.is_healthy());
        committed(storage.commit(put("3", 3)).await);
        storage.close().await;
    });
}

#[test]
fn an_unanswered_call_is_retried_after_an_earlier_outage() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let storage = world.storage();
        committed(storage.commit(put("1", 0)).await);
        // A leader dies; a member that does not know it yet accepts a commit and forwards it to no other
        // member.
        world.faulty_dial.shut();
        let (asking, writing) = (storage.clone(), storage.clone());
        let asked = tokio::spawn(async move { asking.revision().await });
        sleep(Duration::from_millis(500)).await;
        world.faulty_dial.open();
        world.faulty_dial.lose_answers();
        let commit = tokio::spawn(async move { writing.commit(put("2", 2)).await });
        sleep(Duration::from_millis(5500)).await;
        world.faulty_dial.shut();
        world.faulty_dial.open();
        assert_eq!(committed(commit.await.unwrap()), 3);
        assert!(asked.await.unwrap().is_ok());
        assert_eq!(world.value().unwrap(), "2");
        storage.close().await;
    });
}

#[test]
fn while_etcd_is_unreachable_requests_fail_and_the_server_is_not_ready() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let server = world.apiserver(true).await;
        let rest = server.rest();
        let path = "/api/v1/namespaces/default";
        assert_eq!(rest.call("GET", "/readyz", "").await.code, 200);
        world.faulty_dial.shut();
        let began = Instant::now();
        for method in ["GET", "DELETE"] {
            let reply = rest.call(method, path, "").await;
            assert_eq!((reply.code, reply.text("/reason")), (503, "ServiceUnavailable".into()));
        }
        assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
        assert_eq!(rest.call("GET", "/readyz", "").await.code, 500);
        world.faulty_dial.open();
        sleep(Duration::from_secs(3)).await;
        assert_eq!(rest.call("GET", "/readyz", "").await.code, 200);
        assert_eq!(rest.call("GET", path, "").await.code, 200);
        server.stop().await;
    });
}

/// A storage that executes commits and, while enabled, reports their outcome as unknown.
struct ForgetfulStorage {
    inner: Arc<Etcd>,
    forgets: AtomicBool,
    commits: AtomicUsize,
}

#[async_trait]
impl Layer for ForgetfulStorage {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        let outcome = self.inner.commit(commit).await;
        if self.forgets.load(Ordering::SeqCst) { Err(CommitError::Unknown("lost".into())) } else { outcome }
    }
}

#[test]
fn an_update_is_not_retried_when_its_outcome_is_unknown() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let (forgets, commits) = Default::default();
        let storage = Arc::new(ForgetfulStorage { inner: world.storage(), forgets, commits });
        let config = ServerConfig { nondet: world.nondet.clone(), ..ServerConfig::default() };
        let api = ApiServer::start(storage.clone(), config, |task| drop(tokio::spawn(task))).await.unwrap();
        let admin = UserInfo::new("kubernetes-admin", ["system:masters"]);
        let rest = Rest::new(api.in_process(admin));
        storage.forgets.store(true, Ordering::SeqCst);
        storage.commits.store(0, Ordering::SeqCst);
        let path = "/api/v1/namespaces/default";
        let patch = r#"{"metadata":{"labels":{"a":"1"}}}"#;
        let reply = rest.call_as("PATCH", path, "application/merge-patch+json", patch).await;
        assert_eq!((reply.code, reply.text("/reason")), (504, "Timeout".into()), "{:?}", reply.json());
        assert!(reply.text("/message").contains("the outcome is unknown"), "{:?}", reply.json());
        assert_eq!(storage.commits.load(Ordering::SeqCst), 1);
        // A client that reads first, as the answer advises, sees that the write happened.
        assert_eq!(rest.call("GET", path, "").await.text("/metadata/labels/a"), "1");
        storage.close().await;
    });
}

#[test]
fn writes_to_foreign_keys_delay_no_reader() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let server = world.apiserver(true).await;
        let cache = server.api.pipeline().cache().clone();
        for _ in 0..5 {
            let put = kstore_store::Op::Put(Put::new("/elsewhere/x", "y"));
            let txn = kstore_store::Txn { success: vec![put], ..Default::default() };
            let revision = world.store.txn(txn).await.unwrap().revision.0;
            let reached = timeout(Duration::from_secs(1), cache.fresh()).await.unwrap().unwrap();
            assert!(reached >= revision, "{reached} < {revision}");
        }
        server.stop().await;
    });
}

#[test]
fn a_compaction_during_an_outage_reloads_the_cache_and_restarts_watches() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let (asleep, awake) = (world.apiserver(true).await, world.apiserver(false).await);
        let maps = Gvr::new("", "v1", "configmaps");
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let (here, there) = (asleep.client().dynamic(maps.clone()), awake.client().dynamic(maps));
        for name in ["kept", "lost"] {
            there.create("default", &map(name)).await.unwrap();
        }
        let seen = asleep.api.pipeline().cache().fresh().await.unwrap();
        let source = || here.clone().source(WatchParams::default());
        let start = || Start::After(Revision(u64::try_from(seen).unwrap()));
        let mut watch = source().watch(start()).await.unwrap();

        world.faulty_dial.shut();
        there.delete("default", "lost", &Default::default()).await.unwrap();
        there.create("default", &map("new")).await.unwrap();
        world.store.compact(world.store.revision()).await.unwrap();
        there.create("default", &map("newer")).await.unwrap();
        world.faulty_dial.open();

        // The remaining events are in order; then the watch ends, and cannot resume from its last revision.
        let end = timeout(Duration::from_secs(60), async {
            loop {
                match watch.next().await {
                    Some(Ok(frames)) => {
                        assert!(
                            frames.iter().all(|frame| matches!(frame, Frame::Progress { .. })),
                            "{frames:?}"
                        );
                    }
                    end => return end.is_none_or(|end| end.is_err()),
                }
            }
        });
        assert!(end.await.unwrap());
        let (names, _) = here.list("default", &Default::default()).await.unwrap();
        let names: Vec<_> = names.iter().map(|map| map["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["kept", "new", "newer"].map(|name| json!(name)));
        let again = match source().watch(start()).await {
            Ok(mut watch) => watch.next().await.unwrap().err(),
            Err(error) => Some(error),
        };
        assert!(matches!(again, Some(SourceError::Expired)), "{again:?}");
        asleep.stop().await;
        awake.stop().await;
    });
}

#[test]
fn provenance_survives_a_restart_and_is_visible_to_later_servers() {
    in_virtual_time(async {
        let world = ExternalEtcdFixture::new().await;
        let first = world.apiserver(false).await;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let created =
            first.rest().call("POST", "/api/v1/namespaces/default/configmaps", map.to_string()).await;
        assert_eq!(created.code, 201);
        first.stop().await;
        let second = world.apiserver(false).await;
        let trace = second.rest().call("GET", "/kstore/v1/trace?resource=configmaps&name=a", "").await;
        assert_eq!(trace.text("/writes/0/user"), "kubernetes-admin", "{:?}", trace.json());
        assert_eq!(trace.text("/writes/0/verb"), "create");
        let below = world.store.range(&Range::new(KeyRange::prefix("/registry/"))).unwrap();
        let notes = below.kvs.iter().filter(|kv| !kv.key_bytes().starts_with(b"/registry/"));
        assert_eq!(notes.count(), 0);
        second.stop().await;
    });
}
