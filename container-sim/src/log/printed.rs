//! The lines that a container's command printed, bounded in number and bytes; the oldest are dropped first.

use super::LogLine;
use crate::limits::{LOG_LINES, PRINTED_BYTES};
use std::collections::VecDeque;

/// The newest lines that one run printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrintedLines {
    lines: VecDeque<LogLine>,
    /// Number of dropped lines, which are older than `lines`.
    dropped: u64,
    bytes: usize,
}

impl PrintedLines {
    /// Adds a line and drops the oldest lines above the bounds.
    pub fn push(&mut self, line: LogLine) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() as u64 > LOG_LINES || self.bytes > PRINTED_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
            self.dropped += 1;
        }
    }

    /// Number of lines ever printed, dropped ones included.
    pub fn len(&self) -> u64 {
        self.dropped + self.lines.len() as u64
    }

    /// Whether no line was printed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of the first line that is not dropped.
    pub fn first(&self) -> u64 {
        self.dropped
    }

    /// The line with this number, from zero; `None` if it is dropped or not printed yet.
    pub fn line(&self, number: u64) -> Option<&LogLine> {
        self.lines.get(usize::try_from(number.checked_sub(self.dropped)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn the_oldest_lines_are_dropped_above_the_bound_of_bytes() {
        let mut printed = PrintedLines::default();
        let text = "x".repeat(PRINTED_BYTES / 4);
        for _ in 0..10 {
            printed.push(LogLine { at: Timestamp::UNIX_EPOCH, stderr: false, text: text.clone() });
        }
        assert_eq!((printed.len(), printed.first()), (10, 6));
        assert!(printed.line(5).is_none() && printed.line(6).is_some() && printed.line(10).is_none());
    }
}
