//! `stuck`: a wait of a step ran out, or the run ended busy.

use super::{Evidence, OracleId, Verdict};
use crate::record::RunEnd;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    match &evidence.run.ended {
        // `hot-loop` tells of a loop.
        RunEnd::Converged | RunEnd::Quiet | RunEnd::Looping => Vec::new(),
        RunEnd::StepTimedOut { step, problem } => {
            vec![Verdict::new(
                OracleId::Stuck,
                format!("step {step}"),
                format!("step {step} waited in vain: {problem}"),
            )]
        }
        RunEnd::StepFailed { step, problem } => {
            vec![Verdict::new(
                OracleId::Stuck,
                format!("step {step}"),
                format!("step {step} failed: {problem}"),
            )]
        }
        RunEnd::Busy(reasons) => {
            let summary = format!("the run does not come to rest: {}", reasons.join("; "));
            vec![Verdict::new(OracleId::Stuck, "busy", summary)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;
    use crate::record::RunRecord;

    #[test]
    fn a_run_is_stuck_in_a_step_or_busy_at_its_end() {
        let ended = |ended: RunEnd| RunRecord { ended, ..RunRecord::empty() };
        let text = || "x".to_owned();
        let rows = [
            ("converged", ended(RunEnd::Converged), false),
            ("quiet", ended(RunEnd::Quiet), false),
            ("in a loop", ended(RunEnd::Looping), false),
            ("waits", ended(RunEnd::StepTimedOut { step: text(), problem: text() }), true),
            ("failed", ended(RunEnd::StepFailed { step: text(), problem: text() }), true),
            ("busy", ended(RunEnd::Busy(vec![text()])), true),
        ];
        table(judge, &RunRecord::empty(), &rows);
    }
}
