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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduler {
    /// That of this process.
    Own,
    /// A kube-scheduler beside it.
    Program,
}

impl Scheduler {
    fn name(&self) -> &'static str {
        match self {
            Self::Own => "kstore",
            Self::Program => "kube-scheduler",
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
    /// Why the scheduler could not run the workload.
    pub(super) failure: Option<String>,
}

/// Of several runs of a workload the measurement with the median throughput, by topic; of an even number the slower one of the two in the
/// middle.
///
/// # Errors
/// That of the first run that failed: a median of the others would hide it.
pub(super) fn median(runs: Vec<Result<Vec<Measured>, String>>) -> Result<Vec<Measured>, String> {
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let topics: Vec<String> =
        runs.first().into_iter().flatten().map(|measured| measured.topic.clone()).collect();
    let of_topic = |topic: &String| {
        let mut same: Vec<&Measured> = runs.iter().flatten().filter(|one| one.topic == *topic).collect();
        same.sort_by(|a, b| a.throughput.average.total_cmp(&b.throughput.average));
        same.get(same.len().saturating_sub(1) / 2).map(|median| (*median).clone())
    };
    Ok(topics.iter().filter_map(of_topic).collect())
}

impl WorkloadResult {
    /// The threshold of a measurement.
    fn threshold(&self, measured: &Measured) -> Option<f64> {
        self.thresholds.get(&measured.topic).or_else(|| self.thresholds.get("")).copied()
    }

    /// The result of a workload with this name and these thresholds.
    pub(super) fn new(
        name: &str,
        thresholds: &BTreeMap<String, f64>,
        scheduler: Scheduler,
        measured: Result<Vec<Measured>, String>,
    ) -> Self {
        let (measured, failure) = match measured {
            Ok(measured) => (measured, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Self { name: name.to_owned(), thresholds: thresholds.clone(), measured, scheduler, failure }
    }

    /// Whether the scheduler of this process could not run the workload, or is slower than a threshold.
    pub(super) fn has_failed(&self) -> bool {
        let is_below = |measured: &Measured| {
            self.threshold(measured).is_some_and(|threshold| measured.throughput.average < threshold)
        };
        self.scheduler == Scheduler::Own && (self.failure.is_some() || self.measured.iter().any(is_below))
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
            let why = result
                .failure
                .as_deref()
                .map_or("nothing is measured", |why| why.lines().next_back().unwrap_or_default());
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
            failure: None,
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
            assert_eq!(result(threshold).has_failed(), is_below, "{threshold:?}");
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
        let beside = |measured| WorkloadResult::new(&own.name, &own.thresholds, Scheduler::Program, measured);
        let results = [own.clone(), beside(Ok(vec![slow])), beside(Err("op 1:\nno gate X".to_owned()))];
        assert!(!results.iter().any(WorkloadResult::has_failed));
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

    #[test]
    fn a_workload_that_this_scheduler_cannot_run_has_the_reason_in_its_row_and_fails_the_run() {
        let failed = WorkloadResult::new(
            "Basic/odd",
            &BTreeMap::new(),
            Scheduler::Own,
            Err("op 3: no pod".to_owned()),
        );
        let results = [result(&[]), failed];
        assert_eq!(results.each_ref().map(WorkloadResult::has_failed), [false, true]);
        let expected = "\
WORKLOAD     MEASURED     PODS  PODS/S  P50  P99  THRESHOLD
Basic/small  namespace-2  900   300     290  310  -
Basic/odd    -            -     -       -    -    -          op 3: no pod
";
        assert_eq!(table(&results), expected);
    }

    #[test]
    fn the_median_of_runs_is_that_of_each_topic() {
        let run = |first: f64, second: f64| {
            let measured = |topic: &str, average: f64| Measured {
                topic: topic.to_owned(),
                throughput: Throughput { average, ..Throughput::default() },
            };
            Ok(vec![measured("a", first), measured("b", second)])
        };
        let averages = |runs| -> Result<Vec<f64>, String> {
            Ok(median(runs)?.iter().map(|measured| measured.throughput.average).collect())
        };
        assert_eq!(averages(vec![run(3.0, 10.0), run(1.0, 30.0), run(2.0, 20.0)]), Ok(vec![2.0, 20.0]));
        assert_eq!(averages(vec![run(3.0, 10.0), run(1.0, 30.0)]), Ok(vec![1.0, 10.0]));
        let failed = averages(vec![run(3.0, 10.0), Err("it has ended".to_owned())]);
        assert_eq!(failed, Err("it has ended".to_owned()));
    }
}
