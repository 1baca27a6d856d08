//! The text of an expression, and errors that show the line of the text they point at.
//!
//! Positions are offsets in code points, not bytes: columns of errors count code points.

use crate::limits::LISTED_ERRORS;
use std::fmt;

/// The offset of errors of the whole expression.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The text of an expression as code points.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    chars: Vec<char>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Self { chars: text.chars().collect() }
    }

    pub(crate) fn chars(&self) -> &[char] {
        &self.chars
    }

    /// The text between two offsets.
    pub(crate) fn slice(&self, start: u32, end: u32) -> String {
        let end = (end as usize).min(self.chars.len());
        self.chars[(start as usize).min(end)..end].iter().collect()
    }

    /// Line, from 1, and column, from 0, of an offset.
    fn location(&self, offset: u32) -> (i64, i64) {
        if offset == NOWHERE {
            return (-1, -1);
        }
        let before = &self.chars[..(offset as usize).min(self.chars.len())];
        let line = before.iter().filter(|c| **c == '\n').count();
        let column = before.iter().rev().take_while(|c| **c != '\n').count();
        (line as i64 + 1, column as i64)
    }

    fn line(&self, number: i64) -> Option<String> {
        let index = usize::try_from(number - 1).ok()?;
        let line = self.chars.split(|c| *c == '\n').nth(index)?;
        Some(line.iter().map(|c| if *c == '\t' { ' ' } else { *c }).collect())
    }
}

/// One error of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorEntry {
    /// Line, from 1; -1 if the error belongs to the whole expression.
    pub line: i64,
    /// Column in code points, from 1; 0 if the error belongs to the whole expression.
    pub column: i64,
    /// The message, without the position.
    pub message: String,
    snippet: Option<String>,
}

impl fmt::Display for ErrorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR: <input>:{}:{}: {}", self.line, self.column, self.message)?;
        let Some(snippet) = &self.snippet else { return Ok(()) };
        write!(f, "\n | {snippet}\n | ")?;
        let mut chars = snippet.chars();
        for c in chars.by_ref().take(usize::try_from(self.column - 1).unwrap_or(0)) {
            f.write_str(if c.is_ascii() { "." } else { "．" })?;
        }
        f.write_str(if chars.next().is_none_or(|c| c.is_ascii()) { "^" } else { "＾" })
    }
}

/// The errors of an expression, ordered by position. Errors beyond the first [`LISTED_ERRORS`] are
/// only counted.
///
/// Displayed, each error takes three lines: position and message, the line of the text, and a mark below the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    entries: Vec<ErrorEntry>,
    more: usize,
}

impl Errors {
    /// The first errors, ordered by position.
    #[must_use]
    pub fn entries(&self) -> &[ErrorEntry] {
        &self.entries
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{entry}")?;
        }
        if self.more > 0 { write!(f, "\n{} more errors were truncated", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for Errors {}

/// Collects the errors that the parser or the checker finds.
#[derive(Debug, Default)]
pub(crate) struct ErrorSink {
    found: Vec<(u32, String)>,
}

impl ErrorSink {
    pub(crate) fn report(&mut self, offset: u32, message: impl Into<String>) {
        self.found.push((offset, message.into()));
    }

    /// Succeeds if no error was found, else fails with the errors, ordered by position.
    pub(crate) fn finish(&mut self, source: &Source) -> Result<(), Errors> {
        if self.found.is_empty() { Ok(()) } else { Err(self.take_errors(source)) }
    }

    /// The errors, ordered by position.
    pub(crate) fn take_errors(&mut self, source: &Source) -> Errors {
        let mut found = std::mem::take(&mut self.found);
        // Errors of the whole expression come first.
        found.sort_by_key(|(offset, _)| offset.wrapping_add(1));
        let more = found.len().saturating_sub(LISTED_ERRORS);
        found.truncate(LISTED_ERRORS);
        let entry = |(offset, message): (u32, String)| {
            let (line, column) = source.location(offset);
            ErrorEntry { line, column: column + 1, message, snippet: source.line(line) }
        };
        let entries = found.into_iter().map(entry).collect();
        Errors { entries, more }
    }
}
