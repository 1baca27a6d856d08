//! The report as JSON.

use super::{CaseOutcome, Finding, Report};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn render(report: &Report) -> String {
    let findings = |all: &[Finding]| all.iter().map(finding).collect::<Vec<_>>();
    let mut coverage: BTreeMap<&str, usize> = BTreeMap::new();
    for case in report.cases.iter().filter(|case| !matches!(case.outcome, CaseOutcome::NotReached(_))) {
        *coverage.entry(case.pattern.name()).or_default() += 1;
    }
    let value = json!({
        "scenario": report.scenario,
        "version": report.version,
        "seed": report.seed,
        "command": report.command,
        "references": report.references,
        "plans": report.plans,
        "findings": findings(&report.findings),
        "suspicions": findings(&report.suspicions),
        "unsteady": findings(&report.unsteady),
        "coverage": coverage,
        "took": report.took,
    });
    format!("{value:#}\n")
}

fn finding(finding: &Finding) -> Value {
    json!({
        "id": finding.id,
        "pattern": finding.pattern,
        "oracle": finding.oracle,
        "severity": finding.severity,
        "summary": finding.summary,
        "actions": finding.plan.as_ref().map(|plan| &plan.actions),
        "fails": finding.fails.0,
        "runs": finding.fails.1,
        "control": finding.control,
        "difference": finding.differences,
        "basis": finding.explanation,
        "replay": finding.replay,
        "snapshot": finding.snapshot,
        "log": finding.log,
        "report": finding.report,
        "foundAfter": finding.found_after,
    })
}
