//! The report as text.

use super::{CaseOutcome, Finding, Report, pattern_name, seconds};
use crate::plan::PlannedAction;
use std::fmt::Write as _;

/// Most differences that are shown of one finding.
const DIFFERENCES: usize = 5;

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = body(report, &mut text);
    text
}

fn body(report: &Report, out: &mut String) -> std::fmt::Result {
    let count = report.references.len();
    let mean = report.references.iter().sum::<u64>().checked_div(count as u64).unwrap_or(0);
    let (requests, writes) = report.traffic;
    writeln!(
        out,
        "reference   {count} runs, {} each; {requests} requests, {writes} writes, {} volatile fields",
        seconds(mean),
        report.volatility.volatile
    )?;
    for warning in report.warnings() {
        writeln!(out, "WARNING     {warning}")?;
    }
    for list in &report.volatility.unordered {
        writeln!(
            out,
            "unordered   {list}: the order of its items differs between references, and is not compared"
        )?;
    }
    let made: Vec<String> =
        report.plans.made.iter().map(|(pattern, count)| format!("{pattern} {count}")).collect();
    let total: usize = report.plans.made.values().sum();
    writeln!(out, "plans       {total} after pruning: {}", made.join(", "))?;
    writeln!(
        out,
        "run         {} plans in {}, {} of them not reached",
        report.plans.run,
        seconds(report.took),
        report.plans.not_reached
    )?;
    for finding in &report.findings {
        write_finding(out, "FAILED", report, finding)?;
    }
    for finding in &report.suspicions {
        write_finding(out, "SUSPICION", report, finding)?;
    }
    for finding in &report.unsteady {
        write_finding(out, "UNSTEADY", report, finding)?;
    }
    let missed = report.cases.iter().filter_map(|case| match &case.outcome {
        CaseOutcome::NotReached(why) => Some((&case.title, why)),
        CaseOutcome::Passed | CaseOutcome::Failed(_) => None,
    });
    for (nth, (title, why)) in missed.enumerate() {
        if nth == 0 {
            writeln!(out, "not reached")?;
        }
        writeln!(out, "  {title}: {why}")?;
    }
    for (nth, ((verb, resource), patterns)) in report.coverage().into_iter().enumerate() {
        if nth == 0 {
            writeln!(out, "coverage")?;
        }
        let patterns: Vec<String> =
            patterns.iter().map(|(pattern, count)| format!("{pattern} {count}")).collect();
        writeln!(out, "  {verb} {resource}: {}", patterns.join(", "))?;
    }
    let pruned = &report.plans.pruned;
    writeln!(
        out,
        "pruned      {} writes that changed nothing, {} ignored, {} of a known shape, {} not in every reference, {} equal plans",
        pruned.unchanged, pruned.ignored, pruned.repeated, pruned.unsteady, pruned.equal
    )?;
    match report.findings.len() {
        0 => writeln!(out, "nothing found"),
        1 => writeln!(out, "1 finding"),
        count => writeln!(out, "{count} findings"),
    }
}

fn write_finding(out: &mut String, label: &str, report: &Report, finding: &Finding) -> std::fmt::Result {
    let (fails, runs) = finding.fails;
    let control = match finding.control {
        Some(true) => ", passes without the fault",
        Some(false) => ", fails without the fault, too",
        None => "",
    };
    writeln!(
        out,
        "{label}      {}  {}  {}  found after {}, fails {fails} of {runs}{control}",
        finding.id,
        pattern_name(finding.pattern),
        finding.oracle,
        seconds(finding.found_after)
    )?;
    writeln!(out, "  {}", finding.summary)?;
    for difference in finding.differences.iter().take(DIFFERENCES) {
        writeln!(out, "  {difference}")?;
    }
    if finding.differences.len() > DIFFERENCES {
        writeln!(out, "  … and {} more differences", finding.differences.len() - DIFFERENCES)?;
    }
    for line in &finding.explanation {
        writeln!(out, "  {line}")?;
    }
    let actions = finding.plan.iter().flat_map(|plan| &plan.actions);
    for (nth, line) in actions.map(PlannedAction::line).enumerate() {
        writeln!(out, "  {}. {line}", nth + 1)?;
    }
    if let Some(replay) = &finding.replay {
        writeln!(
            out,
            "  again: {} --replay {replay} {} -- {}",
            report.program,
            report.path,
            report.command.join(" ")
        )?;
    }
    let files = finding.report.iter().chain(&finding.log).chain(&finding.snapshot);
    let files: Vec<&str> = files.map(String::as_str).collect();
    if !files.is_empty() {
        writeln!(out, "  files: {}", files.join(", "))?;
    }
    Ok(())
}
