//! `regress`: of one UID `status.observedGeneration` decreases or exceeds the generation, or a terminal phase changes.

use super::{Evidence, OracleId, Verdict};
use crate::record::RecordedWrite;
use serde_json::Value;
use std::collections::BTreeMap;

/// Phases after which there is none.
const TERMINAL: [&str; 4] = ["Succeeded", "Failed", "Completed", "Complete"];

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut verdicts: Vec<Verdict> = Vec::new();
    for write in &evidence.run.writes {
        let Some(after) = &write.after else { continue };
        let is_judged =
            evidence.is_program(&write.client) && !evidence.scenario.ignores_client(&write.client);
        let before = last.insert(write.uid(), after).or(write.before.as_ref());
        let Some(problem) = is_judged.then(|| problem(before, after)).flatten() else { continue };
        let verdict = verdict(evidence, write, &problem);
        if !verdicts.iter().any(|known| known.fingerprint == verdict.fingerprint) {
            verdicts.push(verdict);
        }
    }
    verdicts
}

fn verdict(evidence: &Evidence<'_>, write: &RecordedWrite, problem: &str) -> Verdict {
    let kind = problem.split(' ').next().unwrap_or_default();
    let summary = format!("{} wrote {} at revision {}: {problem}", write.client, write.key, write.revision);
    Verdict::new(OracleId::Regress, format!("{} {kind}", evidence.slot(write)), summary).at(write.revision)
}

fn problem(before: Option<&Value>, after: &Value) -> Option<String> {
    let observed = |object: &Value| object["status"]["observedGeneration"].as_i64();
    let new = observed(after);
    if let (Some(observed), Some(generation)) = (new, after["metadata"]["generation"].as_i64())
        && observed > generation
    {
        return Some(format!("observedGeneration {observed} exceeds the generation {generation}"));
    }
    let before = before?;
    if let (Some(old), Some(new)) = (observed(before), new)
        && new < old
    {
        return Some(format!("observedGeneration went from {old} down to {new}"));
    }
    let phase = |object: &Value| object["status"]["phase"].as_str().map(str::to_owned);
    let old = phase(before).filter(|phase| TERMINAL.contains(&phase.as_str()))?;
    let new = phase(after).filter(|new| *new != old)?;
    Some(format!("phase {old} is terminal, and became {new}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, table, write};
    use super::*;
    use crate::record::RunRecord;
    use serde_json::json;

    #[test]
    fn observed_generations_and_terminal_phases_do_not_go_back() {
        let status = |revision: i64, client: &str, generation: i64, status: Value| {
            let mut write = write(revision, client, "things.example.com/default/a", json!({}), json!({}));
            let after = write.after.as_mut().unwrap();
            after["status"] = status;
            after["metadata"]["generation"] = json!(generation);
            write
        };
        let two =
            |client: &str, a: Value, b: Value| run(vec![status(1, client, 3, a), status(2, client, 3, b)]);
        let observed = |generation: i64| json!({"observedGeneration": generation});
        let phase = |phase: &str| json!({ "phase": phase });
        let rows = [
            ("up", two("op", observed(1), observed(2)), false),
            ("down", two("op", observed(2), observed(1)), true),
            ("beyond", run(vec![status(1, "op", 3, observed(4))]), true),
            ("by another client", two("other", observed(2), observed(1)), false),
            ("phase", two("op", phase("Running"), phase("Succeeded")), false),
            ("terminal", two("op", phase("Succeeded"), phase("Running")), true),
        ];
        table(judge, &RunRecord::empty(), &rows);
    }
}
