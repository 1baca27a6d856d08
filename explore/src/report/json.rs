//! The report as JSON.

use super::{Finding, Report};
use crate::pattern_id::PatternId;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn render(report: &Report) -> String {
    let findings = |all: &[Finding]| all.iter().map(finding).collect::<Vec<_>>();
    let mut coverage: BTreeMap<PatternId, usize> = BTreeMap::new();
    for (pattern, count) in report.coverage().into_values().flatten() {
        *coverage.entry(pattern).or_default() += count;
    }
    let value = json!({
        "scenario": report.scenario,
        "version": report.version,
        "seed": report.seed,
        "command": report.command,
        "references": report.references,
        "volatile": report.volatility.volatile,
        "unordered": report.volatility.unordered,
        "warnings": report.warnings(),
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
        "write": finding.cause.write,
        "basis": finding.cause.basis,
        "explanation": finding.explanation,
        "replay": finding.replay,
        "snapshot": finding.snapshot,
        "log": finding.log,
        "report": finding.report,
        "foundAfter": finding.found_after,
    })
}
