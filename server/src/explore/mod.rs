//! `kstore-server explore SCENARIO -- CMD`: a search for bugs of an operator, or the replay of one that was found.

mod progress;
mod replay;

use crate::VERSION;
use crate::args::{ExploreArgs, UsageError};
use crate::runtime;
use crate::shutdown::Signals;
use kstore_explore::pattern_id::PatternId;
use kstore_explore::progress::SharedProgress;
use kstore_explore::replay::file_digest;
use kstore_explore::report::{Report, ReportForm};
use kstore_explore::run::{PrepareError, PreparedLab, RunError, Setup};
use kstore_explore::scenario::Scenario;
use kstore_explore::search::{ReplayFiles, Search, SearchError, SearchOptions};
use kstore_explore::sources::Sources;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// Exit code with findings.
const FOUND: u8 = 1;
/// Exit code of a wrong command line, scenario or replay file.
const WRONG: u8 = 2;
/// Exit code of a cluster or an operator that cannot be used.
const UNUSABLE: u8 = 3;
/// Exit code of a scenario that is not stable without faults.
const UNSTABLE: u8 = 4;
/// Exit code of a defect of kstore: it showed the operator what no real API server shows.
const DEFECT: u8 = 70;

/// An exit code with its reason.
#[derive(Debug)]
struct Failure {
    code: u8,
    reason: String,
}

fn failure(code: u8) -> impl Fn(String) -> Failure {
    move |reason| Failure { code, reason }
}

/// Searches, or replays.
pub(crate) fn explore(args: ExploreArgs) -> anyhow::Result<ExitCode> {
    if let Some(pattern) = args.only.iter().find(|pattern| args.skip.contains(pattern)) {
        return Err(UsageError::OnlyAndSkip(pattern.name()).into());
    }
    if args.is_held && args.replay.len() != 1 {
        return Err(UsageError::HoldWithoutReplay.into());
    }
    let code = match load(&args) {
        Ok(loaded) => return runtime::block_on(run(args, loaded)),
        Err(Failure { code, reason }) => {
            eprintln!("kstore-server explore: {reason}");
            code
        }
    };
    Ok(ExitCode::from(code))
}

/// What is read before anything starts.
struct Loaded {
    setup: Setup,
    files: ReplayFiles,
}

fn load(args: &ExploreArgs) -> Result<Loaded, Failure> {
    let wrong = failure(WRONG);
    let (path, text) = match &args.scenario {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
            (path.clone(), text)
        }
        None => replay::scenario(&args.replay)?,
    };
    let scenario = Scenario::parse(&text, &path).map_err(|error| wrong(error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let sources = Sources::read(&scenario, folder).map_err(|error| wrong(error.to_string()))?;
    let texts = args.command.iter().map(|word| word.to_str().map(str::to_owned));
    let command: Option<Vec<String>> = texts.collect();
    let command = command.ok_or_else(|| wrong("the command is not UTF-8".to_owned()))?;
    if command.is_empty() && scenario.operators.iter().any(|operator| operator.command.is_empty()) {
        return Err(wrong("the scenario names no command of its operator: add `-- CMD`".to_owned()));
    }
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let program = command.first().map(|first| here.join(first)).and_then(|path| std::fs::read(path).ok());
    let files = ReplayFiles {
        scenario_path: path.display().to_string(),
        scenario_text: text,
        command: command.clone(),
        program: program.map(|bytes| file_digest(&bytes)).unwrap_or_default(),
        searcher: "kstore-server explore".to_owned(),
        version: VERSION.to_owned(),
    };
    let setup = Setup { scenario, sources, folder: here, command, seed: args.seed };
    Ok(Loaded { setup, files })
}

async fn run(args: ExploreArgs, loaded: Loaded) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch()?;
    let stop = CancellationToken::new();
    let working = work(&args, loaded, stop.clone());
    let mut working = std::pin::pin!(working);
    let mut caught = None;
    let result = loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                if let Some(signal) = caught.replace(signal) {
                    // The second signal: programs end with this process.
                    return Ok(ExitCode::from(signal.exit_code()));
                }
                stop.cancel();
            }
            result = &mut working => break result,
        }
    };
    let code = match result {
        // The signal is the end that a held cluster waits for.
        Ok(WorkEnd { code, was_held: true }) => return Ok(ExitCode::from(code)),
        Ok(WorkEnd { code, was_held: false }) => code,
        Err(Failure { code, reason }) => {
            eprintln!("kstore-server explore: {reason}");
            // A defect is not to be taken for an interrupted search.
            if code == DEFECT {
                return Ok(ExitCode::from(code));
            }
            code
        }
    };
    Ok(ExitCode::from(caught.map_or(code, |signal| signal.exit_code())))
}

/// How a search or a replay ended.
struct WorkEnd {
    code: u8,
    /// Whether a cluster stayed until a signal.
    was_held: bool,
}

async fn work(args: &ExploreArgs, loaded: Loaded, stop: CancellationToken) -> Result<WorkEnd, Failure> {
    let Loaded { setup, files } = loaded;
    let replays = replay::read(&args.replay, &setup, &files)?;
    let prepared = PreparedLab::prepare(setup).await.map_err(|error| match error {
        PrepareError::Lab(_) | PrepareError::Refused(_) | PrepareError::Io(_) => {
            failure(UNUSABLE)(error.to_string())
        }
    })?;
    let ended = match replays.is_empty() {
        false => Box::pin(replay::run(&prepared, &replays, args, stop)).await,
        true => {
            let searching = Box::pin(search(args, &prepared, &files, stop));
            searching.await.map(|code| WorkEnd { code, was_held: false })
        }
    };
    prepared.end().await;
    ended
}

async fn search(
    args: &ExploreArgs,
    prepared: &PreparedLab,
    files: &ReplayFiles,
    stop: CancellationToken,
) -> Result<u8, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let is_wanted = |pattern: &PatternId| {
        (args.only.is_empty() || args.only.contains(pattern)) && !args.skip.contains(pattern)
    };
    let options = SearchOptions {
        seed: args.seed,
        seeds: args.seeds,
        budget: args.budget,
        runs: args.runs,
        parallel: args.parallel.unwrap_or(cores),
        patterns: PatternId::ALL.into_iter().filter(is_wanted).collect(),
        max_findings: args.max_findings,
        findings: findings(args),
        shows_secrets: args.shows_secrets,
        report: args.report_file.clone(),
    };
    let progress = SharedProgress::default();
    let shown = progress::show(progress.clone(), options.budget);
    let report = Box::pin(Search::run((prepared, files), &options, stop, progress)).await;
    progress::end(shown);
    let report = report.map_err(|error| failed(&error))?;
    print(&report, &args.reports)?;
    Ok(if report.has_failed(args.is_strict) { FOUND } else { 0 })
}

/// Folder for the files of findings.
fn findings(args: &ExploreArgs) -> PathBuf {
    args.findings.clone().unwrap_or_else(|| PathBuf::from("findings"))
}

fn failed(error: &SearchError) -> Failure {
    let code = match error {
        SearchError::Illegal(_) => DEFECT,
        SearchError::Reference(_) => UNSTABLE,
        SearchError::Run(RunError::Operator { .. } | RunError::Lab { .. } | RunError::Io(_)) => UNUSABLE,
        // The signal decides.
        SearchError::Stopped => 0,
        SearchError::Write { .. } | SearchError::Budget(_) => WRONG,
    };
    Failure { code, reason: error.to_string() }
}

/// Prints or writes the reports.
fn print(report: &Report, forms: &[(ReportForm, Option<PathBuf>)]) -> Result<(), Failure> {
    let text = [(ReportForm::Text, None)];
    for (form, file) in if forms.is_empty() { &text } else { forms } {
        let rendered = report.render(*form);
        let written = match file {
            Some(file) => std::fs::write(file, rendered),
            None => std::io::stdout().write_all(rendered.as_bytes()),
        };
        written.map_err(|error| failure(WRONG)(format!("cannot write the report: {error}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_explore::search::IllegalRun;
    use kstore_lab::legality::{Illegality, Rule};

    #[test]
    fn a_run_that_no_real_api_server_shows_ends_with_the_code_of_a_defect() {
        let found = vec![Illegality { rule: Rule::Gap, n: 7, what: "an event is missing".to_owned() }];
        let error = SearchError::Illegal(IllegalRun { found, log: PathBuf::from("findings/defect.log") });
        let Failure { code, reason } = failed(&error);
        assert_eq!(code, 70);
        for part in [
            "a defect of kstore, not of the operator",
            "findings/defect.log",
            "request 7: Gap: an event is missing",
        ] {
            assert!(reason.contains(part), "{part} is missing in {reason}");
        }
        assert_eq!(failed(&SearchError::Budget(std::time::Duration::from_secs(1))).code, WRONG);
    }
}
