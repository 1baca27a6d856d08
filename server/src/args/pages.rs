//! Arguments of `completion` and `man`. The module `pages` generates the texts from the whole command line.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub(super) const COMPLETION_HELP: &str = "\
Examples:
  source <(kstore-server completion bash)                              bash, in this shell
  kstore-server completion zsh > \"${fpath[1]}/_kstore-server\"          zsh, from the next shell on
  kstore-server completion fish > ~/.config/fish/completions/kstore-server.fish";

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A shell with generated completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// The Bourne again shell.
    Bash,
    /// The Z shell.
    Zsh,
    /// The friendly interactive shell.
    Fish,
}

/// Arguments of the hidden `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder to write to; created if it does not exist
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}
