//! Words: quotes, backslashes, and the expansions in them.

use super::text::{Parser, SyntaxError};
use super::{Dialect, Expansion, List, Operation, Parameter, Word, WordPart};
use std::sync::Arc;

/// Where a sequence of parts ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// A blank or operator outside of quotes.
    Word,
    /// A blank outside of quotes and parentheses: a regular expression of `[[ … =~ … ]]`.
    Regex,
    /// The closing double quote.
    Quote,
    /// The end of the text, in which `"` is an ordinary character.
    Text,
    /// `}`.
    Brace,
    /// `/` or `}`.
    Slash,
    /// `:` or `}`.
    Colon,
    /// `]`.
    Bracket,
}

/// The parts that are read, with the text that is not a part yet.
#[derive(Default)]
pub(super) struct Parts {
    all: Vec<WordPart>,
    plain: String,
}

impl Parts {
    /// Adds unquoted text.
    fn text(&mut self, c: char) {
        self.plain.push(c);
    }

    fn push(&mut self, part: WordPart) {
        self.flush(false);
        self.all.push(part);
    }

    fn flush(&mut self, quoted: bool) {
        if !self.plain.is_empty() {
            let text = std::mem::take(&mut self.plain);
            self.all.push(if quoted { WordPart::Quoted(text) } else { WordPart::Text(text) });
        }
    }
}

/// The word of a here-document: expansions, and no quotes.
pub(in crate::shell) fn here_document(parser: &mut Parser<'_>) -> Result<Word, SyntaxError> {
    parser.parts(Stop::Text, true)
}

/// The word of an arithmetic expression: expansions; quotes are dropped when it is evaluated.
pub(in crate::shell) fn arithmetic_text(parser: &mut Parser<'_>) -> Result<Word, SyntaxError> {
    parser.parts(Stop::Text, true)
}

impl Parser<'_> {
    /// A word; one must come next.
    pub(super) fn word(&mut self) -> Result<Word, SyntaxError> {
        self.parts(Stop::Word, false)
    }

    pub(super) fn regex_word(&mut self) -> Result<Word, SyntaxError> {
        self.parts(Stop::Regex, false)
    }

    /// A subscript and its `]`.
    pub(super) fn subscript(&mut self) -> Result<Word, SyntaxError> {
        let word = self.parts(Stop::Bracket, false)?;
        if self.skip("]") { Ok(word) } else { Err(self.unexpected("]")) }
    }

    /// Parts up to `stop`, which is not passed over. In double quotes (`quoted`) only `$`, backquotes and some backslashes count.
    pub(super) fn parts(&mut self, stop: Stop, quoted: bool) -> Result<Word, SyntaxError> {
        let mut parts = Parts::default();
        let mut open = 0usize;
        while let Some(c) = self.peek().filter(|c| !self.is_stop(stop, *c, open)) {
            match c {
                '(' if stop == Stop::Regex => open += 1,
                ')' if stop == Stop::Regex => open = open.saturating_sub(1),
                _ => {}
            }
            match c {
                '\\' => self.backslash(&mut parts, stop, quoted),
                '$' => {
                    let part = self.dollar(quoted)?;
                    match part {
                        Some(part) => {
                            parts.flush(quoted);
                            parts.all.push(part);
                        }
                        None => parts.text('$'),
                    }
                }
                '`' => {
                    parts.flush(quoted);
                    self.at += 1;
                    let list = self.backquotes(quoted)?;
                    parts.all.push(WordPart::Expanded(Expansion::Output(list), quoted));
                }
                '\'' if !quoted => {
                    self.at += 1;
                    let Some(length) = self.rest().find('\'') else {
                        self.at = self.text.len();
                        return Err(self.incomplete("unterminated quoted string"));
                    };
                    parts.push(WordPart::Quoted(self.rest()[..length].to_owned()));
                    self.at += length + 1;
                }
                '"' if stop != Stop::Text => {
                    self.at += 1;
                    parts.flush(quoted);
                    self.double_quotes(&mut parts)?;
                }
                c => {
                    self.at += c.len_utf8();
                    parts.text(c);
                }
            }
        }
        parts.flush(quoted);
        Ok(Word(parts.all))
    }

    fn is_stop(&self, stop: Stop, c: char, open: usize) -> bool {
        match stop {
            Stop::Word => matches!(c, ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | '<' | '>' | '(' | ')'),
            Stop::Regex => open == 0 && matches!(c, ' ' | '\t' | '\n'),
            Stop::Quote => c == '"',
            Stop::Text => false,
            Stop::Brace => c == '}',
            Stop::Slash => matches!(c, '/' | '}'),
            Stop::Colon => matches!(c, ':' | '}'),
            Stop::Bracket => matches!(c, ']' | '\n'),
        }
    }

    fn backslash(&mut self, parts: &mut Parts, stop: Stop, quoted: bool) {
        self.at += 1;
        let Some(c) = self.next_char() else { return parts.text('\\') };
        if c == '\n' {
            return;
        }
        if !quoted {
            return parts.push(WordPart::Quoted(c.to_string()));
        }
        let escapes = matches!(c, '$' | '`' | '\\')
            || (c == '"' && stop != Stop::Text)
            || (c == '}' && stop == Stop::Brace);
        if !escapes {
            parts.text('\\');
        }
        parts.text(c);
    }

    /// The parts up to the closing quote, which is passed over.
    fn double_quotes(&mut self, parts: &mut Parts) -> Result<(), SyntaxError> {
        let inside = self.parts(Stop::Quote, true)?;
        if !self.skip("\"") {
            return Err(self.incomplete("unterminated quoted string"));
        }
        if inside.0.is_empty() {
            parts.all.push(WordPart::Quoted(String::new()));
        }
        parts.all.extend(inside.0);
        Ok(())
    }

    /// The expansion that begins with `$`; `None` if the `$` stands for itself.
    fn dollar(&mut self, quoted: bool) -> Result<Option<WordPart>, SyntaxError> {
        self.at += 1;
        if self.rest().starts_with("((") {
            let start = self.at;
            self.at += 2;
            if let Some(text) = self.parenthesised().map(str::to_owned) {
                self.enter()?;
                let word = arithmetic_text(&mut self.inner(&text))?;
                self.leave();
                return Ok(Some(WordPart::Expanded(Expansion::Arithmetic(word), quoted)));
            }
            self.at = start;
        }
        if self.skip("(") {
            let (list, _) = self.list(&[")"])?;
            return Ok(Some(WordPart::Expanded(Expansion::Output(list), quoted)));
        }
        if self.skip("{") {
            self.enter()?;
            let parameter = self.braced(quoted)?;
            self.leave();
            return Ok(Some(WordPart::Expanded(Expansion::Parameter(Box::new(parameter)), quoted)));
        }
        if !quoted && self.skip("'") {
            return Ok(Some(WordPart::Quoted(self.c_quotes()?)));
        }
        if !quoted && self.dialect == Dialect::Bash && self.rest().starts_with('"') {
            // A translated string: the text itself.
            return Ok(Some(WordPart::Text(String::new())));
        }
        let rest = self.rest();
        let length = match rest.chars().next() {
            Some('@' | '*' | '#' | '?' | '-' | '$' | '!' | '0'..='9') => 1,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())
            }
            _ => return Ok(None),
        };
        let name = rest[..length].to_owned();
        self.at += length;
        let parameter = Parameter { name, index: None, indirect: false, operation: Operation::None };
        Ok(Some(WordPart::Expanded(Expansion::Parameter(Box::new(parameter)), quoted)))
    }

    /// The commands between backquotes; the opening one is passed over.
    fn backquotes(&mut self, quoted: bool) -> Result<Arc<List>, SyntaxError> {
        let mut text = String::new();
        loop {
            match self.next_char() {
                None => return Err(self.incomplete("unterminated quoted string")),
                Some('`') => break,
                Some('\\') => match self.next_char() {
                    Some(c @ ('`' | '\\' | '$')) => text.push(c),
                    Some('"') if quoted => text.push('"'),
                    Some(c) => text.extend(['\\', c]),
                    None => text.push('\\'),
                },
                Some(c) => text.push(c),
            }
        }
        self.enter()?;
        let list = self.inner(&text).all()?;
        self.leave();
        Ok(Arc::new(list))
    }

    /// The text of `$'…'`; the opening quote is passed over.
    fn c_quotes(&mut self) -> Result<String, SyntaxError> {
        let mut raw = String::new();
        loop {
            match self.next_char() {
                None => return Err(self.incomplete("unterminated quoted string")),
                Some('\'') => break,
                Some('\\') => {
                    raw.push('\\');
                    raw.extend(self.next_char());
                }
                Some(c) => raw.push(c),
            }
        }
        let bytes = crate::shell::escape::c_string(&raw);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
