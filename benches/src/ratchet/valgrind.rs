//! Runs a child under valgrind and returns its instructions.

use anyhow::{Context, bail, ensure};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// The file of the counts, in the child's working directory.
const COUNTS: &str = "cachegrind.out";

/// Output and instructions of a child that has ended.
pub(super) struct CountedRun {
    /// Everything that the child printed to its standard output.
    pub(super) output: String,
    /// Instructions of all its threads, in user space.
    pub(super) instructions: u64,
}

/// Runs `program` in `directory` with an empty environment, and counts its instructions, without those of programs
/// that it starts.
///
/// # Errors
///
/// valgrind is missing, or the child fails.
pub(super) fn run(program: &Path, arguments: &[&str], directory: &Path) -> anyhow::Result<CountedRun> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "--branch-sim=no", "--vgdb=no"]);
    command.arg(format!("--cachegrind-out-file={COUNTS}")).arg(program).args(arguments);
    // What is in the environment is read and copied, which would count.
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir(directory);
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "valgrind counts the instructions, and it is not in PATH: install Debian's package `valgrind`"
            )
        }
        output => output.context("cannot run valgrind")?,
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {arguments:?}: {}\n{errors}", program.display(), output.status);
    let counts = std::fs::read_to_string(directory.join(COUNTS)).context("valgrind wrote no counts")?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(CountedRun { output, instructions: summary(&counts).context("valgrind's file has no summary")? })
}

/// The sum of all instructions in cachegrind's file.
fn summary(counts: &str) -> Option<u64> {
    // The line is the last: that of a large program is after a hundred thousand others.
    let line = counts.lines().rev().find_map(|line| line.strip_prefix("summary:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_sum_of_all_instructions() {
        let counts =
            "desc: I1 cache: none\ncmd: ./program\nevents: Ir\nfl=???\nfn=main\n0 5\nsummary: 123456\n";
        assert_eq!(summary(counts), Some(123_456));
        assert_eq!(summary("events: Ir\n"), None);
    }
}
