//! Loops, conditions, functions and the other commands that contain commands.

use super::text::{Parser, SyntaxError};
use super::{CaseArm, CommandKind, Dialect, Word, is_name};
use std::sync::Arc;

impl Parser<'_> {
    /// The compound command or function definition that comes next, if there is one.
    pub(super) fn compound(&mut self) -> Result<Option<CommandKind>, SyntaxError> {
        if self.dialect == Dialect::Bash && self.rest().starts_with("((") {
            let start = self.at;
            self.at += 2;
            if let Some(text) = self.parenthesised().map(str::to_owned) {
                let word = super::arithmetic_text(&mut self.inner(&text))?;
                return Ok(Some(CommandKind::Arithmetic(word)));
            }
            self.at = start;
        }
        if self.skip("(") {
            let (list, _) = self.block(&[")"])?;
            return Ok(Some(CommandKind::Subshell(list)));
        }
        let Some(word) = self.peek_word() else { return Ok(None) };
        let length = word.len();
        let kind = match word {
            "{" | "if" | "while" | "until" | "for" | "case" | "function" => word.to_owned(),
            "[[" => {
                self.at += length;
                return self.test().map(Some);
            }
            word => {
                let word = word.to_owned();
                return self.function_behind(&word, length);
            }
        };
        self.at += length;
        self.enter()?;
        let kind = match kind.as_str() {
            "{" => CommandKind::Group(self.block(&["}"])?.0),
            "if" => self.conditions()?,
            "for" => self.for_loop()?,
            "case" => self.case()?,
            "function" => self.named_function()?,
            word => {
                let condition = self.block(&["do"])?.0;
                CommandKind::While(word == "until", condition, self.block(&["done"])?.0)
            }
        };
        self.leave();
        Ok(Some(kind))
    }

    /// `NAME()` with the function's body, if parentheses are behind the word.
    fn function_behind(&mut self, word: &str, length: usize) -> Result<Option<CommandKind>, SyntaxError> {
        if word.contains(['=', '[']) {
            return Ok(None);
        }
        let start = self.at;
        self.at += length;
        self.skip_blanks();
        if !self.skip("(") {
            self.at = start;
            return Ok(None);
        }
        self.skip_blanks();
        if !self.skip(")") || !is_function_name(word) {
            self.at = start + length;
            self.skip_blanks();
            return Err(self.unexpected(""));
        }
        self.enter()?;
        self.skip_newlines()?;
        let body = self.command()?;
        self.leave();
        Ok(Some(CommandKind::Function(word.to_owned(), body)))
    }

    fn named_function(&mut self) -> Result<CommandKind, SyntaxError> {
        self.skip_blanks();
        let Some(name) = self.peek_word().filter(|name| is_function_name(name)).map(str::to_owned) else {
            return Err(self.unexpected(""));
        };
        self.at += name.len();
        self.skip_blanks();
        if self.skip("(") {
            self.skip_blanks();
            if !self.skip(")") {
                return Err(self.unexpected(")"));
            }
        }
        self.skip_newlines()?;
        Ok(CommandKind::Function(name, self.command()?))
    }

    fn conditions(&mut self) -> Result<CommandKind, SyntaxError> {
        let mut arms = Vec::new();
        loop {
            let (condition, _) = self.block(&["then"])?;
            let (body, end) = self.block(&["elif", "else", "fi"])?;
            arms.push((condition, body));
            match end {
                "elif" => {}
                "else" => return Ok(CommandKind::If(arms, self.block(&["fi"])?.0)),
                _ => return Ok(CommandKind::If(arms, Arc::default())),
            }
        }
    }

    fn for_loop(&mut self) -> Result<CommandKind, SyntaxError> {
        self.skip_blanks();
        if self.dialect == Dialect::Bash && self.skip("((") {
            return self.arithmetic_for();
        }
        let name = match self.peek_word().filter(|name| is_name(name)) {
            Some(name) => name.to_owned(),
            None if self.is_at_end() => return Err(self.unexpected("")),
            None => return Err(self.error("bad for loop variable")),
        };
        self.at += name.len();
        self.skip_newlines()?;
        let mut words = None;
        if self.peek_word() == Some("in") {
            self.at += 2;
            let mut values = Vec::new();
            loop {
                self.skip_blanks();
                match self.peek() {
                    None | Some(';' | '\n') => break,
                    Some('&' | '|' | '<' | '>' | '(' | ')') => return Err(self.unexpected("")),
                    Some(_) => values.push(self.word()?),
                }
            }
            words = Some(values);
        }
        self.skip(";");
        Ok(CommandKind::For(name, words, self.loop_body()?))
    }

    /// `do … done`, or in bash `{ … }`.
    fn loop_body(&mut self) -> Result<Arc<super::List>, SyntaxError> {
        self.skip_newlines()?;
        match self.peek_word() {
            Some("do") => {
                self.at += 2;
                Ok(self.block(&["done"])?.0)
            }
            Some("{") if self.dialect == Dialect::Bash => {
                self.at += 1;
                Ok(self.block(&["}"])?.0)
            }
            _ => Err(self.unexpected("do")),
        }
    }

    fn arithmetic_for(&mut self) -> Result<CommandKind, SyntaxError> {
        let Some(text) = self.parenthesised().map(str::to_owned) else { return Err(self.unexpected("))")) };
        let parts: Vec<&str> = text.split(';').collect();
        let [start, condition, step] = parts.as_slice() else {
            return Err(self.error("bad arithmetic for loop"));
        };
        let word = |text: &str| super::arithmetic_text(&mut self.inner(text));
        let parts = [word(start)?, word(condition)?, word(step)?];
        self.skip_blanks();
        self.skip(";");
        Ok(CommandKind::ArithmeticFor(parts, self.loop_body()?))
    }

    fn case(&mut self) -> Result<CommandKind, SyntaxError> {
        self.skip_blanks();
        if self.is_at_end() || self.rest().starts_with(['\n', ';', '&', '|', '(', ')', '<', '>']) {
            return Err(self.unexpected(""));
        }
        let word = self.word()?;
        self.skip_newlines()?;
        if self.peek_word() != Some("in") {
            return Err(self.unexpected("in"));
        }
        self.at += 2;
        let mut arms = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.peek_word() == Some("esac") {
                self.at += 4;
                return Ok(CommandKind::Case(word, arms));
            }
            let patterns = self.case_patterns()?;
            let (body, end) = self.list(&["esac", ";&", ";;"])?;
            arms.push(CaseArm { patterns, body, falls_through: end == ";&" });
            if end == "esac" {
                return Ok(CommandKind::Case(word, arms));
            }
        }
    }

    /// The patterns of one arm, up to their parenthesis.
    fn case_patterns(&mut self) -> Result<Vec<Word>, SyntaxError> {
        self.skip("(");
        let mut patterns = Vec::new();
        loop {
            self.skip_blanks();
            if self.is_at_end() || self.rest().starts_with(['\n', ';', '&', '|', '(', ')', '<', '>']) {
                return Err(self.unexpected(")"));
            }
            patterns.push(self.word()?);
            self.skip_blanks();
            if self.skip(")") {
                return Ok(patterns);
            }
            if !self.skip("|") {
                return Err(self.unexpected(")"));
            }
        }
    }

    /// The words of `[[ … ]]`. Parentheses, `&&`, `||`, `<` and `>` are words of their own.
    fn test(&mut self) -> Result<CommandKind, SyntaxError> {
        let mut words: Vec<(Word, bool)> = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.is_at_end() {
                return Err(self.unexpected("]]"));
            }
            if self.peek_word() == Some("]]") && !words.is_empty() {
                self.at += 2;
                return Ok(CommandKind::Test(words));
            }
            let is_pattern = words.last().is_some_and(|(word, _)| word.plain() == Some("=~"));
            let operators = ["&&", "||", "(", ")", "<", ">"];
            let operator = operators.into_iter().find(|operator| self.rest().starts_with(operator));
            match operator.filter(|_| !is_pattern) {
                Some(operator) => {
                    self.at += operator.len();
                    words.push((Word(vec![super::WordPart::Text(operator.to_owned())]), true));
                }
                None if self.rest().starts_with([';', '&', '|']) => return Err(self.unexpected("]]")),
                None if is_pattern => words.push((self.regex_word()?, false)),
                None => {
                    let word = self.word()?;
                    let may_operate = word.plain().is_some();
                    words.push((word, may_operate));
                }
            }
        }
    }

    /// The text up to the parentheses `))` that close the ones before it, which are passed over. `None` if it is no arithmetic.
    pub(super) fn parenthesised(&mut self) -> Option<&str> {
        let rest = &self.text[self.at..];
        let (mut open, mut chars) = (0usize, rest.char_indices());
        while let Some((at, c)) = chars.next() {
            match c {
                '(' => open += 1,
                ')' if open > 0 => open -= 1,
                ')' if rest[at..].starts_with("))") => {
                    self.at += at + 2;
                    return Some(&rest[..at]);
                }
                ')' => return None,
                '\\' => drop(chars.next()),
                _ => {}
            }
        }
        None
    }
}

/// Whether a function may have this name.
fn is_function_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '+'))
        && !name.starts_with('-')
}
