//! The report as SARIF 2.1.0: a rule per oracle, a result per finding.

use super::{Finding, Report};
use crate::oracle::{OracleId, Severity};
use serde_json::{Value, json};

/// Schema of the form.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(super) fn render(report: &Report) -> String {
    let rules: Vec<Value> = OracleId::ALL
        .iter()
        .map(|oracle| {
            json!({
                "id": oracle.name(),
                "shortDescription": {"text": oracle.summary()},
                "defaultConfiguration": {"level": level(oracle.severity())},
            })
        })
        .collect();
    let all = report.findings.iter().chain(&report.suspicions);
    let results: Vec<Value> = all.map(|finding| result(report, finding)).collect();
    let value = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "kstore explore", "version": report.version, "rules": rules}},
            "results": results,
        }],
    });
    format!("{value:#}\n")
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Bug => "error",
        Severity::Suspicion => "warning",
        Severity::Note => "note",
    }
}

fn result(report: &Report, finding: &Finding) -> Value {
    let mut locations = vec![json!({"name": report.command.first(), "kind": "module"})];
    if let Some(difference) = finding.differences.first() {
        locations.push(json!({"fullyQualifiedName": difference.slot, "kind": "resource"}));
    }
    let mut result = json!({
        "ruleId": finding.oracle.name(),
        "level": level(finding.severity),
        "message": {"text": finding.summary},
        "locations": [{
            "physicalLocation": {"artifactLocation": {"uri": report.path}},
            "logicalLocations": locations,
        }],
        "partialFingerprints": {"explore/v1": finding.fingerprint},
    });
    let files = [
        ("replay file", &finding.replay),
        ("log of the run", &finding.log),
        ("snapshot file", &finding.snapshot),
    ];
    let files = files.into_iter().filter_map(|(what, path)| Some((what, path.as_ref()?)));
    let attachments: Vec<Value> = files
        .map(|(what, path)| json!({"description": {"text": what}, "artifactLocation": {"uri": path}}))
        .collect();
    if !attachments.is_empty() {
        result["attachments"] = attachments.into();
    }
    result
}
