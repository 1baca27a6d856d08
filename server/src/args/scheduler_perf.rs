//! Arguments of `scheduler-perf`.

use super::flag::{Flag, add, chosen, list, parsed, put, repeated, required, words};
use super::simulation::ReportOutput;
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Runs the workloads of configurations of Kubernetes' test/integration/scheduler_perf, each on an API server and a scheduler of its own in this \
process, and prints how many pods a second got a node. Templates are read from the paths in the configuration, relative to its folder. The \
exit code is 1 if a workload is slower than its threshold, or cannot be run: its row has the reason then, and the others are run.

A workload with an opcode or a kind that is not known is refused. With --beside, the table has the results of a kube-scheduler below those \
of this process; they do not change the exit code, and a workload that the program cannot run has the reason in its row.

Example:
  kstore-server scheduler-perf misc/performance-config.yaml --label performance --name SchedulingBasic";

pub(super) const FLAGS: &[Flag<SchedulerPerfArgs>] = &[
    Flag::value(
        "file",
        "FILE",
        |o: &mut SchedulerPerfArgs, text| add(&mut o.files, parsed(text)),
        "Configuration, such as performance-config.yaml",
    )
    .positional()
    .shaped(|arg| repeated(required(arg)).num_args(1..)),
    Flag::value(
        "label",
        "LABEL",
        |o: &mut SchedulerPerfArgs, text| add(&mut o.labels, parsed(text)),
        "Only workloads with one of these labels, of their own or of their test case",
    )
    .shaped(list),
    Flag::value(
        "name",
        "PART",
        |o: &mut SchedulerPerfArgs, text| put(&mut o.name, parsed(text).map(Some)),
        "Only workloads whose name CASE/WORKLOAD has this part",
    ),
    Flag::value(
        "beside",
        "PROGRAM",
        |o: &mut SchedulerPerfArgs, text| put(&mut o.beside, parsed(text).map(Some)),
        "Run each workload a second time with this kube-scheduler, a process on the same API server",
    ),
    Flag::value(
        "runs",
        "N",
        |o: &mut SchedulerPerfArgs, text| put(&mut o.runs, runs(text)),
        "Run each workload N times, up to 100, and print the run with the median throughput",
    )
    .default("1"),
    Flag::choice(
        ("output", "FORM"),
        words::<ReportOutput>,
        |o: &mut SchedulerPerfArgs, word| put(&mut o.output, chosen(word)),
        "Form of the results: a table, or the JSON of scheduler_perf",
    )
    .shaped(|arg| arg.short('o'))
    .default("text"),
];

/// Most runs of a workload: a hundred of one that takes a minute take a night.
const RUNS: u32 = 100;

fn runs(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=RUNS).contains(number));
    number.ok_or_else(|| format!("expected a whole number from 1 to {RUNS}"))
}

/// Arguments of `scheduler-perf`.
#[derive(Debug, Default)]
pub struct SchedulerPerfArgs {
    /// The configurations.
    pub files: Vec<PathBuf>,
    /// Labels of which a workload has one; none: all workloads.
    pub labels: Vec<String>,
    /// A part of the names of workloads.
    pub name: Option<String>,
    /// The path of a kube-scheduler that runs each workload, too.
    pub beside: Option<PathBuf>,
    /// How often each workload is run, at least once.
    pub runs: u32,
    /// Form of the results.
    pub output: ReportOutput,
}
