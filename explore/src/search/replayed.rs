//! Runs a replay file: no references are taken, the file has what they taught.

use super::{Baseline, SearchError};
use crate::normalise::Normaliser;
use crate::oracle::Verdict;
use crate::pattern::TracedProgram;
use crate::replay::{Replay, ReplayReference};
use crate::run::{PreparedLab, RunLimits, RunRequest};
use kstore_nondet::Clock;

/// Seconds around now in which numbers are times, as in searches.
const MONTH: i64 = 30 * 86_400;

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
    /// What explains the last run.
    pub explanation: Vec<String>,
    /// The ends of the programs' outputs in the last run.
    pub outputs: Vec<(String, String)>,
}

/// Runs a replay file `repeat` times.
///
/// # Errors
/// A run does not take place.
pub async fn replay(
    prepared: &PreparedLab,
    replay: &Replay,
    repeat: usize,
) -> Result<ReplayOutcome, SearchError> {
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
    };
    for _ in 0..repeat.max(1) {
        let request = RunRequest {
            plan: (!replay.plan.actions.is_empty()).then_some(&replay.plan),
            seed: None,
            steps: replay.steps,
            is_restarted: false,
            comparison: Some((&baseline.normaliser, &baseline.references)),
            limits: baseline.limits,
        };
        let run = prepared.run(&request).await?;
        let judgement = baseline.judge(prepared, &run.record);
        let expected = &replay.expected;
        let fails = judgement
            .verdicts
            .iter()
            .any(|verdict| verdict.oracle == expected.oracle && verdict.fingerprint == expected.fingerprint);
        outcome.runs += 1;
        outcome.failed += usize::from(fails && run.missed.is_none());
        outcome.not_reached += usize::from(run.missed.is_some());
        outcome.explanation = judgement.explanations[usize::from(replay.plan.ends_programs())].clone();
        (outcome.verdicts, outcome.outputs) = (judgement.verdicts, run.outputs);
    }
    Ok(outcome)
}
