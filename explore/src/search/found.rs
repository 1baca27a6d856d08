//! What a search has found so far, and the plans whose failures wait for another confirmation. Pure.

use crate::oracle::{OracleId, Severity, Verdict};
use crate::plan::Plan;
use crate::report::Finding;
use std::collections::BTreeMap;

/// Findings, suspicions and unsteady failures of a search.
#[derive(Debug, Default)]
pub(super) struct FoundFailures {
    /// Confirmed bugs.
    pub(super) findings: Vec<Finding>,
    /// Failures that did not fail again each time.
    pub(super) unsteady: Vec<Finding>,
    /// Confirmed suspicions.
    pub(super) suspicions: Vec<Finding>,
    /// Plans whose failure another plan did not confirm.
    pub(super) open: Vec<Plan>,
    /// Keys of what was found, so that each failure is confirmed once.
    known: Vec<(OracleId, String)>,
    next_ids: BTreeMap<&'static str, usize>,
}

impl FoundFailures {
    /// Whether a failure is new. The next likewise one is not.
    pub(super) fn claim(&mut self, verdict: &Verdict) -> bool {
        let key = (verdict.oracle, verdict.fingerprint.clone());
        let is_new = !self.known.contains(&key);
        if is_new {
            self.known.push(key);
        }
        is_new
    }

    /// Whether a failure was confirmed, or is unsteady.
    pub(super) fn is_kept(&self, verdict: &Verdict) -> bool {
        let mut all = self.findings.iter().chain(&self.suspicions).chain(&self.unsteady);
        all.any(|finding| (finding.oracle, &*finding.fingerprint) == verdict.key())
    }

    /// Identifier of the finding of a likewise failure.
    pub(super) fn known_id(&self, verdict: &Verdict) -> Option<String> {
        let is_it = |finding: &&Finding| (finding.oracle, &*finding.fingerprint) == verdict.key();
        self.findings.iter().find(is_it).map(|finding| finding.id.clone())
    }

    /// A new identifier. Confirmed and unsteady failures are counted apart.
    pub(super) fn next_id(&mut self, prefix: &'static str) -> String {
        let next = self.next_ids.entry(prefix).or_default();
        *next += 1;
        format!("{prefix}-{next}")
    }

    /// Sorts a finding by what its confirmation showed, and returns the identifier of one that counts.
    pub(super) fn keep(&mut self, finding: Finding, is_steady: bool) -> Option<String> {
        let id = finding.id.clone();
        match (is_steady, finding.severity == Severity::Bug) {
            (false, _) => {
                // Another plan may fail so each time.
                let key = (finding.oracle, finding.fingerprint.clone());
                self.known.retain(|known| *known != key);
                if !self.unsteady.iter().any(|other| other.is_likewise(&finding)) {
                    self.unsteady.push(finding);
                }
                None
            }
            (true, false) => {
                self.suspicions.push(finding);
                None
            }
            (true, true) => {
                self.unsteady.retain(|other| !other.is_likewise(&finding));
                self.findings.push(finding);
                Some(id)
            }
        }
    }
}

/// The confirmation of a failure: how often the plan failed again. A state machine: it proposes runs and takes their outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Confirmation {
    fails: usize,
    runs: usize,
    wanted: usize,
}

impl Confirmation {
    /// Begins with the run that failed; `wanted` runs, with that, must fail.
    pub(super) fn new(wanted: usize) -> Self {
        Self { fails: 1, runs: 1, wanted }
    }

    /// Whether another run is needed.
    pub(super) fn is_open(&self) -> bool {
        self.runs < self.wanted
    }

    /// Tells whether a run failed likewise.
    pub(super) fn report(&mut self, fails: bool) {
        self.runs += 1;
        self.fails += usize::from(fails);
    }

    /// Failed runs, and runs.
    pub(super) fn fails(&self) -> (usize, usize) {
        (self.fails, self.runs)
    }

    /// Whether all runs that were wanted failed.
    pub(super) fn is_steady(&self) -> bool {
        self.fails == self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use crate::report::tests::finding;

    fn judged(sequence: &[bool]) -> (Confirmation, FoundFailures, Option<String>) {
        let mut confirmation = Confirmation::new(limits::CONFIRMATIONS);
        for fails in sequence {
            assert!(confirmation.is_open());
            confirmation.report(*fails);
        }
        let (mut found, verdict) = (FoundFailures::default(), verdict());
        assert!(found.claim(&verdict) && !found.claim(&verdict), "a failure is confirmed once");
        let is_steady = confirmation.is_steady();
        let id = found.next_id(if is_steady { "s" } else { "u" });
        let finding = Finding { id, fails: confirmation.fails(), ..finding() };
        let id = found.keep(finding, is_steady);
        (confirmation, found, id)
    }

    fn verdict() -> Verdict {
        let finding = finding();
        Verdict::new(finding.oracle, finding.fingerprint, finding.summary)
    }

    #[test]
    fn a_failure_that_some_confirmations_do_not_show_is_unsteady_and_does_not_count() {
        for sequence in [[true, false, false, false], [true, true, false, true], [false; 4]] {
            let (confirmation, mut found, id) = judged(&sequence);
            assert!(!confirmation.is_open() && id.is_none(), "{sequence:?}");
            assert_eq!((found.findings.len(), found.unsteady.len()), (0, 1), "{sequence:?}");
            assert_eq!(found.unsteady[0].id, "u-1");
            assert!(found.is_kept(&verdict()) && found.known_id(&verdict()).is_none());
            // Another plan that fails so each time makes a finding of it, which counts.
            assert!(found.claim(&verdict()));
            let id = found.next_id("s");
            assert_eq!(found.keep(Finding { id, ..finding() }, true).as_deref(), Some("s-1"));
            assert_eq!((found.findings.len(), found.unsteady.len()), (1, 0), "{sequence:?}");
        }
    }

    #[test]
    fn a_failure_that_all_confirmations_show_counts() {
        let (confirmation, found, id) = judged(&[true; 4]);
        assert_eq!((confirmation.fails(), id.as_deref()), ((5, 5), Some("s-1")));
        assert_eq!((found.findings.len(), found.unsteady.len()), (1, 0));
        assert_eq!(found.known_id(&verdict()).as_deref(), Some("s-1"));
    }

    #[test]
    fn a_confirmation_that_the_budget_cut_off_is_unsteady() {
        let (confirmation, found, id) = judged(&[true, true]);
        assert!(confirmation.is_open() && id.is_none());
        assert_eq!(found.unsteady[0].fails, (3, 3));
    }

    #[test]
    fn suspicions_are_kept_apart() {
        let mut found = FoundFailures::default();
        let suspicion = Finding { severity: Severity::Suspicion, ..finding() };
        assert_eq!(found.keep(suspicion, true), None);
        assert_eq!((found.findings.len(), found.suspicions.len()), (0, 1));
    }
}
