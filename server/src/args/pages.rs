//! The arguments of `completion` and `man`. Not the texts: those are made from the whole command line by the module `pages`.

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
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// A shell that completions exist for.
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
    /// The folder; made if it is not there
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}
