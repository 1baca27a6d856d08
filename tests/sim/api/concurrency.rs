//! Concurrent writers under adversarial interleaving. The storage lets other writers run between a read and
//! its commit, at points that a seed selects. An oracle then checks the history: every acknowledged write
//! occurs exactly once, no acknowledged write is lost, no deleted object returns, and revisions only
//! increase.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join_all;
use kstore_apiserver::{ApiServer, ServerConfig};
use kstore_client::{ApiError, Client, DeleteParams, DynamicApi, Gvr, Patch, Transaction};
use kstore_nondet::{Nondet, Rng};
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::{
    Commit, CommitError, Guard, Layer, Outcome, Raw, RawWatch, ReadError, Storage,
};
use kstore_store::{Config, EventKind, KeyRange, Revision, Store, WatchRequest};
use kstore_tests::manifests;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The object that all writers change.
const NAME: &str = "web";
const KEY: &str = "/registry/deployments/default/web";
const CLIENTS: usize = 5;
const WRITES: usize = 12;
const SEEDS: u64 = 12;

/// A storage that runs other writers before a commit, as its generator decides, delivers watch events late,
/// and can be stopped or made to panic.
struct Contended {
    inner: Embedded,
    rng: Rng,
    stopped: AtomicBool,
    panics: AtomicBool,
    /// Whether every name is taken just before it is used.
    crowded: AtomicBool,
    commits: AtomicU64,
}

impl Contended {
    async fn run_others(&self) {
        for _ in 0..self.rng.below(6) {
            tokio::task::yield_now().await;
        }
    }
}

/// A value stored under a key that the writer expects to be free.
fn occupied(guard: &Guard) -> Option<Raw> {
    let key = Bytes::from(guard.key.clone());
    Some(Raw { key, value: Bytes::from_static(b"{}"), undecrypted: None, revision: 1, created: 1 })
}

struct DelayedWatch(Box<dyn RawWatch>, Rng);

#[async_trait]
impl RawWatch for DelayedWatch {
    async fn next(&mut self) -> Option<Result<kstore_storage::storage::RawBatch, ReadError>> {
        let batch = self.0.next().await;
        for _ in 0..self.1.below(4) {
            tokio::task::yield_now().await;
        }
        batch
    }
}

#[async_trait]
impl Layer for Contended {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "the test made the storage panic");
        if self.stopped.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.commits.fetch_add(1, Ordering::SeqCst);
        if self.crowded.load(Ordering::SeqCst) {
            return Ok(Outcome::Lost { current: commit.guards.iter().map(occupied).collect() });
        }
        self.run_others().await;
        let outcome = self.inner.commit(commit).await;
        self.run_others().await;
        outcome
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        let watch = self.inner.watch(prefix, after).await?;
        Ok(Box::new(DelayedWatch(watch, Rng::seeded(self.rng.below(u64::MAX)))))
    }
}

struct ContentionTest {
    store: Store,
    storage: Arc<Contended>,
    api: ApiServer,
    client: Client,
}

fn contest<T>(seed: u64, test: impl AsyncFnOnce(&ContentionTest) -> T) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let nondet = Nondet::simulated(seed);
        let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
        let inner = Embedded::new(store.clone());
        let storage = Arc::new(Contended {
            inner,
            rng: Rng::seeded(seed),
            stopped: AtomicBool::default(),
            panics: AtomicBool::default(),
            crowded: AtomicBool::default(),
            commits: AtomicU64::default(),
        });
        let stop = CancellationToken::new();
        let config = ServerConfig { nondet, stop: stop.clone(), ..ServerConfig::default() };
        let api = ApiServer::start(storage.clone(), config, |task| drop(tokio::spawn(task))).await.unwrap();
        let client = Client::over(api.in_process(UserInfo::new("root", ["system:masters"])), "test");
        let contest = ContentionTest { store, storage, api, client };
        let outcome = test(&contest).await;
        stop.cancel();
        contest.store.close().await;
        outcome
    })
}

/// An acknowledged write: the object's revision, and the mark that the write added.
#[derive(Debug)]
struct AckedWrite {
    revision: i64,
    mark: String,
}

/// One client: writes of every kind, each with a unique mark.
async fn client(contest: &ContentionTest, seed: u64, own: usize) -> Vec<AckedWrite> {
    let rng = Rng::seeded(seed * 100 + own as u64);
    let api = contest.client.agent(&format!("client-{own}")).dynamic(Gvr::new("apps", "v1", "deployments"));
    let mut answered = Vec::new();
    for n in 0..WRITES {
        let mark = format!("mark-{own}-{n}");
        match write(contest, &api, &rng, &mark).await {
            Ok(Some(object)) => {
                let revision = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                answered.push(AckedWrite { revision, mark });
            }
            Ok(None) => {}
            Err(error) => assert!(is_expected(&error), "{mark}: {error}"),
        }
    }
    answered
}

/// Whether an error is an expected outcome: a conflict of a write that names a revision, a deleted object, or
/// a taken name.
fn is_expected(error: &ApiError) -> bool {
    error.is_conflict() || error.is_not_found() || error.is_already_exists()
}

async fn write(
    contest: &ContentionTest,
    api: &DynamicApi,
    rng: &Rng,
    mark: &str,
) -> Result<Option<Value>, ApiError> {
    let annotated = json!({"metadata": {"annotations": {mark: "1"}}});
    let patched = |subresource: &'static str, patch: Patch| async move {
        api.patch("default", NAME, subresource, &patch).await.map(Some)
    };
    match rng.below(12) {
        0..=2 => patched("", Patch::Merge(annotated)).await,
        3 => patched("status", Patch::Merge(annotated)).await,
        4 => {
            let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
            object["metadata"] = json!({"name": NAME, "annotations": {mark: "1"}});
            let client = contest.client.agent(mark).dynamic(api.gvr().clone());
            let spec = json!({"selector": {"matchLabels": {"app": NAME}}, "template": manifests::deployment(NAME, 1)["spec"]["template"]});
            object["spec"] = spec;
            client.patch("default", NAME, "", &Patch::Apply { object, force: true }).await.map(Some)
        }
        5 => {
            let mut object = api.get("default", NAME).await?;
            object["metadata"]["annotations"][mark] = json!("1");
            api.update(&object).await.map(Some)
        }
        6 => {
            let replicas = json!({"spec": {"replicas": rng.below(5)}});
            api.patch("default", NAME, "scale", &Patch::Merge(replicas)).await.map(|_| None)
        }
        7 => {
            let transaction = Transaction::new(&contest.client)
                .patch_value(api.gvr(), "default", NAME, "", &Patch::Merge(annotated))
                .create_value(
                    &Gvr::new("", "v1", "configmaps"),
                    "default",
                    &manifests::config_map(mark, "1"),
                );
            let done = transaction.commit().await.map_err(|refused| refused.error)?;
            Ok(Some(done.value(0).map_err(|refused| refused.error)?))
        }
        8 => api.delete("default", NAME, &DeleteParams::default()).await.map(|_| None),
        9 => {
            let mut object = api.get("default", NAME).await?;
            object["metadata"]["annotations"][mark] = json!("1");
            object["status"]["replicas"] = json!(rng.below(5));
            // Other fields sent to the status endpoint have no effect.
            object["spec"]["replicas"] = json!(99);
            api.replace(&object, "status").await.map(Some)
        }
        10 => {
            let object = api.get("default", NAME).await?;
            let mut metadata =
                json!({"name": NAME, "namespace": "default", "uid": object["metadata"]["uid"]});
            if rng.below(2) == 0 {
                metadata["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            }
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": rng.below(5)}});
            api.replace(&scale, "scale").await.map(|_| None)
        }
        _ => {
            let mut object = manifests::deployment(NAME, 1);
            object["metadata"]["annotations"] = json!({mark: "1"});
            api.create("default", &object).await.map(Some)
        }
    }
}

/// The state of the object at one revision; `None` if it was deleted.
struct ObjectState {
    revision: i64,
    object: Option<Value>,
}

fn history(store: &Store) -> Vec<ObjectState> {
    let everything = WatchRequest::new(KeyRange::single(KEY)).from(Revision(1));
    let mut watcher = store.watch(everything).unwrap();
    let mut states = Vec::new();
    while let Some(batch) = watcher.try_next() {
        let batch = batch.unwrap();
        for event in batch.events.iter() {
            let object = (event.kind == EventKind::Put)
                .then(|| serde_json::from_slice(&event.kv.value_bytes()).unwrap());
            states.push(ObjectState { revision: batch.revision.0, object });
        }
    }
    states
}

fn marks(object: &Value) -> BTreeSet<String> {
    let annotations = object["metadata"]["annotations"].as_object();
    annotations
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .filter(|key| key.starts_with("mark-"))
        .collect()
}

fn check_history(seed: u64, states: &[ObjectState], answered: &[AckedWrite]) {
    let at: BTreeMap<i64, &ObjectState> = states.iter().map(|state| (state.revision, state)).collect();
    assert_eq!(at.len(), states.len(), "seed {seed}: one change of an object at one revision");
    assert!(states.is_sorted_by(|a, b| a.revision < b.revision), "seed {seed}: revisions rise");
    let mut uids = BTreeSet::new();
    for pair in states.windows(2) {
        let [before, after] = pair else { unreachable!("windows of two") };
        match (&before.object, &after.object) {
            (Some(old), Some(new)) => {
                let revision = after.revision;
                assert_eq!(
                    old["metadata"]["uid"], new["metadata"]["uid"],
                    "seed {seed}, {revision}: the same object"
                );
                // An apply removes what its manager applied before; here each apply has its own manager.
                assert!(marks(new).is_superset(&marks(old)), "seed {seed}, {revision}: an update was lost");
                assert_ne!(old, new, "seed {seed}, {revision}: a revision without a change");
                assert_ne!(new["spec"]["replicas"], 99, "seed {seed}, {revision}: a spec through the status");
                let moved = |o: &Value| o["metadata"]["generation"].as_i64().unwrap();
                let step = moved(new) - moved(old);
                // An annotation change increases the generation unless the status is written with it.
                let may = i64::from(old["metadata"]["annotations"] != new["metadata"]["annotations"]);
                let must = i64::from(old["spec"] != new["spec"]);
                assert!(
                    (must..=must.max(may)).contains(&step),
                    "seed {seed}, {revision}: the generation moved by {step}"
                );
            }
            (None, Some(new)) => {
                let uid = new["metadata"]["uid"].as_str().unwrap().to_owned();
                assert!(uids.insert(uid), "seed {seed}: it came back from the dead");
                assert_eq!(new["metadata"]["generation"], 1, "seed {seed}: a new one is new");
            }
            (_, None) => {}
        }
    }
    let mut seen = BTreeSet::new();
    for write in answered {
        let state =
            at.get(&write.revision).unwrap_or_else(|| panic!("seed {seed}: {write:?} is not in the history"));
        let now = marks(state.object.as_ref().unwrap());
        assert!(now.contains(&write.mark), "seed {seed}: {write:?} is not in its revision");
        assert!(
            seen.insert(write.revision),
            "seed {seed}: two writes were answered with revision {}",
            write.revision
        );
    }
    // Unacknowledged writes left no mark.
    let answered: BTreeSet<_> = answered.iter().map(|write| write.mark.clone()).collect();
    let left: BTreeSet<_> = states.iter().filter_map(|state| state.object.as_ref()).flat_map(marks).collect();
    assert_eq!(left, answered, "seed {seed}");
}

#[test]
fn no_interleaving_of_writers_loses_duplicates_or_resurrects_a_write() {
    let (mut commits, mut changes) = (0, 0);
    for seed in 1..=SEEDS {
        contest(seed, async |contest| {
            let api = contest.client.dynamic(Gvr::new("apps", "v1", "deployments"));
            api.create("default", &manifests::deployment(NAME, 1)).await.unwrap();
            let before = contest.storage.commits.load(Ordering::SeqCst);
            let answered = join_all((0..CLIENTS).map(|own| client(contest, seed, own))).await;
            let answered: Vec<_> = answered.into_iter().flatten().collect();
            let states = history(&contest.store);
            check_history(seed, &states, &answered);
            commits += contest.storage.commits.load(Ordering::SeqCst) - before;
            changes += states.len() as u64;
        });
    }
    assert!(
        commits > changes + SEEDS * 10,
        "writers did overtake each other: {commits} commits for {changes} changes"
    );
}

/// A patch with a deadline of one second.
async fn patch_within_a_second(contest: &ContentionTest) -> (u16, Bytes) {
    use http_body_util::{BodyExt as _, Full};
    use tower::ServiceExt as _;
    let api = contest.api.in_process(UserInfo::new("root", ["system:masters"]));
    let request = http::Request::builder().method("PATCH").uri("/api/v1/namespaces/default?timeout=1s");
    let request = request.header("content-type", "application/merge-patch+json");
    let request =
        request.body(Full::from(Bytes::from_static(br#"{"metadata":{"labels":{"a":"b"}}}"#))).unwrap();
    let response = api.oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    (code, response.into_body().collect().await.unwrap().to_bytes())
}

#[test]
fn a_write_is_retried_until_its_deadline_and_not_a_fixed_number_of_times() {
    contest(1, async |contest| {
        contest.storage.stopped.store(true, Ordering::SeqCst);
        let begun = tokio::time::Instant::now();
        let (code, body) = patch_within_a_second(contest).await;
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
        assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");
        assert_eq!(begun.elapsed().as_secs(), 1);
        let api = contest.client.dynamic(Gvr::new("", "v1", "namespaces"));
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let refused = api.patch("", "default", "", &patch).await.unwrap_err();
        assert_eq!(
            (refused.code(), begun.elapsed().as_secs()),
            (Some(504), 35),
            "34 seconds for a write that names no time"
        );
    });
}

#[test]
fn a_write_that_waits_too_long_for_capacity_is_refused_with_retry_after() {
    contest(1, async |contest| {
        contest.storage.stopped.store(true, Ordering::SeqCst);
        let api = contest.client.dynamic(Gvr::new("", "v1", "namespaces"));
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let places = kstore_storage::limits::WRITES_IN_FLIGHT;
        let writes = (0..=places).map(|_| api.patch("", "default", "", &patch));
        let refused: Vec<_> = join_all(writes).await.into_iter().map(|done| done.unwrap_err()).collect();
        let busy: Vec<_> = refused.iter().filter(|error| error.code() == Some(429)).collect();
        assert_eq!(busy.len(), 1, "all others had a place");
        assert_eq!(busy[0].to_string(), "Too many requests, please try again later.");
        assert_eq!(busy[0].retry_after(), Some(Duration::from_secs(1)));
    });
}

#[test]
fn a_panic_fails_only_its_own_request() {
    contest(1, async |contest| {
        contest.storage.panics.store(true, Ordering::SeqCst);
        let (code, body) = patch_within_a_second(contest).await;
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (code, &status["kind"], &status["reason"]),
            (500, &json!("Status"), &json!("InternalError"))
        );
        assert_eq!(
            status["message"],
            "This request caused apiserver to panic. Look in the logs for details."
        );
        assert_eq!(patch_within_a_second(contest).await.0, 200, "the next one is served");
    });
}

#[test]
fn eight_generated_names_are_tried() {
    contest(1, async |contest| {
        contest.storage.crowded.store(true, Ordering::SeqCst);
        let before = contest.storage.commits.load(Ordering::SeqCst);
        let api = contest.client.dynamic(Gvr::new("", "v1", "configmaps"));
        let refused = api.create("default", &json!({"metadata": {"generateName": "a-"}})).await.unwrap_err();
        assert_eq!(contest.storage.commits.load(Ordering::SeqCst) - before, 8);
        assert!(refused.is_already_exists() && refused.retry_after() == Some(Duration::from_secs(1)));
        let text = "already exists, the server was not able to generate a unique name for the object";
        assert!(refused.to_string().ends_with(text), "{refused}");
    });
}
