//! Arguments of `completion` and `man`. The module `pages` generates the texts from the whole command line.

use super::flag::{Choice, Flag, chosen, put, required, words};
use std::path::PathBuf;

pub(super) const COMPLETION_HELP: &str = "\
Examples:
  source <(kstore-server completion bash)                              bash, in this shell
  kstore-server completion zsh > \"${fpath[1]}/_kstore-server\"          zsh, from the next shell on
  kstore-server completion fish > ~/.config/fish/completions/kstore-server.fish";

pub(super) const COMPLETION: &[Flag<CompletionArgs>] = &[Flag::choice(
    ("shell", "SHELL"),
    words::<Shell>,
    |o: &mut CompletionArgs, word| put(&mut o.shell, chosen(word)),
    "Shell to complete for",
)
.positional()
.shaped(required)];

pub(super) const MAN: &[Flag<ManArgs>] = &[Flag::path(
    "dir",
    "DIR",
    |o: &mut ManArgs, path| o.dir = path,
    "Folder to write to; created if it does not exist",
)
.positional()
.shaped(required)];

/// Arguments of `completion`.
#[derive(Debug, Default)]
pub struct CompletionArgs {
    /// Shell to complete for.
    pub shell: Shell,
}

/// A shell with generated completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shell {
    /// The Bourne again shell.
    #[default]
    Bash,
    /// The Z shell.
    Zsh,
    /// The friendly interactive shell.
    Fish,
}

impl Choice for Shell {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("bash", Self::Bash, "The Bourne again shell"),
        ("zsh", Self::Zsh, "The Z shell"),
        ("fish", Self::Fish, "The friendly interactive shell"),
    ];
}

/// Arguments of the hidden `man`.
#[derive(Debug, Default)]
pub struct ManArgs {
    /// Folder to write to; created if it does not exist.
    pub dir: PathBuf,
}
