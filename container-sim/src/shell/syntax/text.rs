//! The parser's place in a script: characters, blanks, newlines and pending here-documents.

use super::{Dialect, List, Word, here_document};
use crate::limits::NESTED_COMMANDS;
use std::sync::{Arc, OnceLock};

/// The reason of a script that is nested too deeply, which a real shell may parse.
pub(in crate::shell) const TOO_DEEP: &str = "nested too deeply";

/// Why a script cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::shell) struct SyntaxError {
    /// The reason, as busybox prints it behind `syntax error: `.
    pub(in crate::shell) text: String,
    /// Whether more text could complete the script.
    pub(in crate::shell) is_incomplete: bool,
    /// The line of the error, from 1.
    pub(in crate::shell) line: usize,
}

/// A here-document whose text begins after the current line.
struct PendingHere {
    delimiter: String,
    /// `<<-`: tabs at the beginning of lines are dropped.
    strips_tabs: bool,
    /// The delimiter is quoted: nothing is expanded.
    is_quoted: bool,
    text: Arc<OnceLock<Word>>,
}

/// Reads the commands of a text.
pub(in crate::shell) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) dialect: Dialect,
    /// How many commands and substitutions enclose the current one.
    pub(super) depth: usize,
    /// The line at which the text begins.
    first_line: usize,
    /// The last offset whose line was asked for, and its line: lines are counted once.
    counted: (usize, usize),
    heres: Vec<PendingHere>,
}

impl<'a> Parser<'a> {
    /// A parser at the offset `at` of `text`, whose first line has the number `first_line`.
    pub(in crate::shell) fn new(text: &'a str, at: usize, dialect: Dialect, first_line: usize) -> Self {
        Self { text, at, dialect, depth: 0, first_line, counted: (at, first_line), heres: Vec::new() }
    }

    /// A parser of a text inside of this one.
    pub(super) fn inner<'b>(&self, text: &'b str) -> Parser<'b> {
        Parser { depth: self.depth, ..Parser::new(text, 0, self.dialect, self.first_line) }
    }

    /// The commands up to the end of the next line that has some; `None` at the end of the text. Returns their end too.
    pub(in crate::shell) fn next_line(&mut self) -> Result<Option<List>, SyntaxError> {
        self.skip_newlines()?;
        if self.is_at_end() {
            return Ok(None);
        }
        let mut list = List::new();
        loop {
            list.push(self.list_entry()?);
            self.skip_blanks();
            if self.is_at_end() || self.peek() == Some('\n') {
                break;
            }
        }
        if self.peek() == Some('\n') {
            self.newline()?;
        } else if !self.heres.is_empty() {
            // The text ends where the here-document should begin.
            self.read_heres()?;
        }
        Ok(Some(list))
    }

    /// The whole text.
    pub(in crate::shell) fn all(mut self) -> Result<List, SyntaxError> {
        let mut list = List::new();
        while let Some(line) = self.next_line()? {
            list.extend(line);
        }
        Ok(list)
    }

    /// The offset of what is not read yet.
    pub(in crate::shell) fn offset(&self) -> usize {
        self.at
    }

    /// The line of the current place, from 1.
    pub(in crate::shell) fn line(&mut self) -> usize {
        let (at, line) = self.counted;
        if self.at > at {
            let newlines = self.text.as_bytes()[at..self.at].iter().filter(|byte| **byte == b'\n').count();
            self.counted = (self.at, line + newlines);
        }
        self.counted.1
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next_char(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Passes over `text` if it comes next.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Passes over blanks, continued lines and a comment.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\r']);
            self.at += rest.len() - trimmed.len();
            if !self.skip("\\\n") {
                break;
            }
        }
        if self.peek() == Some('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Passes over blanks and newlines.
    pub(super) fn skip_newlines(&mut self) -> Result<(), SyntaxError> {
        self.skip_blanks();
        while self.peek() == Some('\n') {
            self.newline()?;
            self.skip_blanks();
        }
        Ok(())
    }

    /// Passes over a newline, and the here-documents behind it.
    pub(super) fn newline(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        self.read_heres()
    }

    /// Notes a here-document whose text follows the current line.
    pub(super) fn expect_here(
        &mut self,
        (delimiter, is_quoted): (String, bool),
        strips_tabs: bool,
    ) -> Arc<OnceLock<Word>> {
        let text = Arc::default();
        self.heres.push(PendingHere { delimiter, strips_tabs, is_quoted, text: Arc::clone(&text) });
        text
    }

    fn read_heres(&mut self) -> Result<(), SyntaxError> {
        for here in std::mem::take(&mut self.heres) {
            let mut body = String::new();
            while !self.is_at_end() {
                let rest = self.rest();
                let (line, length) = rest.find('\n').map_or((rest, rest.len()), |at| (&rest[..at], at + 1));
                self.at += length;
                let shown = if here.strips_tabs { line.trim_start_matches('\t') } else { line };
                if shown == here.delimiter {
                    break;
                }
                body.push_str(shown);
                body.push_str(&rest[line.len()..length]);
            }
            let word = match here.is_quoted {
                true => Word::literal_of(&body),
                false => here_document(&mut self.inner(&body))?,
            };
            // The cell is new, and filled only here.
            let _ = here.text.set(word);
        }
        Ok(())
    }

    /// Counts one more enclosing command.
    pub(super) fn enter(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > NESTED_COMMANDS {
            return Err(self.error(TOO_DEEP));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn error(&mut self, text: impl Into<String>) -> SyntaxError {
        SyntaxError { text: text.into(), is_incomplete: false, line: self.line() }
    }

    pub(super) fn incomplete(&mut self, text: impl Into<String>) -> SyntaxError {
        SyntaxError { is_incomplete: true, ..self.error(text) }
    }

    /// The error that what comes next has no place here; `expected` is the word that would have one, or is empty.
    pub(super) fn unexpected(&mut self, expected: &str) -> SyntaxError {
        let expecting =
            if expected.is_empty() { String::new() } else { format!(" (expecting \"{expected}\")") };
        if self.is_at_end() {
            return self.incomplete(format!("unexpected end of file{expecting}"));
        }
        let rest = self.rest();
        let operators = ["&&", "||", ";;", ";&", "\n", "(", ")", "&", "|", ";"];
        let token = match operators.iter().find(|operator| rest.starts_with(**operator)) {
            Some(&"\n") => "newline".to_owned(),
            Some(operator) => format!("\"{operator}\""),
            None if rest.starts_with(['<', '>']) => "redirection".to_owned(),
            None => {
                let end = rest.find([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')']);
                format!("\"{}\"", &rest[..end.unwrap_or(rest.len())])
            }
        };
        self.error(format!("unexpected {token}{expecting}"))
    }
}
