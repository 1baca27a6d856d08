//! Oracles: each judges the record of a run, beside the references, and says what is wrong. One file an oracle. Pure.

mod destructive_surplus;
mod end_state;
mod exit;
pub(crate) mod expect;
mod hot_loop;
mod invariant;
mod late;
mod lost_update;
mod orphan;
mod overlap;
mod refused;
mod regress;
mod request_storm;
pub(crate) mod stale_write;
mod stuck;
#[cfg(test)]
pub(crate) mod tests;
mod undeleted;

pub use crate::oracle_id::{OracleId, Severity};
pub(crate) use hot_loop::busiest;

use crate::normalise::{Difference, NormalState, Normaliser};
use crate::record::{RecordedWrite, RunRecord};
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};

/// What an oracle found in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The oracle.
    pub oracle: OracleId,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong, in a sentence.
    pub summary: String,
    /// What of it is the same in each run that fails likewise: slots and paths without generated names, UIDs, times and revisions.
    pub fingerprint: String,
    /// The differences, for oracles that compare states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Revision of the write that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

impl Verdict {
    /// A verdict with the oracle's severity.
    pub(crate) fn new(oracle: OracleId, fingerprint: impl Into<String>, summary: impl Into<String>) -> Self {
        Self {
            oracle,
            severity: oracle.severity(),
            summary: summary.into(),
            fingerprint: fingerprint.into(),
            differences: Vec::new(),
            revision: None,
        }
    }

    pub(crate) fn at(mut self, revision: i64) -> Self {
        self.revision = Some(revision);
        self
    }

    pub(crate) fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Key of likewise failures: oracle and fingerprint.
    pub fn key(&self) -> (OracleId, &str) {
        (self.oracle, &self.fingerprint)
    }
}

/// A reference run with its normalised end state.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The record.
    pub record: RunRecord,
    /// The end state.
    pub end: NormalState,
}

/// What an oracle looks at.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'e> {
    /// The scenario.
    pub scenario: &'e Scenario,
    /// The references; empty while the references themselves are judged.
    pub references: &'e [Reference],
    /// Normalises states as those of the references were.
    pub normaliser: &'e Normaliser,
    /// The run.
    pub run: &'e RunRecord,
    /// The run's normalised end state.
    pub end: &'e NormalState,
    /// Names of the tested programs.
    pub programs: &'e [String],
}

impl<'e> Evidence<'e> {
    /// Whether a client is a tested program.
    pub fn is_program(&self, client: &str) -> bool {
        self.programs.iter().any(|program| program == client)
    }

    /// Writes of tested programs that the scenario does not ignore.
    pub fn program_writes(&self) -> impl Iterator<Item = &'e RecordedWrite> + use<'e> {
        let this = *self;
        this.run.writes.iter().filter(move |write| {
            this.is_program(&write.client)
                && !this.scenario.ignores_client(&write.client)
                && !this.scenario.ignores_resource(&write.key.resource)
        })
    }

    /// The slot of an object of the run: its key if every reference has it, else its kind, namespace and labels without the name.
    pub fn slot(&self, write: &RecordedWrite) -> String {
        self.normaliser.slot_of(&write.key, write.object())
    }
}

/// Judges a run. Verdicts have the severities of the scenario, the gravest first.
pub fn judge(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for oracle in OracleId::ALL {
        if evidence.references.is_empty() && !oracle.needs_no_reference() {
            continue;
        }
        let found = match oracle {
            OracleId::EndState => end_state::judge(evidence),
            OracleId::Stuck => stuck::judge(evidence),
            OracleId::HotLoop => hot_loop::judge(evidence),
            OracleId::RequestStorm => request_storm::judge(evidence),
            OracleId::Invariant => invariant::judge(evidence),
            OracleId::Expect => expect::judge(evidence),
            OracleId::DestructiveSurplus => destructive_surplus::judge(evidence),
            OracleId::Orphan => orphan::judge(evidence),
            OracleId::Undeleted => undeleted::judge(evidence),
            OracleId::Exit => exit::judge(evidence),
            OracleId::Refused => refused::judge(evidence),
            OracleId::Regress => regress::judge(evidence),
            OracleId::LostUpdate => lost_update::judge(evidence),
            OracleId::Overlap => overlap::judge(evidence),
            OracleId::Late => late::judge(evidence),
            OracleId::StaleWrite => stale_write::judge(evidence),
        };
        verdicts.extend(found);
    }
    for verdict in &mut verdicts {
        if let Some(severity) = evidence.scenario.severity.get(&verdict.oracle) {
            verdict.severity = *severity;
        }
    }
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.severity));
    verdicts
}
