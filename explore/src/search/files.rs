//! Files of findings: the replay file, the snapshot of the prepared cluster, and the log of the run that failed. Only their owner may read
//! them: the first two have Secrets.

use super::{Search, SearchError};
use crate::limits;
use crate::normalise::{Learned, text_without_times};
use crate::pattern::PatternId;
use crate::plan::{Plan, Subject};
use crate::replay::{API_VERSION, ExpectedFailure, KIND, Replay, ReplayReference, ReplayScenario};
use crate::report::Finding;
use crate::run::RunOutcome;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What replay files have in common.
#[derive(Clone, Debug)]
pub struct ReplayFiles {
    /// Path of the scenario as the command line has it.
    pub scenario_path: String,
    /// Its text.
    pub scenario_text: String,
    /// Command of the operator.
    pub command: Vec<String>,
    /// Digest of the operator's program; empty if it is not a file.
    pub program: String,
    /// The program and its command that searches.
    pub searcher: String,
    /// Version of kstore.
    pub version: String,
}

/// A new file that only its owner may read; it replaces one of the same name. The folders above it are made.
fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SearchError {
    let path = path.to_owned();
    move |error| SearchError::Write { path, error }
}

/// Writes a file that only its owner may read.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), SearchError> {
    create(path).and_then(|mut file| file.write_all(bytes)).map_err(failed(path))
}

/// Writes the rest of a file into one that only its owner may read, unless it is longer than `most` bytes. Returns whether it did.
fn copy_private(mut from: File, path: &Path, most: u64) -> Result<bool, SearchError> {
    let mut copy = || {
        if from.metadata()?.len() > most {
            return Ok(false);
        }
        io::copy(&mut from, &mut create(path)?).map(|_| true)
    };
    copy().map_err(failed(path))
}

/// The plan of a run in which nothing is perturbed.
pub(super) fn without_actions(pattern: Option<PatternId>) -> Plan {
    let subject = Subject { resource: String::new(), verb: String::new() };
    Plan { pattern: pattern.unwrap_or(PatternId::Crash), subject, actions: Vec::new() }
}

impl Search<'_> {
    /// Writes the files of a finding.
    pub(super) async fn write_files(
        &self,
        finding: Finding,
        (plan, steps): (Option<&Plan>, usize),
        outcome: &RunOutcome,
    ) -> Result<Finding, SearchError> {
        let folder = &self.options.findings;
        let path = |ending: &str| folder.join(format!("{}.{ending}", finding.id));
        let (replay, snapshot, log) = (path("yaml"), path("snapshot"), path("log"));
        let text = self.replay(&finding, plan, steps).to_yaml();
        let text = text.map_err(|error| failed(&replay)(io::Error::other(error)))?;
        write_private(&replay, text.as_bytes())?;
        let image = self.prepared.snapshot().await;
        let image = image.map_err(|error| failed(&snapshot)(io::Error::other(error)))?;
        let has_snapshot = copy_private(image, &snapshot, limits::SNAPSHOT_BYTES)?;
        let secrets = super::secrets_of(outcome, self.options.shows_secrets);
        write_private(&log, super::log::text(outcome, &secrets).as_bytes())?;
        let shown = |path: &Path| Some(path.display().to_string());
        let snapshot = if has_snapshot { shown(&snapshot) } else { None };
        Ok(Finding { replay: shown(&replay), snapshot, log: shown(&log), ..finding })
    }

    fn replay(&self, finding: &Finding, plan: Option<&Plan>, steps: usize) -> Replay {
        Replay {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            kstore: self.files.version.clone(),
            scenario: ReplayScenario {
                path: self.files.scenario_path.clone(),
                text: self.files.scenario_text.clone(),
                files: self.prepared.sources().digests.clone(),
            },
            command: self.files.command.clone(),
            program: self.files.program.clone(),
            seed: self.options.seed,
            plan: plan.cloned().unwrap_or_else(|| without_actions(finding.pattern)),
            steps,
            expected: ExpectedFailure {
                oracle: finding.oracle,
                fingerprint: finding.fingerprint.clone(),
                summary: text_without_times(&finding.summary),
            },
            learned: self.baseline.normaliser.learned().cloned().unwrap_or_else(Learned::default),
            references: ReplayReference::all(&self.baseline.references),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_their_owner_may_read_files_of_findings_and_one_that_is_too_long_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("findings/s-1.snapshot");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        write_private(&path, b"older").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let from = folder.path().join("from");
        fs::write(&from, b"0123456789").unwrap();
        assert!(copy_private(File::open(&from).unwrap(), &path, 10).unwrap());
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"0123456789".to_vec(), 0o600));
        let other = folder.path().join("findings/s-2.snapshot");
        assert!(!copy_private(File::open(&from).unwrap(), &other, 9).unwrap());
        assert!(!other.exists());
    }
}
