//! A virtual year of CronJobs: each runs once a week or once a day and keeps three Jobs, as CronJobs do by
//! default. Without nodes, the Jobs have no pods and complete at once. With nodes, each Job has a pod that runs
//! for ten seconds, and the nodes renew their Leases every ten seconds. Events expire after an hour; history is
//! compacted as in a server.

use super::{number, virtual_runtime};
use crate::measurement::Measurement;
use crate::usage::{peak_mebibytes, processor_seconds, reset_peak, resident_mebibytes};
use anyhow::ensure;
use kstore_nondet::Clock;
use kstore_testing::{Cluster, Gvr};
use serde_json::{Value, json};
use std::time::Duration;

/// Environment variable with another number of days; the result is then extrapolated to a year.
const DAYS: &str = "KSTORE_BENCH_DAYS";
const YEAR: u64 = 365;
const CRON_JOBS: usize = 100;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// History of a server by default.
const HISTORY: Duration = Duration::from_secs(300);
/// Finished Jobs that a CronJob keeps by default.
const KEPT: usize = 3;

/// How often each CronJob runs.
#[derive(Clone, Copy)]
pub(super) enum Frequency {
    /// Once a day.
    Daily,
    /// Once a week; the CronJobs are spread over the days of the week.
    Weekly,
}

impl Frequency {
    /// The name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::Weekly => "weekly",
        }
    }

    /// The schedule of the CronJob with this number.
    fn schedule(self, number: usize) -> String {
        let minute = number % 60;
        match self {
            Self::Daily => format!("{minute} 12 * * *"),
            Self::Weekly => format!("{minute} 12 * * {}", number % 7),
        }
    }

    /// The least number of runs of one CronJob in this number of days.
    fn runs(self, days: u64) -> u64 {
        match self {
            Self::Daily => days,
            Self::Weekly => days / 7,
        }
    }
}

/// Measures a year of a cluster with this number of nodes.
pub(super) fn measure(frequency: Frequency, nodes: usize) -> anyhow::Result<Measurement> {
    let days = number(DAYS, YEAR)?;
    virtual_runtime()?.block_on(run(frequency, nodes, days))
}

async fn run(frequency: Frequency, nodes: usize, days: u64) -> anyhow::Result<Measurement> {
    let (me, real) = (std::process::id(), Clock::real());
    let cluster = Cluster::builder().virtual_time(1).nodes(nodes).history(HISTORY).start().await;
    let manifests: Vec<String> =
        (0..CRON_JOBS).map(|number| cron_job(frequency, number, nodes > 0).to_string()).collect();
    cluster.apply(&manifests.join("\n---\n")).await?;
    reset_peak(me)?;
    let (started, before) = (real.now(), processor_seconds(me)?);
    for _ in 0..days {
        cluster.advance(DAY).await;
    }
    let (took, used) = (real.now().duration_since(started).as_secs_f64(), processor_seconds(me)? - before);
    let (resident, peak) = (resident_mebibytes(me)?, peak_mebibytes(me)?);
    check(&cluster, frequency.runs(days)).await?;
    cluster.stop().await;
    let what = format!(
        "{days} virtual days of {CRON_JOBS} {} CronJobs, {nodes} nodes, Jobs {}",
        frequency.name(),
        if nodes > 0 { "of one pod" } else { "without pods" },
    );
    let year = took * YEAR as f64 / days as f64;
    let measured = format!(
        "{took:.1} s, {used:.1} s of CPU time; a year {year:.0} s; {resident:.0} MiB resident, {peak:.0} MiB at peak"
    );
    Ok(Measurement::new(what, "a year ≤ 30 s", measured))
}

/// Checks that the CronJobs, which ran at least this often, have the finished Jobs that they keep, and no others.
async fn check(cluster: &Cluster, runs: u64) -> anyhow::Result<()> {
    let list = async |group, plural| {
        let api = cluster.client().dynamic(Gvr::new(group, "v1", plural));
        api.list("", &Default::default()).await.map(|(objects, _)| objects)
    };
    let jobs = list("batch", "jobs").await?;
    let least = CRON_JOBS * KEPT.min(usize::try_from(runs)?);
    let expected = least..=(least + CRON_JOBS).min(CRON_JOBS * KEPT);
    ensure!(expected.contains(&jobs.len()), "{} Jobs instead of {expected:?}", jobs.len());
    Ok(())
}

fn cron_job(frequency: Frequency, number: usize, has_pods: bool) -> Value {
    let pods = usize::from(has_pods);
    let script = json!({"kubelet-sim.kstore.io/run-seconds": "10"});
    let template = json!({"metadata": {"annotations": script}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "work:1"}]}});
    let job = json!({"spec": {"completions": pods, "parallelism": pods, "template": template}});
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": format!("cron-{number}")},
        "spec": {"schedule": frequency.schedule(number), "jobTemplate": job}})
}
