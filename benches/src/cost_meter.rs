//! [`CostMeter`]: elapsed time, CPU time, commits and wake-ups of a server's process, stage by stage. CPU time
//! and counts are reliable on a busy machine; elapsed times are not.

use crate::connection::Connection;
use crate::limits::COSTS_POLL;
use crate::process::Server;
use crate::spread::Short;
use crate::usage::{processor_seconds, wakeups};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// The cost of one stage.
pub(crate) struct Cost {
    pub time: Duration,
    /// CPU time of all threads, in seconds.
    pub processor: f64,
    pub commits: u64,
    /// How often a thread of the process was woken after it had blocked.
    wakeups: u64,
}

impl Cost {
    /// The total time, and the rest divided by `count` objects.
    pub(crate) fn describe(&self, count: usize, unit: &str) -> String {
        let each = |total: f64| total / count as f64;
        format!(
            "{}; per {unit} {:.0} µs of processor time, {:.2} commits, {:.2} wake-ups",
            Short(self.time),
            each(self.processor) * 1e6,
            each(self.commits as f64),
            each(self.wakeups as f64),
        )
    }

    /// The rates of a cluster with this number of nodes that does nothing.
    pub(crate) fn describe_at_rest(&self, nodes: usize) -> String {
        let seconds = self.time.as_secs_f64();
        format!(
            "{:.0} µs of processor time a second and node, {:.1} commits and {:.0} wake-ups a second",
            self.processor * 1e6 / seconds / nodes as f64,
            self.commits as f64 / seconds,
            self.wakeups as f64 / seconds,
        )
    }
}

/// Measures the usage since the last reading.
pub(crate) struct CostMeter {
    process: u32,
    /// For requests during a stage.
    pub connection: Connection,
    since: Instant,
    processor: f64,
    revision: u64,
    wakeups: u64,
}

impl CostMeter {
    /// Starts the first stage at the start of the process.
    pub(crate) async fn of_start(server: &Server) -> anyhow::Result<Self> {
        let (process, connection) = (server.id()?, server.connect().await?);
        let since = Instant::now() - server.ready_after;
        Ok(Self { process, connection, since, processor: 0.0, revision: 0, wakeups: 0 })
    }

    /// Returns the cost of the ending stage and begins the next one.
    pub(crate) async fn stage(&mut self) -> anyhow::Result<Cost> {
        let (time, processor, wakeups) =
            (self.since.elapsed(), processor_seconds(self.process)?, wakeups(self.process)?);
        let revision = revision(&mut self.connection).await?;
        let cost = Cost {
            time,
            processor: processor - self.processor,
            commits: revision.saturating_sub(self.revision),
            wakeups: wakeups.saturating_sub(self.wakeups),
        };
        (self.since, self.processor, self.revision, self.wakeups) =
            (Instant::now(), processor, revision, wakeups);
        Ok(cost)
    }

    /// Polls the number of objects under `path` until it is enough. A path with a query ends with `&`; with a
    /// selector in it only none and some are told apart.
    pub(crate) async fn until(
        &mut self,
        path: &str,
        is_enough: impl Fn(usize) -> bool,
    ) -> anyhow::Result<()> {
        while !is_enough(count(&mut self.connection, path).await?) {
            tokio::time::sleep(COSTS_POLL).await;
        }
        Ok(())
    }
}

/// The number of objects, from a list of one of them.
async fn count(connection: &mut Connection, path: &str) -> anyhow::Result<usize> {
    let separator = if path.ends_with('&') { "" } else { "?" };
    let list = read(connection, &format!("{path}{separator}limit=1")).await?;
    let shown = list["items"].as_array().map_or(0, Vec::len);
    let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    Ok(shown + usize::try_from(more)?)
}

async fn revision(connection: &mut Connection) -> anyhow::Result<u64> {
    let list = read(connection, "/api/v1/namespaces?limit=1").await?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list without a revision")?;
    Ok(revision.parse()?)
}

async fn read(connection: &mut Connection, path: &str) -> anyhow::Result<Value> {
    let (status, body) = connection.get(path).await?;
    ensure!(status == 200, "{path}: {status}");
    Ok(serde_json::from_slice(&body)?)
}
