//! `late`: the run converged, but only after several times the patience.

use super::{Evidence, OracleId, Verdict};
use crate::record::RunEnd;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    match evidence.run.is_late && evidence.run.ended == RunEnd::Converged {
        true => vec![Verdict::new(
            OracleId::Late,
            "late",
            "the run converged only after several times the patience",
        )],
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;
    use crate::record::RunRecord;

    #[test]
    fn a_run_that_converges_late_is_a_suspicion() {
        let with = |is_late: bool, ended: RunEnd| RunRecord { is_late, ended, ..RunRecord::empty() };
        let rows = [
            ("in time", with(false, RunEnd::Converged), false),
            ("late", with(true, RunEnd::Converged), true),
            ("never", with(true, RunEnd::Quiet), false),
        ];
        table(judge, &RunRecord::empty(), &rows);
    }
}
