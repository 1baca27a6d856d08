//! What a simulated container has logged, computed from its script and from when it ran instead of being kept: any line can be
//! had at any time, and a restart of the kubelet loses none. Pure.

mod choose;
mod printed;
mod read;
#[cfg(test)]
mod tests;

pub use choose::{Chosen, choose, find};
pub use printed::Printed;
pub use read::{Reading, Step};

use crate::behavior::LogScript;
use crate::limits::LOG_LINES;
use crate::time::{between, go_duration, later};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// One run of a container, as far as its log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The runtime's name for it.
    pub id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended and with which code, if it has.
    pub ended: Option<(Timestamp, i32)>,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When it was logged.
    pub at: Timestamp,
    /// On which stream.
    pub stderr: bool,
    /// Without its end.
    pub text: String,
}

/// What a container's own command has to do with its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// It has none.
    #[default]
    Absent,
    /// It is not run, for this reason.
    NotRun(String),
    /// It ran in an earlier process, and what it printed is gone.
    Forgotten,
    /// It has printed this.
    Ran(Arc<Printed>),
}

/// Everything that one run logs, in order. Lines are counted from zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    head: Vec<(bool, String)>,
    /// What the container's command has printed, after the head.
    printed: Option<Arc<Printed>>,
    line: Option<(String, Duration)>,
    tail: Option<String>,
    start: Timestamp,
    end: Option<Timestamp>,
}

impl Log {
    /// The log of `run` of the container called `name`.
    pub fn of(script: &LogScript, name: &str, image: &str, run: &Run, command: Command) -> Self {
        let ran = matches!(command, Command::Ran(_));
        let line = match (&script.line, script.every) {
            (line, Some(every)) if !ran => Some((line.clone().unwrap_or_else(|| "{n}".to_owned()), every)),
            (_, _) => None,
        };
        let scripted = script.lines.is_some() || line.is_some() || ran;
        let truth = || {
            let more = match &command {
                Command::NotRun(why) => format!("; {why}"),
                Command::Forgotten => "; what its command printed is not kept across restarts".to_owned(),
                Command::Absent | Command::Ran(_) => String::new(),
            };
            vec![(false, format!("simulated container {name} started (image {image}){more}"))]
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
            Command::Ran(printed) => Some(printed),
            Command::Absent | Command::NotRun(_) | Command::Forgotten => None,
        };
        Self { head, printed, line, tail, start: run.started_at, end: run.ended.map(|(at, _)| at) }
    }

    /// How many lines there are at `now`.
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

    /// The first line that is still kept when there are `len`.
    pub fn first(&self, len: u64) -> u64 {
        let kept = self.printed.as_ref().map_or(0, |printed| printed.first());
        let kept = if kept > 0 { self.head.len() as u64 + kept } else { 0 };
        len.saturating_sub(LOG_LINES).max(kept)
    }

    /// The line at a place below [`Log::len`].
    pub fn line(&self, place: u64) -> Line {
        if let Some((stderr, text)) = usize::try_from(place).ok().and_then(|place| self.head.get(place)) {
            // Lines of one moment still have an order.
            let at = later(self.start, Duration::from_micros(place));
            return Line { at: self.end.map_or(at, |end| at.min(end)), stderr: *stderr, text: text.clone() };
        }
        if let Some(printed) = &self.printed {
            let gone = || Line { at: self.start, stderr: false, text: String::new() };
            return printed.line(place - self.head.len() as u64).cloned().unwrap_or_else(gone);
        }
        let n = place - self.head.len() as u64 + 1;
        match (&self.line, &self.tail, self.end) {
            (Some((text, every)), _, _) => {
                let nanos = every.as_nanos().saturating_mul(u128::from(n));
                let after = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
                let text = text.replace("{n}", &n.to_string());
                Line { at: later(self.start, after), stderr: false, text }
            }
            (None, Some(tail), Some(end)) => Line { at: end, stderr: false, text: tail.clone() },
            (None, _, _) => Line { at: self.start, stderr: false, text: String::new() },
        }
    }

    /// Whether nothing more comes.
    pub fn ended(&self) -> bool {
        self.end.is_some()
    }

    /// When the next line comes, if nothing happens to the container.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let (_, every) = self.line.as_ref().filter(|_| self.end.is_none())?;
        let n = self.len(now) - self.head.len() as u64 + 1;
        let nanos = every.as_nanos().saturating_mul(u128::from(n));
        Some(later(self.start, Duration::from_nanos(u64::try_from(nanos).ok()?)))
    }
}
