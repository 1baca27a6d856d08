//! A percentage for long work, shown only if standard error is a terminal.

use std::io::{IsTerminal, Write};

/// Shows a percentage on standard error; wipes it away when dropped.
pub(super) struct Meter {
    verb: &'static str,
    shown: Option<u64>,
    terminal: bool,
}

impl Meter {
    /// `verb` is what has been done to the part that is done.
    pub(super) fn new(verb: &'static str) -> Self {
        Self { verb, shown: None, terminal: std::io::stderr().is_terminal() }
    }

    pub(super) fn at(&mut self, done: u64, total: u64) {
        let percent = done.saturating_mul(100) / total.max(1);
        if self.terminal && self.shown != Some(percent) {
            let _ = write!(std::io::stderr(), "\r{percent:3} % {}", self.verb);
            self.shown = Some(percent);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:32}\r", "");
        }
    }
}
