//! Instruction counts of the main paths, each held to the count that was accepted for it.
//!
//! A path runs in a child process under valgrind, on one thread, under virtual time and a seed, so that equal
//! programs give equal counts on a busy machine too. The child runs once with few operations and once with many;
//! the difference, divided by the additional operations, is the cost of one, without start and preparation.
//!
//! `path` is the list of paths; each has a file. `valgrind` runs a child, `measure` all of them. `accepted` is the
//! file of accepted counts, `verdict` compares, `report` prints. CONTRIBUTING.md says how to read a failure and how
//! to accept a count.

mod accepted;
mod command;
mod etcd;
mod informer;
mod measure;
mod path;
mod platform;
mod pod;
mod report;
mod requests;
mod rest;
mod restart;
mod scheduler;
mod start;
mod valgrind;
mod verdict;
mod virtual_time;
mod watch;

use accepted::Accepted;
use anyhow::{Context, ensure};
use command::Command;
use path::{CountedPath, PATHS};
use std::process::ExitCode;

/// The file of accepted counts.
const ACCEPTED_COUNTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ratchet.tsv");

/// Counts, prints a table in Markdown, and compares with the accepted counts or replaces them. The exit code is 1
/// if a path costs more than was accepted, or if paths and lines of the file do not correspond.
///
/// # Errors
///
/// The command line or the file of accepted counts is invalid, valgrind is missing, or a path fails.
pub fn main() -> anyhow::Result<ExitCode> {
    match Command::parse(std::env::args().skip(1))? {
        Command::Run { path, times } => {
            println!("{}", platform::extensions());
            path::named(&path)?.run(times)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Judge { only } => judge(&only),
        Command::Accept { names, why } => accept(&names, &why),
    }
}

/// Compares the named paths, or all, with their accepted counts.
fn judge(only: &[String]) -> anyhow::Result<ExitCode> {
    let accepted = Accepted::parse(&std::fs::read_to_string(ACCEPTED_COUNTS).context(ACCEPTED_COUNTS)?)?;
    let measured = measure::counts(&selected(only)?)?;
    let report = report::report(&accepted, &measured, |name| PATHS.iter().any(|path| path.name == name));
    println!("{}", report.text);
    Ok(if report.has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Replaces the accepted counts of the named paths, or all of them.
fn accept(names: &[String], why: &str) -> anyhow::Result<ExitCode> {
    let measured = measure::counts(&selected(names)?)?;
    let accepted = if names.is_empty() {
        let former = std::fs::read_to_string(ACCEPTED_COUNTS).ok();
        let comments = former.map_or_else(Vec::new, |text| accepted::comments(&text));
        Accepted::new(comments, &measured.platform)
    } else {
        let accepted = Accepted::parse(&std::fs::read_to_string(ACCEPTED_COUNTS).context(ACCEPTED_COUNTS)?)?;
        ensure!(
            accepted.platform == measured.platform,
            "the counts in {ACCEPTED_COUNTS} were made on {}, this is {}: accept all with --accept-all",
            accepted.platform,
            measured.platform
        );
        accepted
    };
    let accepted = measured.counts.iter().fold(accepted, |accepted, count| {
        println!("{}: {}", count.name, count.instructions);
        accepted.with(count.name, count.instructions, why)
    });
    std::fs::write(ACCEPTED_COUNTS, accepted.to_string()).context(ACCEPTED_COUNTS)?;
    Ok(ExitCode::SUCCESS)
}

/// The paths with these names; all if there are no names.
fn selected(names: &[String]) -> anyhow::Result<Vec<&'static CountedPath>> {
    match names {
        [] => Ok(PATHS.iter().collect()),
        names => names.iter().map(|name| path::named(name)).collect(),
    }
}
