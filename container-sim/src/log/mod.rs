//! The log of a simulated container. Scripted lines are computed from the script and the times of the run instead of being
//! stored, so that a restart of the kubelet loses none; `printed` stores what a command printed, and `read` reads both.
//! Pure.

mod printed;
mod read;
#[cfg(test)]
mod tests;

use crate::limits::LOG_LINES;
use crate::script::LogScript;
use crate::time::{between, go_duration, later};
use jiff::Timestamp;
pub use printed::PrintedLines;
pub use read::{LogQuery, LogReader, LogStep, LogStream};
use std::sync::Arc;
use std::time::Duration;

/// One run of a container: its id and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRun {
    /// The container id that the runtime gave this run.
    pub id: String,
    /// When the run started.
    pub started_at: Timestamp,
    /// When the run ended, with its exit code; `None` while it runs.
    pub ended: Option<(Timestamp, i32)>,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The time of the line.
    pub at: Timestamp,
    /// Whether it is on standard error.
    pub stderr: bool,
    /// The text without its newline.
    pub text: String,
}

/// Output of the container's own command, as its log shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CommandOutput {
    /// The container has no command of its own.
    #[default]
    Absent,
    /// The command is not run, for this reason.
    NotRun(String),
    /// The command ran in an earlier process of the simulation; its output is lost.
    Forgotten,
    /// The output of the command.
    Ran(Arc<PrintedLines>),
    /// What a server of the image has logged about requests. The container has no command of its own.
    Served(Arc<PrintedLines>),
}

/// The complete log of one run. Lines are numbered from zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    head: Vec<(bool, String)>,
    /// The output of the container's command, after the head.
    printed: Option<Arc<PrintedLines>>,
    line: Option<(String, Duration)>,
    tail: Option<String>,
    start: Timestamp,
    end: Option<Timestamp>,
}

impl Log {
    /// The log of one run of the container `name`.
    pub fn of(
        script: &LogScript,
        name: &str,
        image: &str,
        run: &ContainerRun,
        command: CommandOutput,
    ) -> Self {
        let ran = matches!(command, CommandOutput::Ran(_));
        let line = match (&script.line, script.every) {
            (line, Some(every)) if !ran => Some((line.clone().unwrap_or_else(|| "{n}".to_owned()), every)),
            (_, _) => None,
        };
        let scripted = script.lines.is_some() || line.is_some() || ran;
        let truth = || {
            let more = match &command {
                CommandOutput::NotRun(why) => format!("; {why}"),
                CommandOutput::Forgotten => {
                    "; what its command printed is not kept across restarts".to_owned()
                }
                CommandOutput::Absent | CommandOutput::Ran(_) | CommandOutput::Served(_) => String::new(),
            };
            let note = script.note.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
            vec![(false, format!("simulated container {name} started (image {image}){more}{note}"))]
        };
        let head = match &script.lines {
            Some(lines) => lines.clone(),
            None if scripted => Vec::new(),
            None => truth(),
        };
        let tail = run.ended.filter(|_| !scripted).map(|(at, code)| {
            let after = go_duration(between(run.started_at, at));
            format!("simulated container {name} ended with exit code {code} after {after}")
        });
        let printed = match command {
            CommandOutput::Ran(printed) => Some(printed),
            // A repeated line takes precedence: its number would depend on the number of requests.
            CommandOutput::Served(printed) => Some(printed).filter(|_| line.is_none()),
            CommandOutput::Absent | CommandOutput::NotRun(_) | CommandOutput::Forgotten => None,
        };
        Self { head, printed, line, tail, start: run.started_at, end: run.ended.map(|(at, _)| at) }
    }

    /// Number of lines at `now`.
    pub fn len(&self, now: Timestamp) -> u64 {
        let repeated = self.line.as_ref().map_or(0, |(_, every)| {
            let until = self.end.unwrap_or(now);
            let times = between(self.start, until).as_nanos() / every.as_nanos();
            u64::try_from(times).unwrap_or(u64::MAX / 2)
        });
        self.head.len() as u64 + self.printed_lines() + repeated + u64::from(self.tail.is_some())
    }

    fn printed_lines(&self) -> u64 {
        self.printed.as_ref().map_or(0, |printed| printed.len())
    }

    /// Number of the first line that can still be read, of `len` lines.
    pub fn first(&self, len: u64) -> u64 {
        let kept = self.printed.as_ref().map_or(0, |printed| printed.first());
        let kept = if kept > 0 { self.head.len() as u64 + kept } else { 0 };
        len.saturating_sub(LOG_LINES).max(kept)
    }

    /// The line with this number, which must be below [`Log::len`].
    pub fn line(&self, number: u64) -> LogLine {
        if let Some((stderr, text)) = usize::try_from(number).ok().and_then(|number| self.head.get(number)) {
            // Lines of the same moment get increasing times, so that sorting by time keeps their order.
            let at = later(self.start, Duration::from_micros(number));
            return LogLine {
                at: self.end.map_or(at, |end| at.min(end)),
                stderr: *stderr,
                text: text.clone(),
            };
        }
        let behind_head = number - self.head.len() as u64;
        if let Some(printed) = self.printed.as_ref().filter(|printed| behind_head < printed.len()) {
            let gone = || LogLine { at: self.start, stderr: false, text: String::new() };
            return printed.line(behind_head).cloned().unwrap_or_else(gone);
        }
        let n = behind_head - self.printed_lines() + 1;
        match (&self.line, &self.tail, self.end) {
            (Some((text, every)), _, _) => {
                let nanos = every.as_nanos().saturating_mul(u128::from(n));
                let after = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
                let text = text.replace("{n}", &n.to_string());
                LogLine { at: later(self.start, after), stderr: false, text }
            }
            (None, Some(tail), Some(end)) => LogLine { at: end, stderr: false, text: tail.clone() },
            (None, _, _) => LogLine { at: self.start, stderr: false, text: String::new() },
        }
    }

    /// Whether the run has ended, so that no more lines follow.
    pub fn ended(&self) -> bool {
        self.end.is_some()
    }

    /// When the next scripted line is due; `None` if no scripted line follows.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let (_, every) = self.line.as_ref().filter(|_| self.end.is_none())?;
        let n = self.len(now) - self.head.len() as u64 + 1;
        let nanos = every.as_nanos().saturating_mul(u128::from(n));
        Some(later(self.start, Duration::from_nanos(u64::try_from(nanos).ok()?)))
    }
}
