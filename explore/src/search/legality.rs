//! Legality of a failing run: the lab's checker judges what the clients of the run were shown, before a failure counts. What it rejects is
//! a defect of kstore, and not of the operator.

use super::{Search, SearchError};
use crate::limits;
use crate::run::RunOutcome;
use kstore_lab::legality::{Illegality, check};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A run in which kstore showed its clients what no real API server shows.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "in a failing run kstore showed the operator what no real API server shows. This is a defect of kstore, not of the operator: please \
     report it with {}.\n{}",
    log.display(),
    lines(found)
)]
pub struct IllegalRun {
    /// What was shown, at most [`limits::DIFFERENCES`].
    pub found: Vec<Illegality>,
    /// File with the log of the run.
    pub log: PathBuf,
}

fn lines(found: &[Illegality]) -> String {
    let lines: Vec<String> = found.iter().map(|illegality| format!("  {illegality}")).collect();
    lines.join("\n")
}

/// Everything that the clients of a run were shown and no real API server shows.
fn illegalities(outcome: &RunOutcome) -> Vec<Illegality> {
    let mut found = check(&outcome.observed.history());
    found.truncate(limits::DIFFERENCES);
    found
}

/// Checks a run. The log of one that is rejected is written into `folder` by `write`.
///
/// # Errors
/// [`SearchError::Illegal`], or the log cannot be written.
pub(super) fn judge(
    outcome: &RunOutcome,
    folder: &Path,
    log: impl FnOnce(&RunOutcome) -> String,
) -> Result<(), SearchError> {
    let found = illegalities(outcome);
    if found.is_empty() {
        return Ok(());
    }
    let mut text = String::from("kstore showed its clients what no real API server shows\n");
    for illegality in &found {
        let _ = writeln!(text, "  {illegality}");
    }
    text.push_str(&log(outcome));
    let path = folder.join("defect.log");
    super::files::write_private(&path, text.as_bytes())?;
    Err(SearchError::Illegal(IllegalRun { found, log: path }))
}

impl Search<'_> {
    /// Checks a failing run.
    ///
    /// # Errors
    /// See [`judge`].
    pub(super) fn check_legality(&self, outcome: &RunOutcome) -> Result<(), SearchError> {
        judge(outcome, &self.options.findings, |outcome| {
            super::log::text(outcome, &super::secrets_of(outcome, self.options.shows_secrets))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;
    use kstore_lab::legality::observed::{Observed, ObservedChange, ShownAnswer, ShownRequest};
    use kstore_lab::request::{RequestTarget, Verb, Version};
    use std::collections::BTreeMap;

    /// A run in which a config map is made at revision 5 and listed at revision 7.
    fn listed(objects: &[(&str, i64)]) -> RunOutcome {
        let change = ObservedChange {
            revision: 5,
            resource: "configmaps".to_owned(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            labels: serde_json::Map::new(),
            exists: true,
            agent: "op".to_owned(),
        };
        let objects: BTreeMap<String, i64> =
            objects.iter().map(|(name, revision)| ((*name).to_owned(), *revision)).collect();
        let target = RequestTarget {
            verb: Verb::List,
            resource: "configmaps".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            version: Version::Unset,
            sends_initial_events: false,
        };
        let request = ShownRequest {
            n: 3,
            target,
            agent: "op".to_owned(),
            labels: String::new(),
            fields: String::new(),
            is_page: false,
            is_plain: true,
            began: 6,
            ended: 7,
            code: 200,
            fault: String::new(),
            sent: 0,
            answer: ShownAnswer::List { revision: 7, objects, has_more: false },
        };
        let observed = Observed { changes: vec![change], begin: 1, head: 8, requests: vec![request] };
        RunOutcome {
            record: RunRecord::empty(),
            missed: None,
            lists_from_cache: Vec::new(),
            outputs: Vec::new(),
            observed,
            report: None,
            held: None,
        }
    }

    #[test]
    fn an_illegal_run_is_a_defect_of_kstore_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let findings = folder.path().join("findings");
        let log = |_: &RunOutcome| "the rest of the log".to_owned();
        judge(&listed(&[("default/a", 5)]), &findings, log).unwrap();
        assert!(!findings.exists(), "nothing is written of a legal run");
        let error = judge(&listed(&[]), &findings, log).unwrap_err();
        let SearchError::Illegal(illegal) = &error else { panic!("{error}") };
        assert_eq!(illegal.found[0].n, 3);
        assert!(error.to_string().contains("a defect of kstore"), "{error}");
        let text = std::fs::read_to_string(&illegal.log).unwrap();
        assert!(text.contains("request 3: OneState") && text.ends_with("the rest of the log"), "{text}");
    }
}
