//! `--replay`: runs the plans of findings.

use super::{FOUND, Failure, WRONG, WorkEnd, failure};
use crate::args::ExploreArgs;
use kstore_explore::replay::Replay;
use kstore_explore::run::{HeldRun, PreparedLab, Setup};
use kstore_explore::search::{self, ReplayFiles, ReplayOptions, ReplayOutcome};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Reads one replay file.
fn parse(path: &Path) -> Result<Replay, Failure> {
    let wrong = |problem: String| failure(WRONG)(format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Replay::parse(&text).map_err(|error| wrong(error.to_string()))
}

/// The scenario of the first replay file: its text, and the path at which it was. The files that it names are beside that path, and must be
/// what they were.
pub(super) fn scenario(paths: &[PathBuf]) -> Result<(PathBuf, String), Failure> {
    let first = paths.first().ok_or_else(|| failure(WRONG)("name a scenario file".to_owned()))?;
    let kept = parse(first)?.scenario;
    Ok((PathBuf::from(kept.path), kept.text))
}

/// Reads replay files, which must fit the scenario.
pub(super) fn read(
    paths: &[PathBuf],
    setup: &Setup,
    files: &ReplayFiles,
) -> Result<Vec<(PathBuf, Replay)>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        let replay = parse(path)?;
        let wrong = |problem: String| failure(WRONG)(format!("{}: {problem}", path.display()));
        let fits = replay.fits(&files.scenario_text, &setup.sources.digests);
        fits.map_err(|error| wrong(error.to_string()))?;
        all.push((path.clone(), replay));
    }
    Ok(all)
}

/// Runs replay files. The exit code is 1 if one of them fails as it says.
pub(super) async fn run(
    prepared: &PreparedLab,
    replays: &[(PathBuf, Replay)],
    args: &ExploreArgs,
    stop: CancellationToken,
) -> Result<WorkEnd, Failure> {
    let options = ReplayOptions {
        repeat: args.repeat,
        is_held: args.is_held,
        shows_secrets: args.shows_secrets,
        findings: super::findings(args),
        report: args.report_file.clone(),
    };
    let mut end = WorkEnd { code: 0, was_held: false };
    for (path, replay) in replays {
        let replaying = Box::pin(search::replay(prepared, replay, &options));
        let Some(outcome) = stop.run_until_cancelled(replaying).await else { return Ok(end) };
        let outcome = outcome.map_err(|error| super::failed(&error))?;
        if outcome.failed > 0 {
            end.code = FOUND;
        }
        print(path, replay, &outcome);
        if let Some(held) = &outcome.held {
            print_held(held);
            stop.cancelled().await;
            end.was_held = true;
        }
    }
    Ok(end)
}

fn print(path: &Path, replay: &Replay, outcome: &ReplayOutcome) {
    let (failed, runs, expected) = (outcome.failed, outcome.runs, &replay.expected);
    println!("{}  fails {failed} of {runs}  {}", path.display(), expected.oracle);
    if failed > 0 {
        println!("  {}", outcome.summary);
        outcome.explanation.iter().for_each(|line| println!("  {line}"));
    }
    for (nth, action) in replay.plan.actions.iter().enumerate() {
        println!("  {}. {}", nth + 1, action.line());
    }
    match &outcome.report {
        Some(Ok(file)) => println!("  report: {}", file.display()),
        Some(Err(why)) => println!("  there is no report file: {why}"),
        None => {}
    }
    if outcome.not_reached > 0 {
        println!("  in {} of {runs} runs an action of the plan never happened", outcome.not_reached);
    }
}

/// Says how to reach a cluster that stays.
fn print_held(held: &HeldRun) {
    println!("the cluster stays until Ctrl-C; its time stands, and the operator runs");
    println!("  export KUBECONFIG={}", held.kubeconfig.display());
    for (name, output) in &held.outputs {
        println!("  output of {name}: {}", output.display());
    }
    // A pipe may be waiting for it.
    let _ = std::io::stdout().flush();
}
