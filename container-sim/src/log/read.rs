//! Reading a log as a kubelet does: which lines, in which form, and when to stop. Pure.

use super::{Log, LogLine};
use crate::limits::LOG_CHUNK;
use crate::time::later;
use jiff::{SignedDuration, Timestamp};
use std::fmt::Write as _;

/// Which lines of a log are read, and in which form. The default is all lines, without timestamps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Only lines of this number of most recent seconds. Takes precedence over `since_time`.
    pub since_seconds: Option<i64>,
    /// Only lines of this time or later.
    pub since_time: Option<Timestamp>,
    /// Only the newest lines, counted before all other conditions apply.
    pub tail_lines: Option<u64>,
    /// Bytes after which the text is cut.
    pub limit_bytes: Option<usize>,
    /// Whether each line starts with its time.
    pub timestamps: bool,
    /// The stream whose lines are read.
    pub stream: LogStream,
}

/// The streams of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output and standard error.
    #[default]
    All,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A position in a log, and how its lines are read.
#[derive(Clone, Debug)]
pub struct LogReader {
    /// Number of the next line.
    number: u64,
    since: Option<Timestamp>,
    left: Option<usize>,
    timestamps: bool,
    stdout: bool,
    stderr: bool,
}

/// The caller's next step after [`LogReader::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogStep {
    /// Send this text on the channel (1 is standard output, 2 is standard error), then step again.
    Send(u32, String),
    /// No line is available yet; [`LogReader::next`] says when one may be.
    Wait,
    /// The limit of bytes is reached.
    Enough,
}

impl LogReader {
    /// A reader that starts at `now` with the lines that `query` selects.
    pub fn new(query: &LogQuery, log: &Log, now: Timestamp) -> Self {
        let seconds = query
            .since_seconds
            .map(|seconds| now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN));
        let len = log.len(now);
        let number = log.first(len).max(query.tail_lines.map_or(0, |lines| len.saturating_sub(lines)));
        Self {
            number,
            since: seconds.or(query.since_time),
            left: query.limit_bytes,
            timestamps: query.timestamps,
            stdout: query.stream != LogStream::Stderr,
            stderr: query.stream != LogStream::Stdout,
        }
    }

    /// A reader of the lines after `now`, without timestamps: what an attached terminal shows.
    pub fn from_now(log: &Log, now: Timestamp) -> Self {
        let query = LogQuery { tail_lines: Some(0), ..LogQuery::default() };
        Self::new(&query, log, now)
    }

    /// Reads the lines that are available at `now`, up to about 16 KiB of one stream.
    pub fn step(&mut self, log: &Log, now: Timestamp) -> LogStep {
        if self.left == Some(0) {
            return LogStep::Enough;
        }
        let len = log.len(now);
        self.number = self.number.max(log.first(len));
        let (mut text, mut channel) = (String::new(), None);
        while self.number < len && text.len() < LOG_CHUNK {
            let line = log.line(self.number);
            let of = if line.stderr { 2 } else { 1 };
            if *channel.get_or_insert(of) != of {
                if text.is_empty() {
                    channel = Some(of);
                } else {
                    break;
                }
            }
            self.number += 1;
            if self.wanted(&line) {
                self.write(&line, &mut text);
            }
        }
        if let Some(left) = &mut self.left {
            let mut end = text.len().min(*left);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            *left = if end < text.len() { 0 } else { *left - end };
            text.truncate(end);
        }
        match (text.is_empty(), self.number < len) {
            (false, _) => LogStep::Send(channel.unwrap_or(1), text),
            (true, true) => self.step(log, now),
            (true, false) if self.left == Some(0) => LogStep::Enough,
            (true, false) => LogStep::Wait,
        }
    }

    fn wanted(&self, line: &LogLine) -> bool {
        let stream = if line.stderr { self.stderr } else { self.stdout };
        stream && self.since.is_none_or(|since| line.at >= since)
    }

    fn write(&self, line: &LogLine, text: &mut String) {
        if self.timestamps {
            let _ = write!(text, "{:.9} ", line.at);
        }
        text.push_str(&line.text);
        text.push('\n');
    }

    /// When the next line may be available, if nothing happens to the container before.
    pub fn next(&self, log: &Log, now: Timestamp) -> Option<Timestamp> {
        // Always later than `now`, so that a caller that waits until then makes progress.
        log.next(now).map(|at| at.max(later(now, std::time::Duration::from_nanos(1))))
    }
}
