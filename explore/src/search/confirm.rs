//! Confirmation and shrinking of a failing plan.

use super::found::Confirmation;
use super::{Judgement, Search, SearchError};
use crate::limits;
use crate::oracle::{Severity, Verdict};
use crate::plan::Plan;
use crate::report::Finding;
use crate::run::RunOutcome;
use crate::shrink::{Candidate, Shrinker};
use kstore_nondet::Clock;
use std::time::Duration;

/// Real time for the shrinking of one finding.
const SHRINK: Duration = Duration::from_secs(120);

impl Search<'_> {
    /// Runs a failing plan again, and its control, and makes the plan smaller. Returns whether the failure is steady. Nothing begins after
    /// the end of the budget but the control: what is not confirmed by then is unsteady.
    pub(super) async fn confirm(
        &self,
        plan: &Plan,
        verdict: &Verdict,
        (outcome, judgement): (&RunOutcome, &Judgement),
    ) -> Result<(Finding, bool), SearchError> {
        let found_after = u64::try_from(self.elapsed().as_millis()).unwrap_or(0);
        self.progress.change(|progress| progress.shrinking = Some(verdict.oracle.to_string()));
        let mut confirmation = Confirmation::new(limits::CONFIRMATIONS);
        while confirmation.is_open() && !self.is_spent() {
            confirmation.report(self.fails_like(plan, self.steps(), verdict).await?);
        }
        let is_steady = confirmation.is_steady();
        let id = self.next_id(if is_steady { "s" } else { "u" });
        let explanation = judgement.explanations[usize::from(plan.ends_programs())].clone();
        let secrets = super::secrets_of(outcome, self.options.shows_secrets);
        let mut finding = Finding {
            id,
            pattern: Some(plan.pattern),
            plan: Some(plan.clone()),
            fails: confirmation.fails(),
            explanation: explanation.iter().map(|line| secrets.hide(line)).collect(),
            cause: judgement.cause.clone(),
            ..Finding::of(verdict, &secrets, found_after)
        };
        if confirmation.is_open() {
            finding.explanation.push("the budget ended before it was confirmed".to_owned());
        }
        if is_steady {
            // Without a control the references are one: they do not fail so.
            finding.control = Some(match plan.control() {
                Some(control) => !self.fails_like(&control, self.steps(), verdict).await?,
                None => true,
            });
            if finding.control == Some(false) {
                finding.pattern = None;
                if plan.changes_input() && !verdict.oracle.needs_no_reference() {
                    // At quiet moments the user led to it now, and not in the run before: no reference does the same.
                    finding.severity = Severity::Suspicion;
                    finding.explanation.push("what the user does leads to it without haste, too".to_owned());
                }
            }
            let whole = Candidate { plan: plan.clone(), steps: self.steps() };
            let Candidate { plan, steps } = match finding.severity {
                Severity::Bug => self.shrink(plan, verdict).await?,
                // A suspicion is not worth the runs.
                Severity::Suspicion | Severity::Note => whole,
            };
            finding.plan = Some(plan.clone());
            finding = self.write_files(finding, (Some(&plan), steps), outcome).await?;
            finding = Box::pin(self.with_report(finding, (&plan, steps), verdict, outcome)).await?;
        }
        self.progress.change(|progress| progress.shrinking = None);
        Ok((finding, is_steady))
    }

    /// Whether a run of a plan fails with the same oracle and the same difference.
    async fn fails_like(&self, plan: &Plan, steps: usize, verdict: &Verdict) -> Result<bool, SearchError> {
        let (outcome, judgement) = self.outcome(plan, steps).await?;
        Ok(outcome.missed.is_none() && judgement.fails_like(verdict))
    }

    async fn shrink(&self, plan: &Plan, verdict: &Verdict) -> Result<Candidate, SearchError> {
        let begin = Clock::real().now();
        let is_over = || {
            let passed = Duration::try_from(Clock::real().now().duration_since(begin)).unwrap_or_default();
            passed >= SHRINK || self.is_spent()
        };
        let mut shrinker = Shrinker::new(plan.clone(), self.steps());
        while !is_over() {
            let Some(candidate) = shrinker.propose() else { break };
            let mut fails = true;
            for _ in 0..limits::SHRINK_REPEATS {
                fails = fails
                    && !self.is_spent()
                    && self.fails_like(&candidate.plan, candidate.steps, verdict).await?;
            }
            shrinker.report(fails);
        }
        Ok(shrinker.best().clone())
    }
}
