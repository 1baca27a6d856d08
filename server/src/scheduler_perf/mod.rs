//! `kstore-server scheduler-perf`: runs the workloads of a configuration of Kubernetes' scheduler_perf, each on a control plane of its own
//! in this process, and prints how many pods a second got a node.

mod beside;
mod devices;
mod document;
mod execute;
mod fields;
mod objects;
mod operation;
mod pods;
mod report;
mod tally;
mod template;
mod throughput;

use crate::args::{ReportOutput, SchedulerPerfArgs};
use crate::runtime;
use anyhow::{Context, bail};
use document::{Selection, Workload};
use kstore_scheduler::Gates;
use report::{Scheduler, WorkloadResult};
use std::path::Path;
use std::process::ExitCode;

/// Carries out `scheduler-perf`. Fails if a workload is slower than its threshold, or cannot be run; the others are run all the same.
pub(crate) fn scheduler_perf(args: &SchedulerPerfArgs) -> anyhow::Result<ExitCode> {
    let workloads = read(args)?;
    runtime::block_on(async move {
        let mut results = Vec::with_capacity(workloads.len());
        for workload in workloads {
            note_unknown_gates(&workload);
            eprintln!("{} …", workload.name);
            // The schedulers take turns, so that a busy minute of the machine does not change the runs of one alone.
            let (mut own, mut beside) = (Vec::new(), Vec::new());
            for _ in 0..args.runs.max(1) {
                own.push(execute::run(&workload, None).await.map_err(|error| format!("{error:#}")));
                if let Some(program) = &args.beside {
                    beside.push(
                        execute::run(&workload, Some(program)).await.map_err(|error| format!("{error:#}")),
                    );
                }
            }
            let Workload { name, thresholds, .. } = &workload;
            let result =
                |scheduler, runs| WorkloadResult::new(name, thresholds, scheduler, report::median(runs));
            results.push(result(Scheduler::Own, own));
            if args.beside.is_some() {
                results.push(result(Scheduler::Program, beside));
            }
        }
        match args.output {
            ReportOutput::Text => print!("{}", report::table(&results)),
            ReportOutput::Json => print!("{}", report::json(&results)),
        }
        Ok(match results.iter().any(WorkloadResult::has_failed) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    })
}

fn read(args: &SchedulerPerfArgs) -> anyhow::Result<Vec<Workload>> {
    let selection = Selection { labels: &args.labels, name: args.name.as_deref() };
    let read_file = |path: &Path| std::fs::read_to_string(path).map_err(|error| error.to_string());
    let mut workloads = Vec::new();
    for file in &args.files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let read = document::workloads(file, &text, &selection, &read_file);
        workloads.extend(read.map_err(|problems| anyhow::Error::msg(problems.join("\n")))?);
    }
    if workloads.is_empty() {
        bail!("no workload has these labels and this name");
    }
    Ok(workloads)
}

/// Says which gates change nothing here.
fn note_unknown_gates(workload: &Workload) {
    let is_known = |name: &str| Gates::NAMES.contains(&name) || name == execute::GANGS;
    for name in workload.gates.keys().filter(|name| !is_known(name)) {
        eprintln!("{}: the feature gate {name} changes nothing in this scheduler", workload.name);
    }
}

#[cfg(test)]
mod tests;
