//! `--replay`: runs the plans of findings.

use super::{FOUND, Failure, UNUSABLE, WRONG, failure};
use kstore_explore::replay::Replay;
use kstore_explore::run::{PreparedLab, Setup};
use kstore_explore::search::{self, ReplayFiles};
use std::path::PathBuf;

/// Reads replay files, which must fit the scenario.
pub(super) fn read(
    paths: &[PathBuf],
    setup: &Setup,
    files: &ReplayFiles,
) -> Result<Vec<(PathBuf, Replay)>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        let wrong = |problem: String| failure(WRONG)(format!("{}: {problem}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let replay = Replay::parse(&text).map_err(|error| wrong(error.to_string()))?;
        let fits = replay.fits(&files.scenario_text, &setup.sources.digests);
        fits.map_err(|error| wrong(error.to_string()))?;
        all.push((path.clone(), replay));
    }
    Ok(all)
}

/// Runs replay files, and returns the exit code: 1 if one of them fails as it says.
pub(super) async fn run(
    prepared: &PreparedLab,
    replays: &[(PathBuf, Replay)],
    repeat: usize,
) -> Result<u8, Failure> {
    let mut code = 0;
    for (path, replay) in replays {
        let outcome = search::replay(prepared, replay, repeat).await;
        let outcome = outcome.map_err(|error| failure(UNUSABLE)(error.to_string()))?;
        let (failed, runs, expected) = (outcome.failed, outcome.runs, &replay.expected);
        println!("{}  fails {failed} of {runs}  {}", path.display(), expected.oracle);
        if failed > 0 {
            code = FOUND;
            println!("  {}", expected.summary);
            outcome.explanation.iter().for_each(|line| println!("  {line}"));
        }
        for (nth, action) in replay.plan.actions.iter().enumerate() {
            println!("  {}. {}", nth + 1, action.line());
        }
        if outcome.not_reached > 0 {
            println!("  in {} of {runs} runs an action of the plan never happened", outcome.not_reached);
        }
    }
    Ok(code)
}
