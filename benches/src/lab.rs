//! The lab over the network: reads with and without `--lab`, a day of CronJobs in one call, forks with their time and memory, resets,
//! snapshot files, and the cost of a fault rule.

use crate::binary::Binary;
use crate::connection::Connection;
use crate::get;
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use crate::usage::{processor_seconds, resident_mebibytes};
use crate::writes::CONFIG_MAPS;
use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const LAB: &str = "/kstore/lab/v1";

/// Pairs of servers whose reads are compared, in turn.
const PAIRS: usize = 3;

/// Objects of the cluster that is forked.
const OBJECTS: usize = 10_000;

/// Forks that are alive at once.
const FORKS: usize = 1_000;

/// Forks of one call.
const AT_ONCE: usize = 50;

/// Number of calls of a row; it shows their median.
const CALLS: usize = 25;

/// Reads of one object with a fault rule, and as many without.
const READS: usize = 20_000;

/// Pause after which a client counts as quiet, and longer: `settled` then waits for nothing.
const QUIET: Duration = Duration::from_millis(500);

/// All measurements of the lab.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    Ok(vec![
        reads(&binary).await?,
        manual_reads(&binary).await?,
        rule(&binary).await?,
        forks(&binary, "API alone", &["--components", "apiserver"], "≤ 512 MiB").await?,
        forks(&binary, "whole clusters with one node", &["--nodes", "1"], "≤ 4 GiB").await?,
        day(&binary).await?,
        first_answer(&binary, "API alone", &["--components", "apiserver"], "≤ 20 ms, ≤ 1 MiB").await?,
        first_answer(&binary, "a whole cluster", &["--nodes", "1"], "≤ 30 ms, ≤ 8 MiB").await?,
    ]
    .into_iter()
    .chain(settled_and_reset(&binary).await?)
    .chain(snapshot(&binary).await?)
    .collect())
}

/// Starts a lab with a manual clock and these flags, with [`OBJECTS`] ConfigMaps.
async fn filled(binary: &Binary, flags: &[&str]) -> anyhow::Result<(Server, Connection)> {
    let flags = [&["--lab", "--lab-clock", "manual"], flags].concat();
    let server = Server::start_with(binary, Storage::Memory, &flags).await?;
    let mut connection = server.connect_with(None).await?;
    for number in 0..OBJECTS {
        let object =
            json!({"metadata": {"name": format!("map-{number}")}, "data": {"a": number.to_string()}});
        connection.create(CONFIG_MAPS, Bytes::from(object.to_string())).await?;
    }
    Ok((server, connection))
}

/// Reads per second with a manual clock: one thread serves them all.
async fn manual_reads(binary: &Binary) -> anyhow::Result<Measurement> {
    let rate =
        get::rate_with(binary, &["--components", "apiserver", "--lab", "--lab-clock", "manual"]).await?;
    Ok(Measurement::new("GETs with `--lab` and a manual clock", "≥ 15,000/s", format!("{rate:.0}/s")))
}

/// Processor time that a fault rule, which selects each request and hits none, costs a request: the median of pairs.
async fn rule(binary: &Binary) -> anyhow::Result<Measurement> {
    let flags = ["--components", "apiserver", "--lab", "--lab-clock", "real"];
    let server = Server::start_with(binary, Storage::Memory, &flags).await?;
    let mut connection = server.connect_with(None).await?;
    let mut costs = Vec::new();
    for _ in 0..PAIRS {
        let mut each = [0.0; 2];
        let rules = [json!([]), json!([{"fault": "too-many", "probability": 1e-9}])];
        for (rules, cost) in rules.into_iter().zip(&mut each) {
            let rules = json!({"seed": 1, "rules": rules}).to_string();
            connection.put(&format!("{LAB}/faults"), rules.into()).await?;
            let before = processor_seconds(server.id()?)?;
            for _ in 0..READS {
                let (status, _) = connection.get("/api/v1/namespaces/default").await?;
                anyhow::ensure!(status == 200, "{status}");
            }
            *cost = (processor_seconds(server.id()?)? - before) * 1e6 / READS as f64;
        }
        costs.push((each[1] - each[0], each[1]));
    }
    server.kill().await?;
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (more, with) = costs[PAIRS / 2];
    let measured = format!("{more:.1} µs of processor time (of {with:.1} µs)");
    Ok(Measurement::new("a fault rule that hits nothing, each request", "≤ 2 µs", measured))
}

/// Time from the call that forks to the first answer of the fork over a new connection, and the memory of a fork that was only read.
async fn first_answer(
    binary: &Binary,
    what: &str,
    flags: &[&str],
    bound: &'static str,
) -> anyhow::Result<Measurement> {
    let (server, mut connection) = filled(binary, flags).await?;
    let fork = async |connection: &mut Connection| {
        let made = connection.create(&format!("{LAB}/clusters"), Bytes::from_static(b"{}")).await?;
        let made: Value = serde_json::from_slice(&made)?;
        let mut at = server.kubeconfig.clone();
        made["url"].as_str().context("a fork has no url")?.clone_into(&mut at.server);
        let (status, _) = Connection::open(&at).await?.get(&format!("{CONFIG_MAPS}/map-7")).await?;
        anyhow::ensure!(status == 200, "{status}");
        anyhow::Ok(())
    };
    // The first one makes what all share.
    fork(&mut connection).await?;
    let before = resident_mebibytes(server.id()?)?;
    let mut took = Vec::new();
    for _ in 0..CALLS {
        let started = Instant::now();
        fork(&mut connection).await?;
        took.push(started.elapsed());
    }
    let memory = (resident_mebibytes(server.id()?)? - before) / CALLS as f64;
    server.kill().await?;
    let measured = format!("{}, {memory:.2} MiB", Spread::of(took).latency());
    Ok(Measurement::new(format!("a fork of {OBJECTS} objects to its first answer, {what}"), bound, measured))
}

/// `settled` of a quiet cluster, and resets of a fork.
async fn settled_and_reset(binary: &Binary) -> anyhow::Result<[Measurement; 2]> {
    let (server, mut connection) = filled(binary, &["--components", "apiserver"]).await?;
    connection.create(&format!("{LAB}/clusters"), Bytes::from_static(b"{\"name\":\"a\"}")).await?;
    tokio::time::sleep(QUIET).await;
    let timed = async |connection: &mut Connection, path: &str| {
        let mut took = Vec::new();
        for _ in 0..CALLS {
            let started = Instant::now();
            connection.post(&format!("{LAB}{path}"), Bytes::from_static(b"{}")).await?;
            took.push(started.elapsed());
        }
        anyhow::Ok(Spread::of(took).latency())
    };
    let settled = timed(&mut connection, "/settled").await?;
    let reset = timed(&mut connection, "/clusters/a/reset").await?;
    server.kill().await?;
    Ok([
        Measurement::new("`settled` that is true, beyond the window", "≤ 1 ms", settled),
        Measurement::new(format!("`reset` of a fork of {OBJECTS} objects"), "≤ 15 ms", reset),
    ])
}

/// Writing and loading a snapshot file.
async fn snapshot(binary: &Binary) -> anyhow::Result<[Measurement; 2]> {
    let (server, mut connection) = filled(binary, &["--components", "apiserver"]).await?;
    connection.create(&format!("{LAB}/images"), Bytes::from_static(b"{\"name\":\"all\"}")).await?;
    let (mut saved, mut loaded, mut bytes) = (Vec::new(), Vec::new(), 0);
    for number in 0..CALLS / 5 {
        let started = Instant::now();
        let (status, file) = connection.get(&format!("{LAB}/images/all/file")).await?;
        anyhow::ensure!(status == 200, "{status}");
        saved.push(started.elapsed());
        bytes = file.len();
        let started = Instant::now();
        // Another image: a file that is there already is not loaded again.
        connection.put(&format!("{LAB}/images/copy-{number}/file"), file).await?;
        loaded.push(started.elapsed());
    }
    server.kill().await?;
    let size = bytes as f64 / f64::from(1 << 20);
    let saved = format!("{} ({size:.1} MiB)", Spread::of(saved).latency());
    let what = |does: &str| format!("a snapshot file of {OBJECTS} objects, {does}");
    Ok([
        Measurement::new(what("written"), "≤ 150 ms", saved),
        Measurement::new(what("loaded"), "≤ 250 ms", Spread::of(loaded).latency()),
    ])
}

/// Reads per second with `--lab` in real time and without rules, as a part of those without it: the median of pairs.
async fn reads(binary: &Binary) -> anyhow::Result<Measurement> {
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let without = get::rate_with(binary, &["--components", "apiserver"]).await?;
        let with =
            get::rate_with(binary, &["--components", "apiserver", "--lab", "--lab-clock", "real"]).await?;
        pairs.push((with / without, with, without));
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (part, with, without) = pairs[PAIRS / 2];
    let measured = format!(
        "{part:.3} ({with:.0}/s, {without:.0}/s); all {PAIRS} pairs {:.3} to {:.3}",
        pairs[0].0,
        pairs[PAIRS - 1].0
    );
    Ok(Measurement::new("GETs with `--lab` in real time, beside without", "≥ 0.95", measured))
}

/// Memory of the server with [`FORKS`] forks of a cluster of [`OBJECTS`] ConfigMaps.
async fn forks(
    binary: &Binary,
    what: &str,
    flags: &[&str],
    bound: &'static str,
) -> anyhow::Result<Measurement> {
    let (server, mut connection) = filled(binary, flags).await?;
    let before = resident_mebibytes(server.id()?)?;
    let started = Instant::now();
    for _ in 0..FORKS / AT_ONCE {
        connection
            .create(&format!("{LAB}/clusters"), Bytes::from(json!({"count": AT_ONCE}).to_string()))
            .await?;
    }
    let (took, after) = (started.elapsed(), resident_mebibytes(server.id()?)?);
    server.kill().await?;
    let measured = format!(
        "{after:.0} MiB, {before:.0} before; {:.1} ms a fork",
        took.as_secs_f64() * 1e3 / FORKS as f64
    );
    Ok(Measurement::new(format!("{FORKS} forks of {OBJECTS} objects, {what}"), bound, measured))
}

/// Wall time of 24 hours of a cluster with 3 nodes and ten hourly CronJobs with pods.
async fn day(binary: &Binary) -> anyhow::Result<Measurement> {
    let server = Server::start_with(binary, Storage::Memory, &["--lab", "--lab-clock", "manual"]).await?;
    let mut connection = server.connect_with(None).await?;
    for number in 0..10 {
        let container = json!({"name": "a", "image": "a", "command": ["true"]});
        let pod = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
        let spec = json!({"schedule": "0 * * * *", "successfulJobsHistoryLimit": 100, "jobTemplate": {"spec": {"template": pod}}});
        let object = json!({"metadata": {"name": format!("hourly-{number}")}, "spec": spec});
        connection
            .create("/apis/batch/v1/namespaces/default/cronjobs", Bytes::from(object.to_string()))
            .await?;
    }
    let started = Instant::now();
    connection
        .post(
            &format!("{LAB}/clock/advance"),
            Bytes::from(json!({"by": "24h", "patience": "10m"}).to_string()),
        )
        .await?;
    let took = started.elapsed();
    let (_, jobs) = connection.get("/apis/batch/v1/namespaces/default/jobs").await?;
    let jobs = serde_json::from_slice::<Value>(&jobs)?["items"].as_array().map_or(0, Vec::len);
    anyhow::ensure!(jobs == 240, "{jobs} Jobs instead of 240");
    server.kill().await?;
    Ok(Measurement::new(
        "24 hours with ten hourly CronJobs",
        "≤ 12 s",
        format!("{:.1} s", took.as_secs_f64()),
    ))
}
