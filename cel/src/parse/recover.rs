//! The token cursor and the recovery from syntax errors: which errors are reported, which tokens are skipped, where parsing continues.
//!
//! The strategy is that of ANTLR's parsers. The parser deletes an unexpected token if the next one fits. It assumes a missing token if
//! the current one fits after it. Otherwise the rule ends, and the parser skips to a token that a calling rule waits for.
//! During recovery the parser reports no further error until a token matches.

use super::token::{Token, TokenKind, set_text};
use crate::limits::{MAX_RECOVERIES, SYNTAX_ERRORS};
use crate::source::{ErrorSink, NOWHERE, Source};
use std::collections::BTreeSet;

/// Marks a follow set: the calling rule may end after the called rule.
pub(super) const END: u64 = 1 << 63;

/// The reason for which a rule cannot continue at the current token.
#[derive(Debug)]
pub(super) enum SyntaxFault {
    /// The token is none of the set.
    Mismatch(u64),
    /// No alternative of the rule fits the tokens from the first to the second.
    NoViable(Token, Token),
    /// Parsing stops; the sink has the error.
    Abort,
}

/// A position in the tokens, and the state of error recovery.
#[derive(Debug)]
pub(super) struct Cursor<'s> {
    source: &'s Source,
    tokens: Vec<Token>,
    position: usize,
    recovering: bool,
    follow: Vec<u64>,
    last_error: Option<usize>,
    last_rules: BTreeSet<&'static str>,
    syntax_errors: usize,
    recoveries: usize,
    aborted: bool,
    pub(super) errors: ErrorSink,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(source: &'s Source, tokens: Vec<Token>, errors: ErrorSink) -> Self {
        Self {
            source,
            tokens,
            position: 0,
            recovering: false,
            follow: Vec::new(),
            last_error: None,
            last_rules: BTreeSet::new(),
            syntax_errors: 0,
            recoveries: 0,
            aborted: false,
            errors,
        }
    }

    /// The token `ahead` tokens after the current one.
    pub(super) fn peek(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        if self.aborted { self.tokens[last] } else { self.tokens[(self.position + ahead).min(last)] }
    }

    pub(super) fn at(&self, set: u64) -> bool {
        self.peek(0).kind.set() & set != 0
    }

    pub(super) fn text(&self, token: Token) -> String {
        self.source.slice(token.start, token.end)
    }

    /// Stops parsing with an error of the whole text.
    pub(super) fn abort(&mut self, message: String) -> SyntaxFault {
        if !self.aborted {
            self.errors.report(NOWHERE, message);
        }
        self.aborted = true;
        SyntaxFault::Abort
    }

    fn shown(&self, token: Token) -> String {
        if token.kind == TokenKind::Eof { "<EOF>".to_owned() } else { self.text(token) }
    }

    fn advance(&mut self) -> Token {
        let token = self.peek(0);
        self.position = (self.position + 1).min(self.tokens.len() - 1);
        token
    }

    /// Consumes the current token, which fits.
    pub(super) fn take(&mut self) -> Token {
        self.recovering = false;
        self.last_error = None;
        self.last_rules.clear();
        self.advance()
    }

    /// Consumes a token of `kind`; `next` are the tokens that may follow it.
    pub(super) fn expect(&mut self, kind: TokenKind, next: u64) -> Result<Token, SyntaxFault> {
        if self.at(kind.set()) {
            return Ok(self.take());
        }
        self.count_recovery()?;
        if self.delete_one(kind.set()) {
            return Ok(self.take());
        }
        if self.may_follow(next) {
            let token = self.peek(0);
            let (what, at) = (set_text(kind.set()), self.shown(token));
            self.begin_recovery(token, format!("missing {what} at '{at}'"));
            return Ok(Token { kind, start: token.start, end: token.start });
        }
        Err(SyntaxFault::Mismatch(kind.set()))
    }

    /// Checks that a part of a rule can begin at the current token; deletes one token if the part can begin after it.
    pub(super) fn sync(&mut self, set: u64) -> Result<(), SyntaxFault> {
        if self.aborted {
            return Err(SyntaxFault::Abort);
        }
        if self.recovering || self.at(set) || self.delete_one(set) {
            Ok(())
        } else {
            Err(SyntaxFault::Mismatch(set))
        }
    }

    /// Checks that a loop continues or that its follower can begin; skips tokens otherwise.
    pub(super) fn sync_loop(&mut self, set: u64) {
        if !self.recovering && !self.at(set) {
            self.report_unwanted(set);
            let stop = set | self.recovery_set();
            self.skip_until(stop);
        }
    }

    /// Begins a rule, after which the caller expects `follow`.
    pub(super) fn enter(&mut self, follow: u64) {
        self.follow.push(follow);
    }

    /// Ends a rule. Reports its error, and skips tokens until a caller can continue.
    pub(super) fn leave(&mut self, rule: &'static str, outcome: Result<(), SyntaxFault>) {
        if let Err(fault) = outcome {
            self.report(&fault);
            self.recover(rule);
        }
        self.follow.pop();
    }

    /// Deletes the current token if the next one is of the set.
    fn delete_one(&mut self, set: u64) -> bool {
        if self.peek(1).kind.set() & set == 0 || self.peek(0).kind == TokenKind::Eof {
            return false;
        }
        self.report_unwanted(set);
        self.advance();
        self.recovering = false;
        true
    }

    fn report_unwanted(&mut self, set: u64) {
        let token = self.peek(0);
        let message = format!("extraneous input '{}' expecting {}", self.shown(token), set_text(set));
        self.begin_recovery(token, message);
    }

    fn report(&mut self, fault: &SyntaxFault) {
        let (token, message) = match fault {
            SyntaxFault::Abort => return,
            SyntaxFault::Mismatch(set) => {
                let token = self.peek(0);
                (token, format!("mismatched input '{}' expecting {}", self.shown(token), set_text(*set)))
            }
            SyntaxFault::NoViable(first, last) => (*last, self.no_viable(*first, *last)),
        };
        self.begin_recovery(token, message);
    }

    fn no_viable(&self, first: Token, last: Token) -> String {
        let text = match (first.kind, last.kind) {
            (TokenKind::Eof, _) => "<EOF>".to_owned(),
            (_, TokenKind::Eof) => self.source.slice(first.start, first.end),
            _ => self.source.slice(first.start, last.end),
        };
        let reserved = text.char_indices().nth(1).map(|(at, _)| &text[at..]);
        match reserved {
            Some(word @ ("true" | "false" | "null")) => {
                format!("mismatched input '{word}' expecting IDENTIFIER")
            }
            _ => format!("no viable alternative at input '{text}'"),
        }
    }

    fn begin_recovery(&mut self, token: Token, message: String) {
        if !self.recovering {
            self.recovering = true;
            self.syntax_error(token, &message);
        }
    }

    fn syntax_error(&mut self, token: Token, message: &str) {
        self.syntax_errors += 1;
        if self.syntax_errors <= SYNTAX_ERRORS {
            self.errors.report(token.start, format!("Syntax error: {message}"));
        } else if !self.aborted {
            self.aborted = true;
            let message = format!("Syntax error: More than {SYNTAX_ERRORS} syntax errors");
            self.errors.report(token.start, message);
        }
    }

    fn count_recovery(&mut self) -> Result<(), SyntaxFault> {
        self.recoveries += 1;
        if self.aborted || self.recoveries > MAX_RECOVERIES {
            if !self.aborted {
                let message = format!("error recovery attempt limit exceeded: {MAX_RECOVERIES}");
                self.syntax_error(self.peek(0), &message);
                self.aborted = true;
            }
            return Err(SyntaxFault::Abort);
        }
        Ok(())
    }

    /// Skips to a token that one of the calling rules waits for.
    fn recover(&mut self, rule: &'static str) {
        if self.count_recovery().is_err() {
            return;
        }
        if self.last_error == Some(self.position) && self.last_rules.contains(rule) {
            // The rule failed at this token before. Skipping a token avoids an endless loop.
            self.advance();
        }
        if self.last_error != Some(self.position) {
            self.last_rules.clear();
        }
        self.last_error = Some(self.position);
        self.last_rules.insert(rule);
        let stop = self.recovery_set();
        self.skip_until(stop);
    }

    fn recovery_set(&self) -> u64 {
        self.follow.iter().fold(0, |all, set| all | set) & !END
    }

    fn skip_until(&mut self, set: u64) {
        while !self.at(set | TokenKind::Eof.set()) {
            self.advance();
        }
    }

    /// Whether the current token may follow a token that is missing.
    fn may_follow(&self, next: u64) -> bool {
        let mut set = next;
        let mut callers = self.follow.iter().rev();
        loop {
            if self.at(set & !END) {
                return true;
            }
            if set & END == 0 {
                return false;
            }
            match callers.next() {
                Some(follow) => set = *follow,
                None => return false,
            }
        }
    }
}
