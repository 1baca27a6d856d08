//! `kstore-server completion` and the hidden `kstore-server man`: texts generated from the definition of the
//! command line, only when these commands run.

use crate::args::{Cli, Shell};
use anyhow::Context;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

/// Name of the completed program.
const PROGRAM: &str = "kstore-server";

/// Prints the completions of `shell` on standard output.
///
/// # Errors
///
/// Writing to standard output fails. A closed pipe is not an error.
pub(crate) fn completion(shell: Shell) -> anyhow::Result<ExitCode> {
    match std::io::stdout().write_all(&completion_text(shell)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot print completions"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn completion_text(shell: Shell) -> Vec<u8> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut text);
    text
}

/// Writes a manual page for the program and for each command in `--help`: `kstore-server.1`,
/// `kstore-server-run.1`, ….
///
/// # Errors
///
/// The folder cannot be created, or a page cannot be written.
pub(crate) fn man(directory: &Path) -> anyhow::Result<ExitCode> {
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create the directory {shown}"))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .with_context(|| format!("cannot write manual pages to {shown}"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_commands_flags_and_values() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completion_text(shell)).unwrap();
            for word in ["explain", "snapshot", "data-dir", "write-kubeconfig", "kubelet-sim"] {
                assert!(text.contains(word), "{shell:?} does not know {word}");
            }
        }
    }

    #[test]
    fn every_visible_command_has_a_manual_page() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path()).unwrap();
        let page = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        assert!(page("kstore-server.1").contains("\\-\\-data\\-dir"));
        for name in ["run", "explain", "store", "store-snapshot-save", "assets", "completion"] {
            assert!(page(&format!("kstore-server-{name}.1")).contains(".TH"), "{name}");
        }
        for hidden in ["exec-guarded", "man"] {
            assert!(!dir.path().join(format!("kstore-server-{hidden}.1")).exists(), "{hidden}");
        }
    }
}
