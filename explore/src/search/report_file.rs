//! Report files of findings: one more run that fails so, as an HTML file with the page of kstore and what happened in the run's cluster.

use super::files::write_private;
use super::{Search, SearchError};
use crate::limits;
use crate::oracle::{OracleId, Severity, Verdict};
use crate::plan::{Plan, PlannedAction};
use crate::report::Finding;
use crate::run::RunOutcome;
use crate::secrets::SecretValues;
use kstore_lab::ReportText;
use std::path::{Path, PathBuf};

/// What a report file says about the failure of a run.
pub(super) struct FailureText<'f> {
    /// Name of the scenario.
    pub(super) scenario: &'f str,
    pub(super) oracle: OracleId,
    pub(super) summary: &'f str,
    /// Differences of the end state and what explains them, a line each.
    pub(super) lines: Vec<String>,
    /// The plan of the run; without actions nothing was perturbed.
    pub(super) plan: &'f Plan,
    /// Version of kstore.
    pub(super) version: &'f str,
}

impl FailureText<'_> {
    /// The texts of the file. A report leaves the machine, so that values of Secrets are hidden in any case.
    pub(super) fn report(&self, secrets: &SecretValues) -> ReportText {
        let mut lines = vec![format!("{}: {}", self.oracle, self.summary)];
        lines.extend(self.lines.iter().map(|line| format!("  {line}")));
        let actions = self.plan.actions.iter().map(PlannedAction::line).enumerate();
        match self.plan.actions.is_empty() {
            true => lines.push("the plan: nothing was perturbed".to_owned()),
            false => lines.push(format!("the plan, {}:", self.plan.pattern)),
        }
        lines.extend(actions.map(|(nth, line)| format!("  {}. {line}", nth + 1)));
        ReportText {
            title: format!("explore {}: {}", self.scenario, self.oracle),
            failure: secrets.hide(&lines.join("\n")),
            version: self.version.to_owned(),
            ..ReportText::default()
        }
    }
}

/// The path of a further finding: the identifier is before the ending.
fn path_of(file: &Path, id: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    match file.extension() {
        Some(ending) => file.with_file_name(format!("{stem}-{id}.{}", ending.to_string_lossy())),
        None => file.with_file_name(format!("{stem}-{id}")),
    }
}

impl Search<'_> {
    /// Runs the plan of a finding until a run fails likewise, and writes the report file of its cluster, if reports are wanted. The first
    /// bug has the file that was named; the names of others have their identifiers.
    pub(super) async fn with_report(
        &self,
        mut finding: Finding,
        (plan, steps): (&Plan, usize),
        verdict: &Verdict,
        failed: &RunOutcome,
    ) -> Result<Finding, SearchError> {
        let Some(file) = &self.options.report else { return Ok(finding) };
        let differences = finding.differences.iter().map(ToString::to_string);
        let text = FailureText {
            scenario: &self.prepared.scenario().name,
            oracle: finding.oracle,
            summary: &finding.summary,
            lines: differences.chain(finding.explanation.iter().cloned()).collect(),
            plan,
            version: &self.files.version,
        };
        let text = text.report(&SecretValues::of_record(&failed.record));
        let mut why = "no run for it failed likewise".to_owned();
        for nth in 0..limits::REPORT_RUNS {
            // As the control, the first run is taken also after the end of the budget.
            if nth > 0 && self.is_spent() {
                break;
            }
            let (outcome, judgement) = match self.outcome_with_report(plan, steps, Some(&text)).await {
                // What was found is kept.
                Err(SearchError::Stopped) => return Ok(finding),
                taken => taken?,
            };
            if outcome.missed.is_some() || !judgement.fails_like(verdict) {
                continue;
            }
            match outcome.report {
                Some(Ok(report)) => {
                    let path = self.report_path(file, &finding);
                    write_private(&path, &report)?;
                    finding.report = Some(path.display().to_string());
                    return Ok(finding);
                }
                Some(Err(error)) => why = error,
                None => {}
            }
        }
        finding.explanation.push(format!("there is no report file: {why}"));
        Ok(finding)
    }

    fn report_path(&self, file: &Path, finding: &Finding) -> PathBuf {
        let mut state = self.state.lock();
        match finding.severity == Severity::Bug && !state.has_report {
            true => {
                state.has_report = true;
                file.to_owned()
            }
            false => path_of(file, &finding.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tests::replay;
    use serde_json::json;

    #[test]
    fn further_findings_have_their_identifier_in_the_name() {
        let of = |file: &str| path_of(Path::new(file), "s-2").display().to_string();
        assert_eq!(
            [of("a.html"), of("out/b.c.html"), of("report")],
            ["a-s-2.html", "out/b.c-s-2.html", "report-s-2"]
        );
    }

    #[test]
    fn a_report_says_what_failed_and_the_plan_and_no_value_of_a_secret() {
        let plan = replay().plan;
        let text = FailureText {
            scenario: "backup",
            oracle: OracleId::EndState,
            summary: "the password is hunter2-of-jane",
            lines: vec!["it had done create configmaps/default/a".to_owned()],
            plan: &plan,
            version: "0.1.0",
        };
        let secret = json!({"metadata": {"name": "s", "namespace": "default"}, "stringData": {"a": "hunter2-of-jane"}});
        let made = text.report(&SecretValues::of([("secrets", &secret)]));
        assert!(made.title.contains("backup") && made.title.contains("end-state"), "{}", made.title);
        let (first, action) = (format!("the plan, {}:", plan.pattern), plan.actions[0].line());
        for part in ["the password is", "it had done create", &first, &format!("  1. {action}")] {
            assert!(made.failure.contains(part), "{part}: {}", made.failure);
        }
        assert!(!made.failure.contains("hunter2"), "{}", made.failure);
        let quiet = Plan { actions: Vec::new(), ..plan.clone() };
        let made = FailureText { plan: &quiet, ..text }.report(&SecretValues::default());
        assert!(made.failure.contains("nothing was perturbed"), "{}", made.failure);
    }
}
