//! A progress display for long work. It prints only to a terminal, not to a file or pipe.

use std::io::{IsTerminal, Write};

/// Shows a percentage on standard error, and erases it on drop.
pub(super) struct ProgressMeter {
    verb: &'static str,
    shown: Option<u64>,
    is_terminal: bool,
}

impl ProgressMeter {
    /// `verb` is the participle shown after the percentage.
    pub(super) fn new(verb: &'static str) -> Self {
        Self { verb, shown: None, is_terminal: std::io::stderr().is_terminal() }
    }

    pub(super) fn at(&mut self, done: u64, total: u64) {
        let percent = done.saturating_mul(100) / total.max(1);
        if self.is_terminal && self.shown != Some(percent) {
            let _ = write!(std::io::stderr(), "\r{percent:3} % {}", self.verb);
            self.shown = Some(percent);
        }
    }
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r{:32}\r", "");
        }
    }
}
