//! `destructive-surplus`: up to a step a tested program deleted, or caused the deletion of, an object of a slot more often than in any
//! reference, and so more deletions of the slot took place than in any. A deletion that comes later than in the references is none, nor is
//! one that comes earlier without an input of the user in between, or whose writer named other causes in the references.

use super::{Evidence, OracleId, Reference, Severity, Verdict};
use crate::record::{Effect, RecordedStep, RecordedWrite, RunRecord};
use std::collections::BTreeMap;

/// Kinds that are made again from others without a loss; a surplus deletion of them is a suspicion only.
const REPLACEABLE: [&str; 8] = [
    "pods",
    "configmaps",
    "services",
    "events",
    "jobs.batch",
    "replicasets.apps",
    "deployments.apps",
    "poddisruptionbudgets.policy",
];

/// Numbers of deletions by step and slot.
type Counts = BTreeMap<(usize, String), usize>;

pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let of_reference = |reference: &Reference| counts(evidence, &reference.record);
    let known: Vec<(Counts, Counts)> = evidence.references.iter().map(of_reference).collect();
    let (own, all) = counts(evidence, evidence.run);
    let mut verdicts = Vec::new();
    for (step, slot) in own.keys() {
        let (count, total) = (up_to(&own, *step, slot), up_to(&all, *step, slot));
        let most = known.iter().map(|(own, _)| up_to(own, *step, slot)).max().unwrap_or(0);
        let most_of_all = known.iter().map(|(_, all)| up_to(all, *step, slot)).max().unwrap_or(0);
        if count <= most || total <= most_of_all {
            continue;
        }
        let deletions = deletions(evidence, evidence.run).into_iter();
        let mut own = deletions.filter_map(|(write, by)| Some((write, by?)));
        let Some((write, by)) =
            own.find(|(write, _)| input_of(evidence.run, write) == *step && evidence.slot(write) == *slot)
        else {
            continue;
        };
        let step_name = match step.checked_sub(1).and_then(|step| evidence.run.steps.get(step)) {
            Some(step) => format!("up to {} and after it", step.name),
            None => "before the first step".to_owned(),
        };
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let summary = format!(
            "{by} deleted {} at revision {} (uid {}): {times} {step_name}, and {most} times in a reference",
            write.key,
            write.revision,
            write.uid()
        );
        let verdict = Verdict::new(OracleId::DestructiveSurplus, slot.clone(), summary).at(write.revision);
        let is_replaceable = REPLACEABLE.contains(&write.key.resource.as_str());
        verdicts.push(if is_replaceable { verdict.with_severity(Severity::Suspicion) } else { verdict });
    }
    verdicts
}

/// Deletions, each with the tested program that did or caused it.
fn deletions<'r>(evidence: &Evidence<'_>, run: &'r RunRecord) -> Vec<(&'r RecordedWrite, Option<String>)> {
    let programs: Vec<&str> = evidence.programs.iter().map(String::as_str).collect();
    let deleted = run.writes.iter().filter(|write| {
        write.effect == Effect::Deleted
            && !evidence.scenario.ignores_resource(&write.key.resource)
            && !evidence.scenario.ignores_client(&write.client)
            && !evidence.scenario.is_fungible(&write.key.resource, write.object())
    });
    let caused = |write: &'r RecordedWrite| {
        if evidence.is_program(&write.client) {
            return (write, Some(write.client.clone()));
        }
        let cause = run.caused_by(write, &programs);
        (write, cause.map(|cause| format!("{}, through {},", cause.client, write.client)))
    };
    deleted.map(caused).collect()
}

/// Verbs of steps in which the user does nothing but let time pass, which a jump of the clock also does.
const WAITING: [&str; 3] = ["settle", "wait", "advance"];

/// The newest step up to a write in which the user did something, counted from 1; 0: none.
fn input_of(run: &RunRecord, write: &RecordedWrite) -> usize {
    let steps = &run.steps[..run.step_of(write.revision)];
    let is_input =
        |step: &RecordedStep| step.name.rsplit_once('-').is_none_or(|(verb, _)| !WAITING.contains(&verb));
    steps.iter().rposition(is_input).map_or(0, |at| at + 1)
}

/// Deletions that tested programs did or caused, and all deletions.
fn counts(evidence: &Evidence<'_>, run: &RunRecord) -> (Counts, Counts) {
    let (mut own, mut all) = (Counts::new(), Counts::new());
    for (write, by) in deletions(evidence, run) {
        let key = (input_of(run, write), evidence.slot(write));
        if by.is_some() {
            *own.entry(key.clone()).or_default() += 1;
        }
        *all.entry(key).or_default() += 1;
    }
    (own, all)
}

/// Deletions of a slot up to a step and after it.
fn up_to(counts: &Counts, step: usize, slot: &str) -> usize {
    counts.iter().filter(|((at, of), _)| *at <= step && of == slot).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, run, scenario, table, write};
    use super::*;
    use serde_json::json;

    const CLAIM: &str = "persistentvolumeclaims/default/data";

    fn deletion(revision: i64, client: &str, text: &str) -> RecordedWrite {
        write(revision, client, text, json!({}), json!(null))
    }

    fn with_step(mut record: RunRecord) -> RunRecord {
        record.steps = vec![RecordedStep { name: "apply-1".to_owned(), begin: 5, end: 6 }];
        record
    }

    #[test]
    fn a_deletion_that_no_reference_has_is_a_surplus() {
        let mut caused = deletion(8, "kube-controller-manager", CLAIM);
        caused.causes = vec![7];
        let by_operator = write(7, "op", "things.example.com/default/a", json!({}), json!({"n": 1}));
        let rows = [
            ("none", run(vec![]), false),
            ("by the operator", run(vec![deletion(7, "op", CLAIM)]), true),
            ("by another client", run(vec![deletion(7, "other", CLAIM)]), false),
            ("caused by the operator", run(vec![by_operator, caused]), true),
        ];
        table(judge, &RunRecord::empty(), &rows);
        let once = with_step(run(vec![deletion(7, "op", CLAIM)]));
        let twice = with_step(run(vec![deletion(7, "op", CLAIM), deletion(9, "op", CLAIM)]));
        let before = with_step(run(vec![deletion(3, "op", CLAIM)]));
        table(
            judge,
            &once,
            &[
                ("as often", once.clone(), false),
                ("twice", twice, true),
                ("in an earlier step", before.clone(), true),
            ],
        );
        table(judge, &before, &[("in a later step", once, false)]);
        let by_another = run(vec![deletion(7, "kube-controller-manager", CLAIM)]);
        let mut also = by_another.clone();
        also.writes.push(deletion(9, "op", CLAIM));
        let rows = [
            (
                "what was deleted in the reference, too, by whatever cause",
                run(vec![deletion(7, "op", CLAIM)]),
                false,
            ),
            ("also by the operator", also, true),
        ];
        table(judge, &by_another, &rows);
    }

    #[test]
    fn a_deletion_that_a_reference_has_after_more_time_and_no_other_input_is_none() {
        let with = |revision: i64, second: &str| {
            let mut record = run(vec![deletion(revision, "op", CLAIM)]);
            let step = |name: &str, begin: i64, end: i64| RecordedStep { name: name.to_owned(), begin, end };
            record.steps = vec![step("patch-1", 5, 6), step(second, 8, 9)];
            record
        };
        for (second, is_rejected) in [("settle-1", false), ("advance-1", false), ("patch-2", true)] {
            let rows = [("earlier than the reference", with(7, second), is_rejected)];
            table(judge, &with(9, second), &rows);
        }
        // Regression: one in a step that waits was counted and not found again.
        let rows = [("after an input, while the user waits", with(9, "settle-1"), true)];
        table(judge, &RunRecord::empty(), &rows);
    }

    #[test]
    fn a_surplus_deletion_of_what_is_made_again_is_a_suspicion() {
        let found = |text: &str, more: &str| {
            let run = run(vec![deletion(7, "op", text)]);
            judged(&scenario(more), &[RunRecord::empty()], &run, judge)
                .first()
                .map(|verdict| verdict.severity)
        };
        assert_eq!(found(CLAIM, ""), Some(Severity::Bug));
        assert_eq!(found("pods/default/a", ""), Some(Severity::Suspicion));
        assert_eq!(found("pods/default/a", "fungible: [{resource: pods}]\n"), None);
    }
}
