//! Files of findings: the replay file, and the log of the run that failed.

use super::{Search, SearchError};
use crate::normalise::Learned;
use crate::pattern::PatternId;
use crate::plan::{Plan, Subject};
use crate::record::RunEnd;
use crate::replay::{API_VERSION, ExpectedFailure, KIND, Replay, ReplayReference, ReplayScenario};
use crate::report::Finding;
use crate::run::RunOutcome;
use std::fmt::Write as _;
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

impl Search<'_> {
    /// Writes the files of a finding.
    pub(super) fn write_files(
        &self,
        finding: Finding,
        (plan, steps): (Option<&Plan>, usize),
        outcome: &RunOutcome,
    ) -> Result<Finding, SearchError> {
        let folder = &self.options.findings;
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| SearchError::Write { path, error }
        };
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        let nothing = Plan {
            pattern: finding.pattern.unwrap_or(PatternId::Crash),
            subject: Subject { resource: String::new(), verb: String::new() },
            actions: Vec::new(),
        };
        let references = ReplayReference::all(&self.baseline.references);
        let replay = Replay {
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
            plan: plan.cloned().unwrap_or(nothing),
            steps,
            expected: ExpectedFailure {
                oracle: finding.oracle,
                fingerprint: finding.fingerprint.clone(),
                summary: finding.summary.clone(),
            },
            learned: self.baseline.normaliser.learned().cloned().unwrap_or_else(Learned::default),
            references,
        };
        let path = folder.join(format!("{}.yaml", finding.id));
        let text = replay.to_yaml().map_err(|error| failed(&path)(std::io::Error::other(error)))?;
        std::fs::write(&path, text).map_err(failed(&path))?;
        let log = folder.join(format!("{}.log", finding.id));
        std::fs::write(&log, self::log(outcome)).map_err(failed(&log))?;
        let shown = |path: &Path| Some(path.display().to_string());
        Ok(Finding { replay: shown(&path), log: shown(&log), ..finding })
    }
}

/// Requests and writes of a run in the order of their times, a line each, and the ends of the programs' outputs.
fn log(outcome: &RunOutcome) -> String {
    let record = &outcome.record;
    let requests = record.requests.iter().map(|request| {
        let fault = if request.fault.is_empty() { String::new() } else { format!("  [{}]", request.fault) };
        let line = format!(
            "{} {} rv={} -> {}{fault}",
            request.client,
            request.what(),
            request.version,
            request.code
        );
        (request.real, format!("request {line}"))
    });
    let writes = record.writes.iter().map(|write| {
        let seen: Vec<String> =
            write.views.iter().map(|view| format!("{}@{}", view.resource, view.delivered)).collect();
        let line = format!("{} by {} {} of {}", write.revision, write.client, write.verb, write.key);
        (write.real, format!("write   {line}; had seen {}", seen.join(" ")))
    });
    let mut rows: Vec<(u64, String)> = requests.chain(writes).collect();
    rows.sort_by_key(|(real, _)| *real);
    let mut text = String::new();
    for step in &record.steps {
        let _ = writeln!(text, "step    {} from revision {} to {}", step.name, step.begin, step.end);
    }
    for (real, row) in rows {
        let _ = writeln!(text, "{real:>8} ms  {row}");
    }
    let ended = match &record.ended {
        RunEnd::Converged => "converged".to_owned(),
        RunEnd::Quiet => "quiet in another state than a reference's".to_owned(),
        RunEnd::Looping => "writing one object again and again".to_owned(),
        other => format!("{other:?}"),
    };
    let _ = writeln!(text, "ended   {ended}");
    for (program, output) in &outcome.outputs {
        let _ = writeln!(text, "output of {program}, its end");
        for line in output.lines() {
            let _ = writeln!(text, "        {line}");
        }
    }
    text
}
