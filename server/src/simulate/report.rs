//! [`Report`]: the results of a simulation, as a text and as JSON. Pure.

use super::compare::Comparison;
use super::observed::{GroupCount, Observed, share};
use kstore_go_duration::format;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Nanoseconds of an hour.
const HOUR: f64 = 3.6e12;
/// The name of nodes that no group made.
const NO_GROUP: &str = "-";
/// Writers that the text names.
const WRITERS: usize = 12;

/// The results of a simulation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The simulated time.
    until: String,
    seed: u64,
    pods: PodReport,
    /// Pods that were ended before their time, by the reason of their condition DisruptionTarget.
    evictions: BTreeMap<String, u64>,
    groups: Vec<GroupReport>,
    writes: WriteReport,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodReport {
    created: u64,
    started: usize,
    failed: u64,
    /// Seconds from the creation of a pod until it runs.
    start_seconds: Percentiles,
}

#[derive(Debug, Default, Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupReport {
    name: String,
    most_nodes: usize,
    node_hours: f64,
    cost: f64,
    /// The share of the allocatable processors, and of the memory, that bound pods requested.
    cpu_utilisation: f64,
    memory_utilisation: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WriteReport {
    total: u64,
    by_writer: BTreeMap<String, u64>,
}

impl Report {
    /// The results of what was observed.
    pub(super) fn of(observed: &Observed, until: Duration, seed: u64) -> Self {
        let mut starts = observed.starts.clone();
        starts.sort();
        Self {
            until: format(i64::try_from(until.as_nanos()).unwrap_or(i64::MAX)),
            seed,
            pods: PodReport {
                created: observed.created,
                started: starts.len(),
                failed: observed.failed,
                start_seconds: percentiles(&starts),
            },
            evictions: observed.evictions.clone(),
            groups: observed.groups.iter().map(|(name, count)| group(name, count)).collect(),
            writes: WriteReport { total: observed.writes.values().sum(), by_writer: observed.writes.clone() },
        }
    }

    /// The report as a later simulation reads it: numbers have the value of their text.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.json(None)).expect("a report is JSON")
    }

    /// The report for programs, with the member `differences` if it was compared with an earlier one.
    pub(super) fn json(&self, differences: Option<&Comparison>) -> String {
        #[derive(Serialize)]
        struct Compared<'r> {
            #[serde(flatten)]
            report: &'r Report,
            #[serde(skip_serializing_if = "Option::is_none")]
            differences: Option<&'r Comparison>,
        }
        let compared = Compared { report: self, differences };
        let mut text = serde_json::to_string_pretty(&compared).expect("a report is JSON");
        text.push('\n');
        text
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a text does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Self { until, seed, pods, evictions, groups, writes } = self;
        writeln!(out, "simulated {until}, seed {seed}")?;
        writeln!(
            out,
            "pods       {} created, {} started, {} failed",
            pods.created, pods.started, pods.failed
        )?;
        let Percentiles { p50, p90, p99, max } = &pods.start_seconds;
        writeln!(out, "start      p50 {p50:.2} s, p90 {p90:.2} s, p99 {p99:.2} s, longest {max:.2} s")?;
        let evictions: Vec<_> = evictions.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let evictions = if evictions.is_empty() { "none".to_owned() } else { evictions.join(", ") };
        writeln!(out, "evictions  {evictions}")?;
        writeln!(out, "\nGROUP               MOST  NODE-HOURS        COST   CPU  MEMORY")?;
        for group in groups {
            let GroupReport { name, most_nodes, node_hours, cost, cpu_utilisation, memory_utilisation } =
                group;
            let (cpu, memory) = (cpu_utilisation * 100.0, memory_utilisation * 100.0);
            writeln!(
                out,
                "{name:<18} {most_nodes:>5} {node_hours:>11.2} {cost:>11.2} {cpu:>4.0}% {memory:>6.0}%"
            )?;
        }
        writeln!(out, "\n{} writes", writes.total)?;
        let mut by_writer: Vec<_> = writes.by_writer.iter().collect();
        by_writer.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (writer, count) in by_writer.iter().take(WRITERS) {
            writeln!(out, "{count:>9}  {writer}")?;
        }
        let others: u64 = by_writer.iter().skip(WRITERS).map(|(_, count)| **count).sum();
        if others > 0 {
            writeln!(out, "{others:>9}  others")?;
        }
        Ok(())
    }
}

/// The smallest values that these parts of all values do not exceed.
fn percentiles(sorted: &[Duration]) -> Percentiles {
    let of = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map_or(0.0, Duration::as_secs_f64)
    };
    Percentiles { p50: of(50), p90: of(90), p99: of(99), max: of(100) }
}

fn group(name: &str, count: &GroupCount) -> GroupReport {
    GroupReport {
        name: if name.is_empty() { NO_GROUP.to_owned() } else { name.to_owned() },
        most_nodes: count.most_nodes,
        node_hours: rounded(count.node_nanos as f64 / HOUR),
        cost: rounded(count.cost as f64 / HOUR / 1e6),
        cpu_utilisation: rounded(share(count.used.milli_cpu, count.offered.milli_cpu)),
        memory_utilisation: rounded(share(count.used.memory, count.offered.memory)),
    }
}

/// Six decimals: enough for prices, and short.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
