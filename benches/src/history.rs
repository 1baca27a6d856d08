//! The past beside the present: reads of an old revision, the history of one object, the differences of two revisions, and what
//! superseded versions take on disk.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::controllers::deployment;
use crate::custom;
use crate::limits::{
    COMPARED_CHANGES, CONNECTIONS, HISTORY_PODS, HISTORY_VERSIONS, LARGE_RUNS, LIST_PODS, LISTS, MANY_PODS,
    PACK_TIMEOUT, REPEAT, ROLLOUT_TIMEOUT, UNDONE, VIEW_DEFINITIONS,
};
use crate::pods::{self, PODS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use crate::writes::CONFIG_MAPS;
use anyhow::{Context, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::Instant;

const APISERVER: [&str; 4] = ["--components", "apiserver", "--history", "all"];
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON: &str = "application/json";

/// Medians of reads of the past, beside the same reads of the present.
pub(crate) struct Past {
    /// GET of one object, with [`CONNECTIONS`] connections.
    pub(crate) get: f64,
    /// Ratio of the times of a list of [`LIST_PODS`] pods; a fifth of the pods changed after the revision.
    pub(crate) list: f64,
    /// Ratio of the times of a list of as many pods; all of them changed after the revision.
    pub(crate) list_changed: f64,
}

/// Reads objects as of a revision and as they are.
pub(crate) async fn past(binary: &Binary) -> anyhow::Result<Past> {
    let server = Server::start_with(binary, Storage::Disk, &APISERVER).await?;
    pods::create(&server, LIST_PODS).await?;
    let mut connection = server.connect().await?;
    let first = revision(&mut connection, PODS).await?;
    label(&server, 0..LIST_PODS / 5).await?;
    let list = list_ratio(&mut connection, first).await?;
    label(&server, LIST_PODS / 5..LIST_PODS).await?;
    let list_changed = list_ratio(&mut connection, first).await?;
    let object = format!("{PODS}/{}", pods::name(0));
    let present = concurrent_gets(&server, &object).await?;
    let past = concurrent_gets(&server, &in_view(first, &object)).await?;
    server.kill().await?;
    Ok(Past { get: ratio(&past, &present), list, list_changed })
}

/// Times of requests to views that have [`VIEW_DEFINITIONS`] custom kinds.
pub(crate) struct Views {
    /// The first request to a view.
    pub(crate) first: Duration,
    /// How much longer a further request takes than the same one of the present, in the median.
    pub(crate) next: Duration,
}

/// Asks a new view for an object of a custom kind.
pub(crate) async fn views(binary: &Binary) -> anyhow::Result<Views> {
    let server = Server::start_with(binary, Storage::Memory, &APISERVER).await?;
    let mut connection = server.connect().await?;
    custom::define_large(&mut connection, 0..VIEW_DEFINITIONS).await?;
    connection.create(CONFIG_MAPS, config_map("one", 0)).await?;
    let object = format!("{CONFIG_MAPS}/one");
    let view = in_view(revision(&mut connection, &object).await?, &object);
    // The kinds of the present differ from those of the view.
    custom::define_large(&mut connection, VIEW_DEFINITIONS..VIEW_DEFINITIONS + 1).await?;
    let first = timed_get(&mut connection, &view).await?;
    let (mut past, mut present) = (Vec::new(), Vec::new());
    for _ in 0..LISTS {
        past.push(timed_get(&mut connection, &view).await?);
        present.push(timed_get(&mut connection, &object).await?);
    }
    server.kill().await?;
    let median = |times| Spread::of(times).quantile(0.5);
    Ok(Views { first, next: median(past).saturating_sub(median(present)) })
}

/// Times of the commands `history` and `diff`, with their own start.
pub(crate) struct Commands {
    /// `history` of all of [`HISTORY_VERSIONS`] versions of an object.
    pub(crate) history: Duration,
    /// `history` of the newest hundred of them, with all changes.
    pub(crate) page: Duration,
    /// The command `diff --stat` for two revisions of [`LIST_PODS`] objects; a tenth of the objects changed between them.
    pub(crate) diff: Duration,
}

/// Runs the commands on a server of their own.
pub(crate) async fn commands(binary: &Binary) -> anyhow::Result<Commands> {
    let server = Server::start_with(binary, Storage::Memory, &APISERVER).await?;
    let mut connection = server.connect().await?;
    connection.create(CONFIG_MAPS, config_map("one", 0)).await?;
    for change in 1..HISTORY_VERSIONS {
        let patch = json!({"data": {"change": change.to_string()}}).to_string();
        connection.patch(&format!("{CONFIG_MAPS}/one"), patch.into()).await?;
    }
    pods::create(&server, LIST_PODS).await?;
    let before = revision(&mut connection, PODS).await?.to_string();
    label(&server, 0..LIST_PODS / 10).await?;
    let history = run(binary, &server, &["history", "configmap/one", "--limit", "0"]).await?;
    let page = run(binary, &server, &["history", "configmap/one", "--limit", "100", "-p", "paths"]).await?;
    let diff = run(binary, &server, &["diff", &before, "--kind", "pods", "--stat"]).await?;
    server.kill().await?;
    Ok(Commands { history, page, diff })
}

/// Times of `diff` for two revisions of [`MANY_PODS`] pods, of which [`COMPARED_CHANGES`] changed, and of `undo`.
pub(crate) struct Large {
    /// `diff` with all differences.
    pub(crate) diff: Duration,
    /// `diff --stat`.
    pub(crate) stat: Duration,
    /// The plan of an undo of [`UNDONE`] objects.
    pub(crate) planned: Duration,
    /// That undo, carried out.
    pub(crate) undone: Duration,
}

/// Runs the commands on a large cluster.
pub(crate) async fn large(binary: &Binary) -> anyhow::Result<Large> {
    let server = Server::start_with(binary, Storage::Disk, &APISERVER).await?;
    pods::create(&server, MANY_PODS).await?;
    let mut connection = server.connect().await?;
    let before = revision(&mut connection, &format!("{PODS}?limit=1")).await?.to_string();
    label(&server, 0..COMPARED_CHANGES - UNDONE).await?;
    let between = revision(&mut connection, &format!("{PODS}?limit=1")).await?.to_string();
    label(&server, COMPARED_CHANGES - UNDONE..COMPARED_CHANGES).await?;
    let compare = ["diff", &before, "--kind", "pods"];
    let diff = run_times(binary, &server, &compare, LARGE_RUNS).await?;
    let stat = run_times(binary, &server, &[&compare[..], &["--stat"]].concat(), LARGE_RUNS).await?;
    let undo = ["undo", "--since", &between, "--kind", "pods"];
    let planned = run_times(binary, &server, &undo, LARGE_RUNS).await?;
    let undone = run_times(binary, &server, &[&undo[..], &["--yes"]].concat(), 1).await?;
    server.kill().await?;
    Ok(Large { diff, stat, planned, undone })
}

/// The median time of a command beside a server, from its start to its end.
async fn run(binary: &Binary, server: &Server, arguments: &[&str]) -> anyhow::Result<Duration> {
    run_times(binary, server, arguments, LISTS).await
}

async fn run_times(
    binary: &Binary,
    server: &Server,
    arguments: &[&str],
    runs: usize,
) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let started = Instant::now();
        let status = Command::new(binary.path())
            .args(arguments)
            .env("KUBECONFIG", server.kubeconfig_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .await?;
        // Of `diff`, 1 says that something differs.
        ensure!(matches!(status.code(), Some(0 | 1)), "{arguments:?} ended with {status}");
        times.push(started.elapsed());
    }
    Ok(Spread::of(times).quantile(0.5))
}

/// What superseded versions take in the files of the engine.
pub(crate) struct Superseded {
    /// Their bytes a minute later, beside those at first.
    pub(crate) ratio: f64,
    /// Bytes a pod that was made, with all of its versions and Events.
    pub(crate) pod: f64,
}

/// Rolls a Deployment out and updates it until most versions are superseded, and waits until they are packed.
pub(crate) async fn superseded(binary: &Binary) -> anyhow::Result<Superseded> {
    let server = Server::start_with(binary, Storage::Disk, &["--history", "all"]).await?;
    let mut connection = server.connect().await?;
    let (idle, before) = (stored(&mut connection).await?, newest(&mut connection).await?);
    connection.create(DEPLOYMENTS, deployment("many", HISTORY_PODS)).await?;
    rolled_out(&mut connection).await?;
    let image = json!({"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}}).to_string();
    connection.patch(&format!("{DEPLOYMENTS}/many"), image.into()).await?;
    rolled_out(&mut connection).await?;
    let plain = stored(&mut connection).await? - idle;
    let kept = newest(&mut connection).await? - before;
    let packed = tokio::time::timeout(PACK_TIMEOUT, settled(&mut connection, plain + idle))
        .await
        .context("nothing is packed in time")??
        - idle;
    server.kill().await?;
    Ok(Superseded { ratio: (packed - kept) / (plain - kept), pod: packed / (2 * HISTORY_PODS) as f64 })
}

/// Waits until all replicas of the Deployment are new and ready.
async fn rolled_out(connection: &mut Connection) -> anyhow::Result<()> {
    let is_ready = |object: &Value| {
        let status = &object["status"];
        object["metadata"]["generation"] == status["observedGeneration"]
            && ["replicas", "updatedReplicas", "readyReplicas"]
                .iter()
                .all(|member| status[member] == HISTORY_PODS)
    };
    let ready = async {
        while !is_ready(&serde_json::from_slice(&read(connection, &format!("{DEPLOYMENTS}/many")).await?)?) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(ROLLOUT_TIMEOUT, ready).await.context("never ready")?
}

/// Bytes of live history once they have fallen below `from`, and ten seconds passed without a further fall.
async fn settled(connection: &mut Connection, from: f64) -> anyhow::Result<f64> {
    const STEP: Duration = Duration::from_secs(10);
    let mut last = from;
    loop {
        tokio::time::sleep(STEP).await;
        let now = stored(connection).await?;
        if now < from / 2.0 && now > last * 0.99 {
            return Ok(now);
        }
        last = now;
    }
}

/// Bytes of live history.
async fn stored(connection: &mut Connection) -> anyhow::Result<f64> {
    let page = read(connection, "/metrics").await?;
    let text = std::str::from_utf8(&page)?;
    let line = text.lines().find_map(|line| line.strip_prefix("kstore_storage_live_bytes "));
    Ok(line.context("no metric of live bytes")?.parse()?)
}

/// About the bytes of the newest versions of pods and Events: of their JSON.
async fn newest(connection: &mut Connection) -> anyhow::Result<f64> {
    let pods = connection.count("/api/v1/pods", JSON).await?;
    Ok((pods + connection.count("/api/v1/events", JSON).await?) as f64)
}

/// Adds a label to the pods with these numbers, over many connections.
async fn label(server: &Server, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        let (mut connection, numbers) = (server.connect().await?, numbers.clone());
        clients.spawn(async move {
            let patch = Bytes::from(json!({"metadata": {"labels": {"changed": "yes"}}}).to_string());
            for index in numbers.skip(client).step_by(CONNECTIONS) {
                connection.patch(&format!("{PODS}/{}", pods::name(index)), patch.clone()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// The median time of a list in the view of a revision beside one of the present, in turns.
async fn list_ratio(connection: &mut Connection, revision: i64) -> anyhow::Result<f64> {
    let (mut past, mut present) = (Vec::new(), Vec::new());
    for _ in 0..LISTS {
        for (path, times) in [(in_view(revision, PODS), &mut past), (PODS.to_owned(), &mut present)] {
            let sent = Instant::now();
            connection.count(&path, JSON).await?;
            times.push(sent.elapsed());
        }
    }
    Ok(ratio(&Spread::of(past), &Spread::of(present)))
}

fn ratio(past: &Spread, present: &Spread) -> f64 {
    past.quantile(0.5).as_secs_f64() / present.quantile(0.5).as_secs_f64()
}

/// Latencies of reads of one path by many clients.
async fn concurrent_gets(server: &Server, path: &str) -> anyhow::Result<Spread> {
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (mut connection, path) = (server.connect().await?, path.to_owned());
        clients.spawn(async move {
            let (mut latencies, started) = (Vec::new(), Instant::now());
            while started.elapsed() < REPEAT {
                latencies.push(timed_get(&mut connection, &path).await?);
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.append(&mut client??);
    }
    Ok(Spread::of(latencies))
}

async fn timed_get(connection: &mut Connection, path: &str) -> anyhow::Result<Duration> {
    let sent = Instant::now();
    read(connection, path).await?;
    Ok(sent.elapsed())
}

async fn read(connection: &mut Connection, path: &str) -> anyhow::Result<Bytes> {
    let (status, body) = connection.get(path).await?;
    ensure!(status == 200, "{path}: {status}");
    Ok(body)
}

/// The revision of a list or an object.
async fn revision(connection: &mut Connection, path: &str) -> anyhow::Result<i64> {
    let object: Value = serde_json::from_slice(&read(connection, path).await?)?;
    let version = object["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
    Ok(version.parse()?)
}

/// A path in the view of a revision.
fn in_view(revision: i64, path: &str) -> String {
    format!("/kstore/v1/at/{revision}{path}")
}

fn config_map(name: &str, change: usize) -> Bytes {
    json!({"metadata": {"name": name}, "data": {"change": change.to_string()}}).to_string().into()
}
