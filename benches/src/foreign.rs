//! Another cluster: its import, from a running one and from a snapshot, a recording of it, and the replay of that.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::limits::{
    FOREIGN_NODES, FOREIGN_POLL, MANY_PODS, RECORD_TIME, RECORDED_CHANGES, REPLAY_TIMEOUT, START_TIMEOUT,
    UPDATES,
};
use crate::pods::{self, PODS};
use crate::process::{Server, Storage};
use crate::usage;
use crate::writes::CONFIG_MAPS;
use anyhow::{Context, ensure};
use bytes::Bytes;
use kstore_client::Kubeconfig;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

const NODES: &str = "/api/v1/nodes";
const JSON: &str = "application/json";
const APISERVER: [&str; 2] = ["--components", "apiserver"];
/// Connections that create nodes, and that change a recorded object.
const CLIENTS: usize = 8;

/// Imports of a cluster with [`FOREIGN_NODES`] nodes and [`MANY_PODS`] pods.
pub(crate) struct Imports {
    /// Time of `import --kubeconfig`.
    pub(crate) listed: Duration,
    /// Its largest resident memory, beside the JSON of the cluster.
    pub(crate) listed_memory: f64,
    /// From the start of an import of a snapshot to the first answer of a server of it, for each GiB of the snapshot.
    pub(crate) opened_per_gibibyte: Duration,
    /// The largest resident memory of that import, beside the JSON of the newest versions.
    pub(crate) opened_memory: f64,
}

/// Fills a server, imports it by its kubeconfig, and then a snapshot of what was imported.
pub(crate) async fn imports(binary: &Binary) -> anyhow::Result<Imports> {
    let server = Server::start_with(binary, Storage::Disk, &APISERVER).await?;
    create_nodes(&server).await?;
    pods::create(&server, MANY_PODS).await?;
    let mut connection = server.connect().await?;
    let json = (connection.count(PODS, JSON).await? + connection.count(NODES, JSON).await?) as f64;
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let kubeconfig = server.kubeconfig_path().display().to_string();
    let list = ["import", "--kubeconfig", &kubeconfig, "--qps", "1000", "--to", &path("listed")];
    let listed = run(binary, &list).await?;
    server.kill().await?;
    run(binary, &["store", "snapshot", "save", &path("backup.db"), "--data-dir", &path("listed")]).await?;
    let gibibytes = std::fs::metadata(path("backup.db"))?.len() as f64 / f64::from(1 << 30);
    let opened = run(binary, &["import", &path("backup.db"), "--to", &path("opened")]).await?;
    let ready = first_answer(binary, &path("opened"), &path("opened.kubeconfig")).await?;
    Ok(Imports {
        listed: listed.time,
        listed_memory: listed.peak / json,
        opened_per_gibibyte: (opened.time + ready).div_f64(gibibytes),
        opened_memory: opened.peak / json,
    })
}

async fn create_nodes(server: &Server) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let mut connection = server.connect().await?;
        clients.spawn(async move {
            for number in (client..FOREIGN_NODES).step_by(CLIENTS) {
                let name = format!("worker-{number:05}");
                let capacity = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
                let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                    "status": {"capacity": capacity, "allocatable": capacity}});
                connection.create(NODES, node.to_string().into()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// What a command took.
struct Taken {
    time: Duration,
    /// Largest resident memory in bytes.
    peak: f64,
}

/// Runs a command to its end.
async fn run(binary: &Binary, arguments: &[&str]) -> anyhow::Result<Taken> {
    let started = Instant::now();
    let mut command = Command::new(binary.path());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let id = child.id().context("the command has ended")?;
    let mut peak = 0.0_f64;
    let status = loop {
        // The peak is that of the whole life so far, and is gone with the process.
        peak = usage::peak_mebibytes(id).map_or(peak, |now| peak.max(now));
        if let Ok(status) = tokio::time::timeout(FOREIGN_POLL, child.wait()).await {
            break status?;
        }
    };
    ensure!(status.success(), "{arguments:?} ended with {status}");
    Ok(Taken { time: started.elapsed(), peak: peak * f64::from(1 << 20) })
}

/// From the start of a server of imported data to its first answer.
async fn first_answer(binary: &Binary, data: &str, kubeconfig: &str) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut command = Command::new(binary.path());
    command.args([
        "--data-dir",
        data,
        "--read-only",
        "--listen",
        "127.0.0.1:0",
        "--write-kubeconfig",
        kubeconfig,
    ]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn()?;
    let answered = async {
        let mut connection = connect(kubeconfig).await?;
        let (status, _) = connection.get(&format!("{PODS}/{}", pods::name(0))).await?;
        ensure!(status == 200, "the first answer is {status}");
        anyhow::Ok(started.elapsed())
    };
    let answered = tokio::time::timeout(START_TIMEOUT, answered).await.context("no answer in time")??;
    child.kill().await?;
    Ok(answered)
}

/// A connection by a kubeconfig that a starting server writes.
async fn connect(kubeconfig: &str) -> anyhow::Result<Connection> {
    loop {
        if let Ok(config) = Kubeconfig::read(Path::new(kubeconfig))
            && let Ok(mut connection) = Connection::open(&config).await
            && connection.get("/readyz").await.is_ok_and(|(status, _)| status == 200)
        {
            return Ok(connection);
        }
        sleep(FOREIGN_POLL).await;
    }
}

/// A recording of a busy cluster, and its replay.
pub(crate) struct Recorded {
    /// Processor time of the recorder beside real time, in percent of a core, at [`UPDATES`] changes a second.
    pub(crate) processor: f64,
    /// Changes that were made and are not in the recording.
    pub(crate) lost: f64,
    /// From the start of a replay at `--speed max` of [`RECORDED_CHANGES`] changes to its newest revision.
    pub(crate) replayed: Duration,
}

/// Records a server whose objects change, and replays what was recorded.
pub(crate) async fn recorded(binary: &Binary) -> anyhow::Result<Recorded> {
    let server = Server::start_with(binary, Storage::Memory, &APISERVER).await?;
    let mut connection = server.connect().await?;
    for client in 0..CLIENTS {
        connection.create(CONFIG_MAPS, config_map(client)).await?;
    }
    let dir = tempfile::tempdir()?;
    let recording = dir.path().join("rec").display().to_string();
    let (mut recorder, mut output) = start_recorder(binary, &server, &recording).await?;
    let id = recorder.id().context("the recorder has ended")?;
    let (began, before) = (Instant::now(), usage::processor_seconds(id)?);
    change(&server, RECORDED_CHANGES).await?;
    let processor = 100.0 * (usage::processor_seconds(id)? - before) / began.elapsed().as_secs_f64();
    sleep(RECORD_TIME).await;
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("no such process")?;
    kill_process(pid, Signal::INT)?;
    let mut said = String::new();
    output.read_to_string(&mut said).await?;
    ensure!(recorder.wait().await?.success(), "the recording failed: {said}");
    let number =
        said.split_once(" change").map(|(number, _)| number.rsplit([' ', '\n']).next().unwrap_or_default());
    let number: f64 = number.unwrap_or_default().replace(',', "").parse().with_context(|| said.clone())?;
    let newest = revision(&mut connection).await?;
    server.kill().await?;
    let replayed =
        replay(binary, &recording, &dir.path().join("kubeconfig").display().to_string(), newest).await?;
    Ok(Recorded { processor, lost: (RECORDED_CHANGES as f64 - number).max(0.0), replayed })
}

/// Starts a recording; returns when its watches are open.
async fn start_recorder(
    binary: &Binary,
    server: &Server,
    to: &str,
) -> anyhow::Result<(Child, BufReader<ChildStdout>)> {
    let mut command = Command::new(binary.path());
    command.arg("record").arg("--kubeconfig").arg(server.kubeconfig_path()).args([
        "--qps",
        "1000",
        "--data-dir",
        to,
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let open = async {
        let mut line = String::new();
        while output.read_line(&mut line).await? > 0 && !line.contains("recording ") {
            line.clear();
        }
        ensure!(line.contains("recording "), "the recorder has ended");
        anyhow::Ok(())
    };
    tokio::time::timeout(START_TIMEOUT, open).await.context("no recording in time")??;
    Ok((child, output))
}

/// Makes changes, [`UPDATES`] a second.
async fn change(server: &Server, changes: usize) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let mut connection = server.connect().await?;
        clients.spawn(async move {
            let mut ticks = interval(Duration::from_secs_f64(CLIENTS as f64 / UPDATES as f64));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for number in (client..changes).step_by(CLIENTS) {
                ticks.tick().await;
                let patch = Bytes::from(json!({"data": {"change": number.to_string()}}).to_string());
                connection.patch(&format!("{CONFIG_MAPS}/recorded-{client}"), patch).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// From the start of a replay without pauses until it is at a revision.
async fn replay(binary: &Binary, recording: &str, kubeconfig: &str, newest: i64) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut command = Command::new(binary.path());
    command.args(["replay", recording, "--speed", "max", "--write-kubeconfig", kubeconfig]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn()?;
    let done = async {
        let mut connection = connect(kubeconfig).await?;
        while revision(&mut connection).await? < newest {
            sleep(FOREIGN_POLL).await;
        }
        anyhow::Ok(started.elapsed())
    };
    let done = tokio::time::timeout(REPLAY_TIMEOUT, done).await.context("no end of the replay in time")??;
    child.kill().await?;
    Ok(done)
}

/// The newest revision of the changed objects.
async fn revision(connection: &mut Connection) -> anyhow::Result<i64> {
    let (status, body) = connection.get(CONFIG_MAPS).await?;
    ensure!(status == 200, "{status}");
    let list: Value = serde_json::from_slice(&body)?;
    let items = list["items"].as_array().context("no list")?;
    let versions =
        items.iter().filter_map(|item| item["metadata"]["resourceVersion"].as_str()?.parse::<i64>().ok());
    versions.max().context("no object")
}

fn config_map(client: usize) -> Bytes {
    json!({"metadata": {"name": format!("recorded-{client}")}, "data": {"change": ""}}).to_string().into()
}
