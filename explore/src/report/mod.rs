//! Reports of a search, as text, JSON, JUnit and SARIF. Pure.

mod json;
mod junit;
mod sarif;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use crate::explain::Cause;
use crate::normalise::{Difference, Volatility};
use crate::oracle::{OracleId, Severity, Verdict};
use crate::pattern_id::PatternId;
use crate::plan::{Plan, Subject};
use crate::prune::PrunedCounts;
use crate::secrets::SecretValues;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a search did and found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// Path of its file.
    pub path: String,
    /// The program and its command that searched, for the line that runs a finding again.
    pub program: String,
    /// Version of kstore.
    pub version: String,
    /// First seed.
    pub seed: u64,
    /// Command of the operator.
    pub command: Vec<String>,
    /// Milliseconds that each reference took.
    pub references: Vec<u64>,
    /// Requests and writes of programs in a reference.
    pub traffic: (usize, usize),
    /// What of the end state is not compared, because references differ in it.
    pub volatility: Volatility,
    /// Plans.
    pub plans: PlanCounts,
    /// Findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    /// Failures that did not fail again each time.
    pub unsteady: Vec<Finding>,
    /// What may be a bug.
    pub suspicions: Vec<Finding>,
    /// Each plan that ran, with what came of it.
    pub cases: Vec<PlanCase>,
    /// Milliseconds of real time.
    pub took: u64,
}

/// Numbers of plans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanCounts {
    /// Plans that were made, by pattern.
    pub made: BTreeMap<PatternId, usize>,
    /// What was pruned, by rule.
    pub pruned: PrunedCounts,
    /// Plans that ran.
    pub run: usize,
    /// Plans with an action that never fired: they give no verdict.
    pub not_reached: usize,
}

impl PlanCounts {
    /// Counts plans that were made.
    pub fn count_made(&mut self, plans: &[Plan]) {
        for plan in plans {
            *self.made.entry(plan.pattern).or_default() += 1;
        }
    }
}

/// A plan that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCase {
    /// Pattern.
    pub pattern: PatternId,
    /// What the plan perturbs.
    pub subject: Subject,
    /// The plan in a line.
    pub title: String,
    /// What came of it.
    pub outcome: CaseOutcome,
}

/// What came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The run ended as the references.
    Passed,
    /// An action never happened: which, and why.
    NotReached(String),
    /// The run failed: identifier of the finding.
    Failed(String),
}

/// A finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Identifier, which is also the name of its files: `s-3`.
    pub id: String,
    /// Pattern; `None`: without a fault.
    pub pattern: Option<PatternId>,
    /// Oracle.
    pub oracle: OracleId,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong.
    pub summary: String,
    /// What of it is the same in each run that fails likewise.
    pub fingerprint: String,
    /// The shrunk plan.
    pub plan: Option<Plan>,
    /// How many of the confirming runs failed likewise.
    pub fails: (usize, usize),
    /// Whether the run passes with each action neutralised; `None`: there was no such run.
    pub control: Option<bool>,
    /// The differences of the end state.
    pub differences: Vec<Difference>,
    /// The stale read that explains it, or the intermediate state of a crash.
    pub explanation: Vec<String>,
    /// The write with which the run leaves its references.
    pub cause: Cause,
    /// Replay file.
    pub replay: Option<String>,
    /// Snapshot file of the prepared cluster.
    pub snapshot: Option<String>,
    /// Log of the run.
    pub log: Option<String>,
    /// Report file of another run that failed so: an HTML file with the page of its cluster.
    pub report: Option<String>,
    /// Milliseconds after the begin of the search.
    pub found_after: u64,
}

impl Finding {
    /// A finding of a run without a plan, without files, and without values of Secrets. It has no identifier.
    pub(crate) fn of(verdict: &Verdict, secrets: &SecretValues, found_after: u64) -> Self {
        let hidden = |difference| secrets.hide_difference(difference);
        Self {
            id: String::new(),
            pattern: None,
            oracle: verdict.oracle,
            severity: verdict.severity,
            summary: secrets.hide_in(&verdict.summary, &verdict.differences),
            fingerprint: verdict.fingerprint.clone(),
            plan: None,
            fails: (1, 1),
            control: None,
            differences: verdict.differences.iter().map(hidden).collect(),
            explanation: Vec::new(),
            cause: Cause::default(),
            replay: None,
            snapshot: None,
            log: None,
            report: None,
            found_after,
        }
    }

    /// Whether another finding is of the same oracle with the same difference.
    pub(crate) fn is_likewise(&self, other: &Self) -> bool {
        (self.oracle, &self.fingerprint) == (other.oracle, &other.fingerprint)
    }
}

/// A form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportForm {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For CI.
    Junit,
    /// For code scanners.
    Sarif,
}

impl ReportForm {
    /// The form of a name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "json" => Self::Json,
            "junit" => Self::Junit,
            "sarif" => Self::Sarif,
            _ => return None,
        })
    }
}

impl Report {
    /// The report in a form.
    pub fn render(&self, form: ReportForm) -> String {
        match form {
            ReportForm::Text => text::render(self),
            ReportForm::Json => json::render(self),
            ReportForm::Junit => junit::render(self),
            ReportForm::Sarif => sarif::render(self),
        }
    }

    /// What limits the search, in sentences.
    fn warnings(&self) -> Vec<String> {
        let Volatility { paths, volatile, .. } = self.volatility;
        let warning = || {
            format!(
                "{volatile} of {paths} values of the end state differ between references, and are not compared: \
                 a bug that shows only there is not found"
            )
        };
        self.volatility.is_high().then(warning).into_iter().collect()
    }

    /// Patterns that were tried on each kind of request or event, by verb and resource. Plans that were not reached do not count.
    fn coverage(&self) -> BTreeMap<(&str, &str), BTreeMap<PatternId, usize>> {
        let mut coverage: BTreeMap<(&str, &str), BTreeMap<PatternId, usize>> = BTreeMap::new();
        for case in self.cases.iter().filter(|case| !matches!(case.outcome, CaseOutcome::NotReached(_))) {
            let shape = (case.subject.verb.as_str(), case.subject.resource.as_str());
            *coverage.entry(shape).or_default().entry(case.pattern).or_default() += 1;
        }
        coverage
    }

    /// Whether the search failed: bugs, or with `is_strict` suspicions.
    pub fn has_failed(&self, is_strict: bool) -> bool {
        !self.findings.is_empty() || (is_strict && !self.suspicions.is_empty())
    }
}

/// Milliseconds as seconds, `1.4 s`.
fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

/// What a finding's pattern is called.
fn pattern_name(pattern: Option<PatternId>) -> &'static str {
    pattern.map_or("without a fault", PatternId::name)
}
