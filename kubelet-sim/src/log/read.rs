//! Reading a log with the options of a request: which lines, in which form, and when it is enough. Pure.

use super::{Line, Log};
use crate::limits::LOG_CHUNK;
use crate::time::later;
use jiff::{SignedDuration, Timestamp};
use kstore_client::LogOptions;
use std::fmt::Write as _;

/// A log that is being read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The next line.
    place: u64,
    since: Option<Timestamp>,
    left: Option<usize>,
    timestamps: bool,
    stdout: bool,
    stderr: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this on the channel (1 or 2) and step again.
    Send(u32, String),
    /// Nothing more is there yet.
    Wait,
    /// As much was read as was asked for.
    Enough,
}

impl Reading {
    /// Begins at `now` with what `options` ask for.
    pub fn new(options: &LogOptions, log: &Log, now: Timestamp) -> Self {
        let seconds = options
            .since_seconds
            .map(|seconds| now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN));
        let time = options.since_time.as_deref().and_then(|time| time.parse().ok());
        let len = log.len(now);
        let tail = options.tail_lines.and_then(|lines| u64::try_from(lines).ok());
        let place = log.first(len).max(tail.map_or(0, |lines| len.saturating_sub(lines)));
        Self {
            place,
            since: seconds.or(time),
            left: options.limit_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            timestamps: options.timestamps,
            stdout: options.stream != "Stderr",
            stderr: options.stream != "Stdout",
        }
    }

    /// Only what comes after `now`, without times: what an attached terminal shows.
    pub fn from_now(log: &Log, now: Timestamp) -> Self {
        let options = LogOptions { tail_lines: Some(0), ..LogOptions::default() };
        Self::new(&options, log, now)
    }

    /// Takes what there is at `now`, up to about `LOG_CHUNK` bytes of one stream.
    pub fn step(&mut self, log: &Log, now: Timestamp) -> Step {
        if self.left == Some(0) {
            return Step::Enough;
        }
        let len = log.len(now);
        self.place = self.place.max(log.first(len));
        let (mut text, mut channel) = (String::new(), None);
        while self.place < len && text.len() < LOG_CHUNK {
            let line = log.line(self.place);
            let of = if line.stderr { 2 } else { 1 };
            if *channel.get_or_insert(of) != of {
                if text.is_empty() {
                    channel = Some(of);
                } else {
                    break;
                }
            }
            self.place += 1;
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
        match (text.is_empty(), self.place < len) {
            (false, _) => Step::Send(channel.unwrap_or(1), text),
            (true, true) => self.step(log, now),
            (true, false) if self.left == Some(0) => Step::Enough,
            (true, false) => Step::Wait,
        }
    }

    fn wanted(&self, line: &Line) -> bool {
        let stream = if line.stderr { self.stderr } else { self.stdout };
        stream && self.since.is_none_or(|since| line.at >= since)
    }

    fn write(&self, line: &Line, text: &mut String) {
        if self.timestamps {
            let _ = write!(text, "{:.9} ", line.at);
        }
        text.push_str(&line.text);
        text.push('\n');
    }

    /// When there may be more, if nothing happens to the container.
    pub fn next(&self, log: &Log, now: Timestamp) -> Option<Timestamp> {
        // Not in the past, so that whoever waits for it makes progress.
        log.next(now).map(|at| at.max(later(now, std::time::Duration::from_nanos(1))))
    }
}
