//! A history as a file: one JSON value per line, so that it can be read by people, filtered with line tools and cut short.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::{Call, History, Start, Watch};

/// What a line holds.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Start(Start),
    Call(Call),
    Watch(Watch),
}

/// The same without owning it.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum LineRef<'a> {
    Start(&'a Start),
    Call(&'a Call),
    Watch(&'a Watch),
}

/// Why a file could not be read as a history.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused to read it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not what it should be.
    #[error("line {number}: {source}")]
    Line {
        /// Counted from one.
        number: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl History {
    /// Writes it, a line for the start, one for each call, one for each watch. Give it a buffered writer.
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

    /// Reads what [`History::write`] wrote, the lines in any order; empty lines count for nothing.
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
