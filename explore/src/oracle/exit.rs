//! `exit`: a tested program ended by itself, in no reference. After an injected refusal it is none if the run recovers.

use super::{Evidence, OracleId, Verdict};
use crate::record::RunEnd;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let has_recovered = matches!(evidence.run.ended, RunEnd::Converged | RunEnd::Quiet);
    let known = |program: &str, code: i32| {
        let exits = evidence.references.iter().flat_map(|reference| &reference.record.exits);
        exits.into_iter().any(|exit| exit.program == program && exit.code == code)
    };
    let exits = evidence.run.exits.iter();
    let fresh = exits.filter(|exit| {
        let has_survived = exit.after_fault && has_recovered;
        !has_survived && !known(&exit.program, exit.code)
    });
    fresh
        .map(|exit| {
            let last = exit.output.lines().last().unwrap_or_default();
            let summary = format!("{} ended by itself with code {}: {last}", exit.program, exit.code);
            Verdict::new(OracleId::Exit, format!("{} {}", exit.program, exit.code), summary)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;
    use crate::record::{RecordedExit, RunRecord};

    #[test]
    fn a_program_that_ends_by_itself_is_a_bug_unless_it_recovers_from_a_refusal() {
        let with = |code: i32, after_fault: bool, ended: RunEnd| {
            let exit =
                RecordedExit { program: "op".to_owned(), code, output: "panic".to_owned(), after_fault };
            RunRecord { exits: vec![exit], ended, ..RunRecord::empty() }
        };
        let busy = || RunEnd::Busy(vec![]);
        let rows = [
            ("none", RunRecord::empty(), false),
            ("a panic", with(101, false, RunEnd::Converged), true),
            ("after a fault, recovered", with(1, true, RunEnd::Converged), false),
            ("after a fault, not recovered", with(1, true, busy()), true),
        ];
        table(judge, &RunRecord::empty(), &rows);
        let reference = with(1, false, RunEnd::Converged);
        let rows = [
            ("as the reference", reference.clone(), false),
            ("another code", with(2, false, RunEnd::Converged), true),
        ];
        table(judge, &reference, &rows);
    }
}
