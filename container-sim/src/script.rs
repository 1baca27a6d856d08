//! Scripted behaviour of a container: its responses to commands and its log lines. These are plain values; this module does not parse
//! annotations.

use std::time::Duration;

/// The scripted answer to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptedAnswer {
    /// How long the command takes; `None` is no time.
    pub after: Option<Duration>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit code.
    pub code: u8,
}

/// The scripted log of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogScript {
    /// The first lines of each run; the boolean is true for a line of standard error. `None`: the log says that the container
    /// is simulated.
    pub lines: Option<Vec<(bool, String)>>,
    /// What the log says beside that the container is simulated.
    pub note: Option<String>,
    /// The repeated line, in which `{n}` is its number. `None` with an interval: only the number.
    pub line: Option<String>,
    /// The interval at which the line is repeated; `None` is never.
    pub every: Option<Duration>,
}

impl LogScript {
    /// Replaces the first lines of one stream by the lines of `text`. Lines of standard error come after those of
    /// standard output.
    pub fn set_lines(&mut self, stderr: bool, text: &str) {
        let lines = text.lines().map(|line| (stderr, line.to_owned()));
        let all = self.lines.get_or_insert_default();
        all.retain(|(other, _)| *other != stderr);
        all.extend(lines);
        all.sort_by_key(|(stderr, _)| *stderr);
    }
}
