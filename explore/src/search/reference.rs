//! References: equal runs without a fault, and two with a jitter: another seed, an orderly restart of the operators.

use super::{Baseline, SearchError, SearchOptions};
use crate::normalise::{Difference, Normaliser, differences};
use crate::oracle::{Reference, Severity, Verdict};
use crate::pattern::TracedProgram;
use crate::progress::{Phase, SharedProgress};
use crate::record::{RunEnd, RunRecord, StoredObject};
use crate::run::{PreparedLab, RunLimits, RunOutcome, RunRequest};
use crate::secrets::SecretValues;
use kstore_nondet::Clock;

/// Equal runs that are needed.
const EQUAL: usize = 3;
/// Most runs in which they must be among.
const MOST: usize = 10;

/// The references cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// They differ in what is not volatile.
    #[error("the scenario is not stable without faults:\n{}", lines(.0))]
    Unstable(Vec<Difference>),
}

fn lines(differences: &[Difference]) -> String {
    let lines: Vec<String> = differences.iter().map(|difference| format!("  {difference}")).collect();
    lines.join("\n")
}

/// What the references themselves fail with.
type WithoutFault = Vec<(Verdict, RunOutcome)>;

/// Takes the references.
///
/// # Errors
/// They differ, or a run does not take place.
pub(super) async fn references(
    prepared: &PreparedLab,
    options: &SearchOptions,
    progress: &SharedProgress,
    began: jiff::Timestamp,
) -> Result<(Baseline, WithoutFault), SearchError> {
    let budget = options.budget;
    let is_spent = || Clock::real().now().duration_since(began).unsigned_abs() >= budget;
    let run = async |request: RunRequest<'_>| match is_spent() {
        true => Err(SearchError::Budget(budget)),
        false => Ok(prepared.run(&request).await?),
    };
    progress.change(|progress| progress.phase = Phase::References);
    let given = prepared.sources().given(prepared.scenario());
    let mut outcomes: Vec<RunOutcome> = Vec::new();
    let request = |limits| RunRequest {
        plan: None,
        seed: None,
        steps: prepared.scenario().steps.len(),
        is_restarted: false,
        is_held: false,
        comparison: None,
        limits,
        report: None,
    };
    let (normaliser, equal) = loop {
        let limits = match outcomes.is_empty() {
            true => RunLimits::FIRST,
            false => RunLimits { total: RunLimits::FIRST.total, ..limits_of(&outcomes) },
        };
        outcomes.push(run(request(limits)).await?);
        progress.change(|progress| progress.run += 1);
        if outcomes.len() < EQUAL {
            continue;
        }
        let normaliser = learned(prepared, &given, &outcomes);
        let equal = equal(&normaliser, &outcomes);
        if equal.len() >= EQUAL {
            break (normaliser, equal);
        }
        if outcomes.len() >= MOST {
            let states: Vec<_> =
                outcomes.iter().map(|outcome| normaliser.normalise(&outcome.record.end)).collect();
            let found = states[1..].iter().map(|state| differences(&states[0], state));
            let found = found.max_by_key(Vec::len).unwrap_or_default();
            return Err(ReferenceError::Unstable(hidden(found, &outcomes, options.shows_secrets)).into());
        }
    };
    let mut kept: Vec<RunOutcome> = equal.into_iter().map(|at| outcomes[at].clone()).collect();
    if kept.iter().any(|outcome| outcome.record.ended != RunEnd::Converged) {
        // The oracles tell of it; a jitter says no more.
        let steady = kept[0].clone();
        return Ok(baseline(prepared, normaliser, &kept, &steady));
    }
    let limits = limits_of(&kept);
    let seed = Some(options.seed.wrapping_add(1));
    let steady = kept[0].clone();
    for jittered in
        [RunRequest { seed, ..request(limits) }, RunRequest { is_restarted: true, ..request(limits) }]
    {
        kept.push(run(jittered).await?);
        progress.change(|progress| progress.run += 1);
    }
    drop(normaliser);
    let normaliser = learned(prepared, &given, &kept);
    Ok(baseline(prepared, normaliser, &kept, &steady))
}

/// The differences without values of Secrets.
fn hidden(found: Vec<Difference>, outcomes: &[RunOutcome], shows_secrets: bool) -> Vec<Difference> {
    if shows_secrets {
        return found;
    }
    let secrets = SecretValues::of_records(outcomes.iter().map(|outcome| &outcome.record));
    found.iter().map(|difference| secrets.hide_difference(difference)).collect()
}

fn limits_of(outcomes: &[RunOutcome]) -> RunLimits {
    let records: Vec<RunRecord> = outcomes.iter().map(|outcome| outcome.record.clone()).collect();
    RunLimits::after(&records)
}

fn learned(prepared: &PreparedLab, given: &[serde_json::Value], outcomes: &[RunOutcome]) -> Normaliser {
    let ends: Vec<&[StoredObject]> = outcomes.iter().map(|outcome| &*outcome.record.end).collect();
    let now = Clock::real().now().as_second();
    const MONTH: i64 = 30 * 86_400;
    Normaliser::new(prepared.scenario(), given).with_window(now - MONTH, now + 12 * MONTH).learn(&ends)
}

/// Positions of the runs that end like the first.
fn equal(normaliser: &Normaliser, outcomes: &[RunOutcome]) -> Vec<usize> {
    let states: Vec<_> = outcomes.iter().map(|outcome| normaliser.normalise(&outcome.record.end)).collect();
    (0..states.len()).filter(|at| differences(&states[0], &states[*at]).is_empty()).collect()
}

/// The baseline, and what the references fail with: judged by the oracles that need none, and those with a jitter by all.
fn baseline(
    prepared: &PreparedLab,
    normaliser: Normaliser,
    outcomes: &[RunOutcome],
    steady: &RunOutcome,
) -> (Baseline, WithoutFault) {
    let programs = prepared.programs().into_iter().map(|name| {
        let lists_from_cache = outcomes.iter().any(|outcome| outcome.lists_from_cache.contains(&name));
        TracedProgram { name, lists_from_cache }
    });
    let reference = |outcome: &RunOutcome| Reference {
        end: normaliser.normalise(&outcome.record.end),
        record: outcome.record.clone(),
    };
    let end = normaliser.normalise(&steady.record.end);
    let is_like =
        |outcome: &&RunOutcome| differences(&end, &normaliser.normalise(&outcome.record.end)).is_empty();
    let (like_first, others): (Vec<&RunOutcome>, Vec<&RunOutcome>) = outcomes.iter().partition(is_like);
    let references = like_first.iter().map(|outcome| reference(outcome)).collect();
    let mut baseline = Baseline {
        normaliser,
        references: Vec::new(),
        programs: programs.collect(),
        limits: limits_of(outcomes),
    };
    let mut without_fault = WithoutFault::new();
    let is_failure = |verdict: &Verdict| verdict.severity > Severity::Note;
    let mut judge = |baseline: &Baseline, outcome: &RunOutcome| {
        let judged = baseline.judge(prepared, &outcome.record).verdicts.into_iter().filter(is_failure);
        without_fault.extend(judged.map(|verdict| (verdict, outcome.clone())));
    };
    like_first.iter().for_each(|outcome| judge(&baseline, outcome));
    baseline.references = references;
    others.iter().for_each(|outcome| judge(&baseline, outcome));
    (baseline, without_fault)
}
