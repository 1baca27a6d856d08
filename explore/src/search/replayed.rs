//! Runs a replay file: no references are taken, the file has what they taught.

use super::files::write_private;
use super::report_file::FailureText;
use super::{Baseline, SearchError, legality, log, secrets_of};
use crate::normalise::Normaliser;
use crate::oracle::Verdict;
use crate::pattern::TracedProgram;
use crate::replay::{Replay, ReplayReference};
use crate::run::{HeldRun, PreparedLab, RunLimits, RunRequest};
use crate::secrets::SecretValues;
use futures::future::BoxFuture;
use kstore_nondet::Clock;
use std::path::PathBuf;

/// Seconds around now in which numbers are times, as in searches.
const MONTH: i64 = 30 * 86_400;

/// How a replay file is run.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Runs.
    pub repeat: usize,
    /// Whether the cluster and the programs of the last run stay.
    pub is_held: bool,
    /// Whether values of Secrets are shown.
    pub shows_secrets: bool,
    /// Folder for the log of a run that is a defect of kstore.
    pub findings: PathBuf,
    /// Where the report file of the first run that fails is written; `None`: there is none.
    pub report: Option<PathBuf>,
}

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct ReplayOutcome {
    /// Runs that failed as the file says.
    pub failed: usize,
    /// Runs.
    pub runs: usize,
    /// Runs in which an action of the plan never happened.
    pub not_reached: usize,
    /// Verdicts of the last run.
    pub verdicts: Vec<Verdict>,
    /// What is wrong, as the file has it.
    pub summary: String,
    /// What explains the last run.
    pub explanation: Vec<String>,
    /// The ends of the programs' outputs in the last run.
    pub outputs: Vec<(String, String)>,
    /// The report file that was written, or why there is none; `None`: none is wanted, or no run failed.
    pub report: Option<Result<PathBuf, String>>,
    /// The last run, if it stays.
    pub held: Option<HeldRun>,
}

/// Runs a replay file `repeat` times.
///
/// # Errors
/// A run does not take place, or is a defect of kstore.
/// Boxed here, so that no crate above generates the code again.
pub fn replay<'a>(
    prepared: &'a PreparedLab,
    replay: &'a Replay,
    options: &'a ReplayOptions,
) -> BoxFuture<'a, Result<ReplayOutcome, SearchError>> {
    Box::pin(async move {
        let given = prepared.sources().given(prepared.scenario());
        let now = Clock::real().now().as_second();
        let normaliser = Normaliser::new(prepared.scenario(), &given)
            .with_window(now - MONTH, now + 12 * MONTH)
            .with_learned(replay.learned.clone());
        let references = ReplayReference::into_references(replay.references.clone());
        let records: Vec<_> = references.iter().map(|reference| reference.record.clone()).collect();
        let programs = prepared.programs().into_iter();
        let programs = programs.map(|name| TracedProgram { name, lists_from_cache: false }).collect();
        let baseline = Baseline { normaliser, limits: RunLimits::after(&records), references, programs };
        let mut outcome = ReplayOutcome {
            failed: 0,
            runs: 0,
            not_reached: 0,
            verdicts: Vec::new(),
            explanation: Vec::new(),
            outputs: Vec::new(),
            summary: String::new(),
            report: None,
            held: None,
        };
        let text = FailureText {
            scenario: &prepared.scenario().name,
            oracle: replay.expected.oracle,
            summary: &replay.expected.summary,
            lines: Vec::new(),
            plan: &replay.plan,
            version: &replay.kstore,
        };
        // The summary of a replay file has no values of Secrets.
        let text = text.report(&SecretValues::default());
        let repeat = options.repeat.max(1);
        for nth in 1..=repeat {
            let request = RunRequest {
                plan: (!replay.plan.actions.is_empty()).then_some(&replay.plan),
                seed: None,
                steps: replay.steps,
                is_restarted: false,
                is_held: options.is_held && nth == repeat,
                comparison: Some((&baseline.normaliser, &baseline.references)),
                limits: baseline.limits,
                report: options.report.as_ref().filter(|_| outcome.report.is_none()).map(|_| &text),
            };
            let mut run = prepared.run(&request).await?;
            let judgement = baseline.judge(prepared, &run.record);
            let expected = &replay.expected;
            let fails = judgement.verdicts.iter().any(|verdict| {
                verdict.oracle == expected.oracle && verdict.fingerprint == expected.fingerprint
            });
            let secrets = secrets_of(&run, options.shows_secrets);
            if fails && run.missed.is_none() {
                outcome.failed += 1;
                if let (Some(made), Some(path)) = (run.report.take(), &options.report) {
                    outcome.report = Some(match made {
                        Ok(report) => write_private(path, &report).map(|()| Ok(path.clone()))?,
                        Err(why) => Err(why),
                    });
                }
                legality::judge(&run, &options.findings, |run| log::text(run, &secrets))?;
            }
            outcome.runs += 1;
            outcome.not_reached += usize::from(run.missed.is_some());
            let explanation = &judgement.explanations[usize::from(replay.plan.ends_programs())];
            outcome.explanation = explanation.iter().map(|line| secrets.hide(line)).collect();
            outcome.summary = secrets.hide(&expected.summary);
            (outcome.verdicts, outcome.outputs, outcome.held) = (judgement.verdicts, run.outputs, run.held);
        }
        Ok(outcome)
    })
}
