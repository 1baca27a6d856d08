//! The lab over the network: reads with and without `--lab`, a day of CronJobs in one call, and the memory of a thousand forks.

use crate::binary::Binary;
use crate::get;
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::usage::resident_mebibytes;
use crate::writes::CONFIG_MAPS;
use bytes::Bytes;
use serde_json::{Value, json};
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

/// All measurements of the lab.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    Ok(vec![
        reads(&binary).await?,
        forks(&binary, "API alone", &["--components", "apiserver"], "≤ 512 MiB").await?,
        forks(&binary, "whole clusters with one node", &["--nodes", "1"], "≤ 4 GiB").await?,
        day(&binary).await?,
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
    let flags = [&["--lab", "--lab-clock", "manual"], flags].concat();
    let server = Server::start_with(binary, Storage::Memory, &flags).await?;
    let mut connection = server.connect_with(None).await?;
    for number in 0..OBJECTS {
        let object =
            json!({"metadata": {"name": format!("map-{number}")}, "data": {"a": number.to_string()}});
        connection.create(CONFIG_MAPS, Bytes::from(object.to_string())).await?;
    }
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
