//! `stuck`: a wait of a step ran out, or the run ended busy with something else than a loop.

use super::{Evidence, OracleId, Verdict, hot_loop};
use crate::record::RunEnd;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    match &evidence.run.ended {
        // `hot-loop` reports a loop.
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
        // On a slow machine a loop may take too long for the number of writes by which a run ends as one.
        RunEnd::Busy(_) if !hot_loop::judge(evidence).is_empty() => Vec::new(),
        RunEnd::Busy(reasons) => {
            let summary = format!("the run does not come to rest: {}", reasons.join("; "));
            vec![Verdict::new(OracleId::Stuck, "busy", summary)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, table, write};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    #[test]
    fn a_run_is_stuck_in_a_step_or_busy_at_its_end() {
        let ended = |ended: RunEnd| RunRecord { ended, ..RunRecord::empty() };
        let text = || "x".to_owned();
        let step = |nth: i64| {
            write(nth, "op", "configmaps/default/a", json!({"v": nth % 2}), json!({"v": (nth + 1) % 2}))
        };
        let looping = RunRecord { ended: RunEnd::Busy(vec![text()]), ..run((1..9).map(step).collect()) };
        let rows = [
            ("converged", ended(RunEnd::Converged), false),
            ("quiet", ended(RunEnd::Quiet), false),
            ("in a loop", ended(RunEnd::Looping), false),
            ("waits", ended(RunEnd::StepTimedOut { step: text(), problem: text() }), true),
            ("failed", ended(RunEnd::StepFailed { step: text(), problem: text() }), true),
            ("busy", ended(RunEnd::Busy(vec![text()])), true),
            ("busy with a loop, which `hot-loop` tells", looping, false),
        ];
        table(judge, &RunRecord::empty(), &rows);
    }
}
