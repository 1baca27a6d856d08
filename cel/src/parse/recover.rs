//! The token cursor and the strategy for syntax errors: what is reported, what is skipped, where parsing goes on.
//!
//! The strategy is that of generated LL parsers: an unexpected token is deleted if the next one fits, a missing one is assumed if
//! the current one fits behind it, and otherwise the rule ends and tokens are skipped until one that a caller waits for.
//! While the parser recovers, further errors are not reported until a token matches.

use super::token::{Kind, Token, set_text};
use crate::limits::{RECOVERIES, SYNTAX_ERRORS};
use crate::source::{ErrorSink, NOWHERE, Source};
use std::collections::BTreeSet;

/// Marks a follow set of a rule call behind which the calling rule may end.
pub(super) const END: u64 = 1 << 63;

/// Why a rule could not go on at the current token.
#[derive(Debug)]
pub(super) enum Fault {
    /// The token is none of the set.
    Mismatch(u64),
    /// No alternative of the rule fits the tokens from the first to the second.
    NoViable(Token, Token),
    /// Parsing stops; the reason is reported.
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

    /// The token `ahead` places in front, the current one being at 0.
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
    pub(super) fn abort(&mut self, message: String) -> Fault {
        if !self.aborted {
            self.errors.report(NOWHERE, message);
        }
        self.aborted = true;
        Fault::Abort
    }

    fn shown(&self, token: Token) -> String {
        if token.kind == Kind::Eof { "<EOF>".to_owned() } else { self.text(token) }
    }

    fn advance(&mut self) -> Token {
        let token = self.peek(0);
        self.position = (self.position + 1).min(self.tokens.len() - 1);
        token
    }

    /// Takes the current token, which fits.
    pub(super) fn take(&mut self) -> Token {
        self.recovering = false;
        self.last_error = None;
        self.last_rules.clear();
        self.advance()
    }

    /// Takes a token of `kind`; `next` is what may stand behind it.
    pub(super) fn expect(&mut self, kind: Kind, next: u64) -> Result<Token, Fault> {
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
        Err(Fault::Mismatch(kind.set()))
    }

    /// Checks that a part of a rule can begin here; deletes one token if that helps.
    pub(super) fn sync(&mut self, set: u64) -> Result<(), Fault> {
        if self.aborted {
            return Err(Fault::Abort);
        }
        if self.recovering || self.at(set) || self.delete_one(set) {
            Ok(())
        } else {
            Err(Fault::Mismatch(set))
        }
    }

    /// Checks that a loop goes on or that what follows it can begin; skips tokens otherwise.
    pub(super) fn sync_loop(&mut self, set: u64) {
        if !self.recovering && !self.at(set) {
            self.report_unwanted(set);
            let stop = set | self.recovery_set();
            self.skip_until(stop);
        }
    }

    /// Begins a rule that the caller continues with `follow`.
    pub(super) fn enter(&mut self, follow: u64) {
        self.follow.push(follow);
    }

    /// Ends a rule; an error in it is reported, and tokens are skipped until a caller can go on.
    pub(super) fn leave(&mut self, rule: &'static str, outcome: Result<(), Fault>) {
        if let Err(fault) = outcome {
            self.report(&fault);
            self.recover(rule);
        }
        self.follow.pop();
    }

    /// Deletes the current token if the next one is of the set.
    fn delete_one(&mut self, set: u64) -> bool {
        if self.peek(1).kind.set() & set == 0 || self.peek(0).kind == Kind::Eof {
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

    fn report(&mut self, fault: &Fault) {
        let (token, message) = match fault {
            Fault::Abort => return,
            Fault::Mismatch(set) => {
                let token = self.peek(0);
                (token, format!("mismatched input '{}' expecting {}", self.shown(token), set_text(*set)))
            }
            Fault::NoViable(first, last) => (*last, self.no_viable(*first, *last)),
        };
        self.begin_recovery(token, message);
    }

    fn no_viable(&self, first: Token, last: Token) -> String {
        let text = match (first.kind, last.kind) {
            (Kind::Eof, _) => "<EOF>".to_owned(),
            (_, Kind::Eof) => self.source.slice(first.start, first.end),
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

    fn count_recovery(&mut self) -> Result<(), Fault> {
        self.recoveries += 1;
        if self.aborted || self.recoveries > RECOVERIES {
            if !self.aborted {
                let message = format!("error recovery attempt limit exceeded: {RECOVERIES}");
                self.syntax_error(self.peek(0), &message);
                self.aborted = true;
            }
            return Err(Fault::Abort);
        }
        Ok(())
    }

    /// Ends a rule: skips to a token that one of the callers waits for.
    fn recover(&mut self, rule: &'static str) {
        if self.count_recovery().is_err() {
            return;
        }
        if self.last_error == Some(self.position) && self.last_rules.contains(rule) {
            // The rule failed here before: without a step ahead, it would fail for ever.
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
        while !self.at(set | Kind::Eof.set()) {
            self.advance();
        }
    }

    /// Whether the current token may stand behind a token that is missing.
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
