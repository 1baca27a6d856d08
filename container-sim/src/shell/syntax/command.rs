//! Lists, pipelines, simple commands, assignments and redirections.

use super::text::{Parser, SyntaxError};
use super::{
    AssignedValue, Assignment, Command, CommandKind, Dialect, List, ListEntry, Pipeline, Redirect,
    RedirectTarget, Word, WordPart, is_name,
};
use std::sync::Arc;

/// Words that end a list; they have no place where a command begins.
const ENDS: [&str; 9] = ["then", "else", "elif", "fi", "do", "done", "esac", "}", "in"];

impl Parser<'_> {
    /// Commands up to one of `ends`, which is passed over and returned. `)` and `;;` are ends too if they are in the list.
    pub(super) fn list(&mut self, ends: &[&'static str]) -> Result<(Arc<List>, &'static str), SyntaxError> {
        self.enter()?;
        let mut list = List::new();
        let end = loop {
            self.skip_newlines()?;
            if let Some(end) = self.list_end(ends) {
                break end;
            }
            if self.is_at_end() {
                return Err(self.unexpected(ends.last().unwrap_or(&"")));
            }
            if !list.is_empty() && self.peek_word().is_some_and(|word| ENDS[..8].contains(&word)) {
                let expected = if ends.len() == 1 { ends[0] } else { "" };
                return Err(self.unexpected(expected));
            }
            list.push(self.list_entry()?);
            self.skip_blanks();
        };
        self.leave();
        Ok((Arc::new(list), end))
    }

    /// As [`Parser::list`], for lists that must not be empty.
    pub(super) fn block(&mut self, ends: &[&'static str]) -> Result<(Arc<List>, &'static str), SyntaxError> {
        self.skip_newlines()?;
        let start = self.at;
        let (list, end) = self.list(ends)?;
        if list.is_empty() {
            self.at = start;
            return Err(self.unexpected(""));
        }
        Ok((list, end))
    }

    fn list_end(&mut self, ends: &[&'static str]) -> Option<&'static str> {
        let rest = self.rest();
        let word = self.peek_word();
        let found = ends.iter().find(|end| match **end {
            ")" | ";;" | ";&" => rest.starts_with(**end),
            end => word == Some(end),
        });
        self.at += found.map_or(0, |end| end.len());
        found.copied()
    }

    /// The next word if it has neither quotes nor expansions, so that it can be a reserved word.
    pub(super) fn peek_word(&self) -> Option<&str> {
        let rest = self.rest();
        let end = rest.find([' ', '\t', '\n', '\r', ';', '&', '|', '<', '>', '(', ')']).unwrap_or(rest.len());
        let word = &rest[..end];
        (!word.is_empty() && !word.contains(['$', '\'', '"', '\\', '`'])).then_some(word)
    }

    /// One entry of a list with its separator.
    pub(super) fn list_entry(&mut self) -> Result<ListEntry, SyntaxError> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.skip_blanks();
            let and = match () {
                () if self.skip("&&") => true,
                () if self.skip("||") => false,
                () => break,
            };
            self.skip_newlines()?;
            rest.push((and, self.pipeline()?));
        }
        let background = self.peek() == Some('&') && !self.rest().starts_with("&>");
        let ended = self.rest().starts_with(";;") || self.rest().starts_with(";&");
        if background || (self.peek() == Some(';') && !ended) {
            self.at += 1;
        } else if !(self.is_at_end() || ended || self.rest().starts_with(['\n', ')'])) {
            return Err(self.unexpected(""));
        }
        Ok(ListEntry { first, rest, background })
    }

    fn pipeline(&mut self) -> Result<Pipeline, SyntaxError> {
        let mut negated = false;
        while self.peek_word() == Some("!") {
            self.at += 1;
            negated = !negated;
            self.skip_blanks();
        }
        let mut commands = vec![self.command()?];
        loop {
            self.skip_blanks();
            if self.rest().starts_with("||") || !self.skip("|") {
                return Ok(Pipeline { negated, commands });
            }
            if self.skip("&") {
                let last = commands.last_mut().and_then(Arc::get_mut);
                let both =
                    Redirect { descriptor: 2, target: RedirectTarget::Duplicate(Word::literal_of("1")) };
                last.expect("it was just made").redirects.push(both);
            }
            self.skip_newlines()?;
            commands.push(self.command()?);
        }
    }

    /// A command of any kind with its redirections.
    pub(super) fn command(&mut self) -> Result<Arc<Command>, SyntaxError> {
        self.skip_blanks();
        let line = self.line();
        if self.rest().starts_with('(') || self.peek_word().is_some() {
            if self.peek_word().is_some_and(|word| ENDS[..8].contains(&word)) {
                return Err(self.unexpected(""));
            }
            if let Some(kind) = self.compound()? {
                let mut redirects = Vec::new();
                self.skip_blanks();
                while let Some(redirect) = self.redirect()? {
                    redirects.push(redirect);
                    self.skip_blanks();
                }
                return Ok(Arc::new(Command { kind, redirects, line }));
            }
        }
        self.simple(line)
    }

    fn simple(&mut self, line: usize) -> Result<Arc<Command>, SyntaxError> {
        let (mut assignments, mut words, mut redirects) = (Vec::new(), Vec::<Word>::new(), Vec::new());
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')' | '<' | '>') => break,
                Some('(') => return Err(self.unexpected("")),
                Some(_) => {}
            }
            let declares = || {
                let first = words.first().and_then(Word::plain);
                matches!(first, Some("declare" | "local" | "export" | "readonly" | "typeset"))
            };
            if words.is_empty() {
                if let Some(assignment) = self.assignment()? {
                    assignments.push(assignment);
                    continue;
                }
            } else if self.dialect == Dialect::Bash
                && declares()
                && let Some(list) = self.declared_list()?
            {
                // The list is assigned first, then the name is declared.
                words.push(Word::literal_of(&list.name));
                assignments.push(list);
                continue;
            }
            words.push(self.word()?);
        }
        if assignments.is_empty() && words.is_empty() && redirects.is_empty() {
            return Err(self.unexpected(""));
        }
        Ok(Arc::new(Command { kind: CommandKind::Simple { assignments, words }, redirects, line }))
    }

    /// `NAME=(…)` behind `declare` and its like.
    fn declared_list(&mut self) -> Result<Option<Assignment>, SyntaxError> {
        let rest = self.rest();
        let name = &rest[..rest.find("=(").unwrap_or(0)];
        if is_name(name) { self.assignment() } else { Ok(None) }
    }

    /// An assignment, if one comes next.
    fn assignment(&mut self) -> Result<Option<Assignment>, SyntaxError> {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(length);
        if !is_name(name) {
            return Ok(None);
        }
        let (start, name) = (self.at, name.to_owned());
        let mut index = None;
        self.at += length;
        if self.dialect == Dialect::Bash && behind.starts_with('[') {
            self.at += 1;
            match self.subscript() {
                Ok(word) => index = Some(word),
                Err(_) => {
                    self.at = start;
                    return Ok(None);
                }
            }
        }
        let appends = self.dialect == Dialect::Bash && self.rest().starts_with("+=");
        self.at += usize::from(appends);
        if !self.skip("=") {
            self.at = start;
            return Ok(None);
        }
        let value = if self.dialect == Dialect::Bash && index.is_none() && self.skip("(") {
            AssignedValue::List(self.elements()?)
        } else {
            AssignedValue::Text(self.assigned_word()?)
        };
        Ok(Some(Assignment { name, index, appends, value }))
    }

    /// The value of an assignment, which may be empty.
    fn assigned_word(&mut self) -> Result<Word, SyntaxError> {
        match self.peek() {
            None | Some(' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | '<' | '>' | ')') => Ok(Word::default()),
            Some('(') => Err(self.unexpected("")),
            Some(_) => self.word(),
        }
    }

    /// The elements of a list in parentheses.
    fn elements(&mut self) -> Result<Vec<(Option<Word>, Word)>, SyntaxError> {
        let mut elements = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.skip(")") {
                return Ok(elements);
            }
            if self.is_at_end() || self.rest().starts_with([';', '&', '|', '<', '>', '(']) {
                return Err(self.unexpected(")"));
            }
            let start = self.at;
            if self.skip("[")
                && let Ok(index) = self.subscript()
                && self.skip("=")
            {
                let value = self.assigned_word()?;
                elements.push((Some(index), value));
                continue;
            }
            self.at = start;
            elements.push((None, self.word()?));
        }
    }

    /// A redirection, if one comes next.
    pub(super) fn redirect(&mut self) -> Result<Option<Redirect>, SyntaxError> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let behind = &rest[digits..];
        let both = rest.starts_with("&>");
        if !both && (digits > 4 || !behind.starts_with(['<', '>'])) {
            return Ok(None);
        }
        let given = rest[..digits].parse::<u32>().ok();
        if both {
            self.at += 2;
            let appends = self.skip(">");
            let target = RedirectTarget::Both(self.target()?, appends);
            return Ok(Some(Redirect { descriptor: 1, target }));
        }
        self.at += digits;
        let operators = ["<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">"];
        let operator = operators.into_iter().find(|operator| behind.starts_with(operator));
        let operator = operator.expect("it begins with one of their characters");
        self.at += operator.len();
        if operator == "<<<" && self.dialect == Dialect::Ash {
            self.at -= 1;
            return Err(self.unexpected(""));
        }
        let target = match operator {
            "<<" | "<<-" => {
                let delimiter = self.delimiter()?;
                RedirectTarget::HereDocument(self.expect_here(delimiter, operator == "<<-"))
            }
            "<<<" => RedirectTarget::HereString(self.target()?),
            "<>" => RedirectTarget::ReadWrite(self.target()?),
            "<&" | ">&" => {
                let word = self.target()?;
                let is_number = |text: &str| text == "-" || text.chars().all(|c| c.is_ascii_digit());
                match word.plain() {
                    // `>&file` is bash's older form of `&>file`.
                    Some(text) if operator == ">&" && given.is_none() && !is_number(text) => {
                        RedirectTarget::Both(word, false)
                    }
                    _ => RedirectTarget::Duplicate(word),
                }
            }
            "<" => RedirectTarget::Read(self.target()?),
            ">>" => RedirectTarget::Append(self.target()?),
            ">|" => RedirectTarget::Write(self.target()?, true),
            _ => RedirectTarget::Write(self.target()?, false),
        };
        let descriptor = given.unwrap_or(u32::from(operator.starts_with('>')));
        Ok(Some(Redirect { descriptor, target }))
    }

    /// The word behind a redirection.
    fn target(&mut self) -> Result<Word, SyntaxError> {
        self.skip_blanks();
        match self.peek() {
            None | Some('\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => Err(self.unexpected("")),
            Some(_) => self.word(),
        }
    }

    /// The delimiter of a here-document, and whether it is quoted.
    fn delimiter(&mut self) -> Result<(String, bool), SyntaxError> {
        let word = self.target()?;
        let quoted = word.0.iter().any(|part| matches!(part, WordPart::Quoted(_)));
        match word.literal() {
            Some(text) => Ok((text, quoted)),
            None => Err(self.error("the delimiter of a here-document is expanded")),
        }
    }
}
