//! The results of workloads, as a table and as the JSON of scheduler_perf. Pure.

use super::throughput::{PERCENTILES, Throughput};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The version of the JSON: that of Kubernetes' performance tests.
const VERSION: &str = "v1";
/// The name of what is measured.
const METRIC: &str = "SchedulingThroughput";

/// A measurement of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// The namespace of createPods, or the name of startCollectingMetrics.
    pub(super) topic: String,
    pub(super) throughput: Throughput,
}

/// The scheduler of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scheduler {
    /// That of this process.
    Own,
    /// A kube-scheduler beside it.
    Program,
    /// A kube-scheduler that cannot run the workload, for this reason.
    Failed(String),
}

impl Scheduler {
    fn name(&self) -> &'static str {
        match self {
            Self::Own => "kstore",
            Self::Program | Self::Failed(_) => "kube-scheduler",
        }
    }
}

/// The results of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkloadResult {
    /// `CASE/WORKLOAD`.
    pub(super) name: String,
    /// Thresholds by topic; an empty topic is that of every measurement.
    pub(super) thresholds: BTreeMap<String, f64>,
    pub(super) measured: Vec<Measured>,
    pub(super) scheduler: Scheduler,
}

impl WorkloadResult {
    /// The threshold of a measurement.
    fn threshold(&self, measured: &Measured) -> Option<f64> {
        self.thresholds.get(&measured.topic).or_else(|| self.thresholds.get("")).copied()
    }

    /// The result of a kube-scheduler with the same workload.
    pub(super) fn beside(&self, measured: Result<Vec<Measured>, String>) -> Self {
        let (measured, scheduler) = match measured {
            Ok(measured) => (measured, Scheduler::Program),
            Err(why) => (Vec::new(), Scheduler::Failed(why)),
        };
        Self { name: self.name.clone(), thresholds: self.thresholds.clone(), measured, scheduler }
    }

    /// Whether a measurement of the scheduler of this process is below its threshold.
    pub(super) fn is_below(&self) -> bool {
        let is_below = |measured: &Measured| {
            self.threshold(measured).is_some_and(|threshold| measured.throughput.average < threshold)
        };
        self.scheduler == Scheduler::Own && self.measured.iter().any(is_below)
    }
}

/// The table for people. Results of another scheduler give it a column with the scheduler of each.
pub(super) fn table(results: &[WorkloadResult]) -> String {
    let mut rows = vec![
        ["WORKLOAD", "SCHEDULER", "MEASURED", "PODS", "PODS/S", "P50", "P99", "THRESHOLD", ""]
            .map(str::to_owned),
    ];
    for result in results {
        if result.measured.is_empty() {
            let why = match &result.scheduler {
                Scheduler::Own | Scheduler::Program => "nothing is measured",
                Scheduler::Failed(why) => why.lines().next_back().unwrap_or_default(),
            };
            let cells = [&result.name, result.scheduler.name(), "-", "-", "-", "-", "-", "-", why];
            rows.push(cells.map(str::to_owned));
        }
        for measured in &result.measured {
            let Throughput { average, percentiles: [p50, _, _, p99], pods } = measured.throughput;
            let threshold = result.threshold(measured);
            let verdict = threshold.map_or("", |least| if average < least { "below" } else { "ok" });
            rows.push([
                result.name.clone(),
                result.scheduler.name().to_owned(),
                measured.topic.clone(),
                pods.to_string(),
                format!("{average:.0}"),
                format!("{p50:.0}"),
                format!("{p99:.0}"),
                threshold.map_or_else(|| "-".to_owned(), |least| format!("{least:.0}")),
                verdict.to_owned(),
            ]);
        }
    }
    if results.iter().any(|result| result.scheduler != Scheduler::Own) {
        return aligned(&rows);
    }
    let without = |[workload, _, rest @ ..]: [String; 9]| -> [String; 8] {
        let [a, b, c, d, e, f, g] = rest;
        [workload, a, b, c, d, e, f, g]
    };
    aligned(&rows.into_iter().map(without).collect::<Vec<_>>())
}

/// Rows with columns of equal width.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = String::new();
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or_default());
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing into a text does not fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The JSON of scheduler_perf: data items of Kubernetes' performance tests.
pub(super) fn json(results: &[WorkloadResult]) -> String {
    let is_compared = results.iter().any(|result| result.scheduler != Scheduler::Own);
    let items = results.iter().flat_map(|result| {
        result.measured.iter().map(move |measured| DataItem {
            data: data(measured.throughput),
            unit: "pods/s",
            labels: labels(result, measured, is_compared),
        })
    });
    let document = PerfData { version: VERSION, data_items: items.collect() };
    let mut text = serde_json::to_string_pretty(&document).expect("results are JSON");
    text.push('\n');
    text
}

/// The labels of scheduler_perf, and the scheduler if there are several.
fn labels(result: &WorkloadResult, measured: &Measured, is_compared: bool) -> BTreeMap<&'static str, String> {
    let mut labels = BTreeMap::from([
        ("Metric", METRIC.to_owned()),
        ("Name", format!("{}/{}", result.name, measured.topic)),
    ]);
    if is_compared {
        labels.insert("Scheduler", result.scheduler.name().to_owned());
    }
    labels
}

fn data(throughput: Throughput) -> BTreeMap<String, f64> {
    let percentiles = PERCENTILES.iter().zip(throughput.percentiles);
    let percentiles = percentiles.map(|(percent, rate)| (format!("Perc{percent:02}"), rate));
    percentiles.chain([("Average".to_owned(), throughput.average)]).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PerfData {
    version: &'static str,
    data_items: Vec<DataItem>,
}

#[derive(Serialize)]
struct DataItem {
    data: BTreeMap<String, f64>,
    unit: &'static str,
    labels: BTreeMap<&'static str, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(threshold: &[(&str, f64)]) -> WorkloadResult {
        let throughput = Throughput { average: 300.0, percentiles: [290.0, 310.0, 310.0, 310.0], pods: 900 };
        WorkloadResult {
            name: "Basic/small".to_owned(),
            thresholds: threshold.iter().map(|(topic, least)| ((*topic).to_owned(), *least)).collect(),
            measured: vec![Measured { topic: "namespace-2".to_owned(), throughput }],
            scheduler: Scheduler::Own,
        }
    }

    #[test]
    fn the_average_is_compared_with_the_threshold_of_its_topic() {
        for (threshold, is_below) in [
            (&[][..], false),
            (&[("", 270.0)], false),
            (&[("", 301.0)], true),
            (&[("", 301.0), ("namespace-2", 270.0)], false),
            (&[("other", 301.0)], false),
        ] {
            assert_eq!(result(threshold).is_below(), is_below, "{threshold:?}");
        }
    }

    #[test]
    fn results_are_a_table_and_data_items() {
        let results = [result(&[("", 270.0)]), WorkloadResult { measured: vec![], ..result(&[]) }];
        let expected = "\
WORKLOAD     MEASURED     PODS  PODS/S  P50  P99  THRESHOLD
Basic/small  namespace-2  900   300     290  310  270        ok
Basic/small  -            -     -       -    -    -          nothing is measured
";
        assert_eq!(table(&results), expected);
        let value: serde_json::Value = serde_json::from_str(&json(&results)).unwrap();
        assert_eq!(value["version"], "v1");
        assert_eq!(value["dataItems"].as_array().map(Vec::len), Some(1));
        assert_eq!(value["dataItems"][0]["data"]["Average"], 300.0);
        assert_eq!(value["dataItems"][0]["data"]["Perc50"], 290.0);
        assert_eq!(value["dataItems"][0]["labels"]["Name"], "Basic/small/namespace-2");
    }
    #[test]
    fn the_results_of_a_kube_scheduler_are_in_the_same_table_and_fail_nothing() {
        let own = result(&[("", 270.0)]);
        let slow = Measured {
            throughput: Throughput { average: 90.0, ..own.measured[0].throughput },
            ..own.measured[0].clone()
        };
        let results =
            [own.clone(), own.beside(Ok(vec![slow])), own.beside(Err("op 1:\nno gate X".to_owned()))];
        assert!(!results.iter().any(WorkloadResult::is_below));
        let expected = "\
WORKLOAD     SCHEDULER       MEASURED     PODS  PODS/S  P50  P99  THRESHOLD
Basic/small  kstore          namespace-2  900   300     290  310  270        ok
Basic/small  kube-scheduler  namespace-2  900   90      290  310  270        below
Basic/small  kube-scheduler  -            -     -       -    -    -          no gate X
";
        assert_eq!(table(&results), expected);
        let value: serde_json::Value = serde_json::from_str(&json(&results)).unwrap();
        assert_eq!(value["dataItems"][1]["labels"]["Scheduler"], "kube-scheduler");
    }
}
