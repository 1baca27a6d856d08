//! The lines that a container's command has printed, as many as are kept.

use super::Line;
use crate::limits::{LOG_LINES, PRINTED_BYTES};
use std::collections::VecDeque;

/// What one run has printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    lines: VecDeque<Line>,
    /// Lines that came before those and are no longer kept.
    dropped: u64,
    bytes: usize,
}

impl Printed {
    /// Adds a line; the oldest ones make way.
    pub fn push(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() as u64 > LOG_LINES || self.bytes > PRINTED_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
            self.dropped += 1;
        }
    }

    /// How many lines there have been.
    pub fn len(&self) -> u64 {
        self.dropped + self.lines.len() as u64
    }

    /// Whether nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of the first line that is kept.
    pub fn first(&self) -> u64 {
        self.dropped
    }

    /// The line at a place, counted from zero; `None` if it is not kept.
    pub fn line(&self, place: u64) -> Option<&Line> {
        self.lines.get(usize::try_from(place.checked_sub(self.dropped)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn the_oldest_lines_make_way_for_new_ones() {
        let mut printed = Printed::default();
        let text = "x".repeat(PRINTED_BYTES / 4);
        for _ in 0..10 {
            printed.push(Line { at: Timestamp::UNIX_EPOCH, stderr: false, text: text.clone() });
        }
        assert_eq!((printed.len(), printed.first()), (10, 6));
        assert!(printed.line(5).is_none() && printed.line(6).is_some() && printed.line(10).is_none());
    }
}
