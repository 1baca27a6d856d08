//! A history as a file with one JSON value per line, so that line tools can filter and truncate it.

use super::{Call, History, InitialState, Watch};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// The content of a line, for reading.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Start(InitialState),
    Call(Call),
    Watch(Watch),
}

/// The content of a line, for writing.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum LineRef<'a> {
    Start(&'a InitialState),
    Call(&'a Call),
    Watch(&'a Watch),
}

/// Why a file cannot be read as a history.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not a valid entry.
    #[error("line {number}: {source}")]
    Line {
        /// The line number, from one.
        number: usize,
        /// The parse error.
        source: serde_json::Error,
    },
}

impl History {
    /// Writes the history: a line for the start, one for each call, one for each watch. Use a buffered writer.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let calls = self.calls.iter().map(LineRef::Call);
        let watches = self.watches.iter().map(LineRef::Watch);
        for line in std::iter::once(LineRef::Start(&self.start)).chain(calls).chain(watches) {
            serde_json::to_writer(&mut *to, &line)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Reads a history that [`History::write`] wrote, with the lines in any order; skips empty lines.
    ///
    /// # Errors
    /// If it cannot be read, or a line is of another kind.
    pub fn read(from: impl BufRead) -> Result<Self, FileError> {
        let mut history = Self::default();
        for (number, line) in (1..).zip(from.lines()) {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(&line).map_err(|source| FileError::Line { number, source })? {
                Line::Start(start) => history.start = start,
                Line::Call(call) => history.calls.push(call),
                Line::Watch(watch) => history.watches.push(watch),
            }
        }
        Ok(history)
    }
}
