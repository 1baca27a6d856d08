//! The report as JUnit XML: a suite per pattern, a case per plan.

use super::{CaseOutcome, Finding, PlanCase, Report, pattern_name};
use crate::pattern_id::PatternId;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) fn render(report: &Report) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string does not fail.
    let _ = suites(report, &mut text);
    text
}

fn suites(report: &Report, out: &mut String) -> std::fmt::Result {
    let mut by_pattern: BTreeMap<PatternId, Vec<&PlanCase>> = BTreeMap::new();
    for case in &report.cases {
        by_pattern.entry(case.pattern).or_default().push(case);
    }
    let without_fault: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.pattern.is_none()).collect();
    writeln!(out, "<testsuites name=\"{}\">", escaped(&report.scenario))?;
    for (pattern, cases) in by_pattern {
        let failures = cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::Failed(_))).count();
        let skipped = cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::NotReached(_))).count();
        let tests = cases.len();
        writeln!(
            out,
            "  <testsuite name=\"{pattern}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\">"
        )?;
        for case in cases {
            write_case(out, report, case)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    if !without_fault.is_empty() {
        let tests = without_fault.len();
        writeln!(
            out,
            "  <testsuite name=\"reference\" tests=\"{tests}\" failures=\"{tests}\" skipped=\"0\">"
        )?;
        for finding in without_fault {
            writeln!(
                out,
                "    <testcase classname=\"reference\" name=\"{}\">",
                escaped(finding.oracle.name())
            )?;
            write_failure(out, finding)?;
            writeln!(out, "    </testcase>")?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn write_case(out: &mut String, report: &Report, case: &PlanCase) -> std::fmt::Result {
    let (pattern, name) = (case.pattern, escaped(&case.title));
    match &case.outcome {
        CaseOutcome::Passed => writeln!(out, "    <testcase classname=\"{pattern}\" name=\"{name}\"/>"),
        CaseOutcome::NotReached(why) => writeln!(
            out,
            "    <testcase classname=\"{pattern}\" name=\"{name}\"><skipped message=\"not reached: {}\"/></testcase>",
            escaped(why)
        ),
        CaseOutcome::Failed(id) => {
            writeln!(out, "    <testcase classname=\"{pattern}\" name=\"{name}\">")?;
            match report.findings.iter().find(|finding| finding.id == *id) {
                Some(finding) => write_failure(out, finding)?,
                None => writeln!(out, "      <failure message=\"{}\"/>", escaped(id))?,
            }
            writeln!(out, "    </testcase>")
        }
    }
}

fn write_failure(out: &mut String, finding: &Finding) -> std::fmt::Result {
    let message = escaped(&finding.summary);
    let mut lines = vec![format!("{} {}", finding.id, pattern_name(finding.pattern))];
    lines.extend(finding.explanation.iter().cloned());
    lines.extend(finding.plan.iter().flat_map(|plan| plan.actions.iter().map(|action| action.line())));
    let files = finding.replay.iter().chain(&finding.log).chain(&finding.snapshot);
    lines.extend(files.map(|file| format!("file {file}")));
    let body = escaped(&lines.join("\n"));
    writeln!(out, "      <failure type=\"{}\" message=\"{message}\">{body}</failure>", finding.oracle)
}

/// A text with the characters that XML reserves as entities, and without those that it does not have.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            control if control.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}
