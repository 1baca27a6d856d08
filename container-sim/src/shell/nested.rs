//! Variables, the expansion of words, and shells inside of a shell: substitutions and `sh -c`. They run to their end inside of
//! one step of the outer shell, so their depth and their work are bounded.

use super::compound::{Item, Queue};
use super::memory::{Bounds, Buffer, Reservation};
use super::parse::{Expansion, Word};
use super::work::SHELL_WORK;
use super::{Environment, Shell, ShellStep, Sinks, arithmetic};
use crate::limits::{LONGEST_SLEEP, NESTED_SHELLS, WORD_COST};
use std::collections::VecDeque;
use std::time::Duration;

impl Environment {
    /// The memory and work of its command.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { allowance: self.memory.clone(), work: self.work.clone() }
    }
}

fn cost(name: &str, value: &str) -> usize {
    name.len() + value.len() + WORD_COST
}

impl Shell {
    /// A shell without commands, inside of `depth` others.
    pub(super) fn new(environment: Environment, depth: usize) -> Self {
        let bounds = environment.bounds();
        let mut variables = Reservation::new(&environment.memory);
        // The caller has reserved the memory of the outermost shell's variables.
        if depth > 0 {
            let all = environment.variables.iter().map(|(name, value)| cost(name, value)).sum();
            bounds.grow(&mut variables, all);
            bounds.work.spend(SHELL_WORK + 64 * environment.files.len());
        }
        Self {
            scripts: Reservation::new(&environment.memory),
            environment,
            code: 0,
            queue: Queue::new(),
            steps: VecDeque::new(),
            slept: Duration::ZERO,
            rounds: 0,
            depth,
            variables,
            output_code: None,
            expansion_failed: false,
            reads: false,
            stdin: None,
            piped: None,
            pipe: None,
            waiting: None,
            has_said_why: false,
        }
    }

    pub(super) fn expanded(&mut self, word: &Word) -> String {
        let mut room = Reservation::new(&self.environment.memory);
        self.expand(word, &mut room).0
    }

    /// The words that a word is expanded to, with their memory in `room`.
    pub(super) fn fields(&mut self, word: &Word, room: &mut Reservation) -> Vec<String> {
        let (whole, fields) = self.expand(word, room);
        if word.assigns() { vec![whole] } else { fields }
    }

    fn expand(&mut self, word: &Word, room: &mut Reservation) -> (String, Vec<String>) {
        let bounds = self.environment.bounds();
        word.expand(
            |expansion| self.value(expansion),
            |bytes| bounds.work.spend(bytes) && bounds.grow(room, bytes),
        )
    }

    fn value(&mut self, expansion: &Expansion) -> String {
        match expansion {
            Expansion::Variable(name) => self.variable(name),
            Expansion::Arithmetic(text) => {
                self.environment.work.spend(4 * text.len());
                let value = arithmetic::evaluate(text, &|name| self.variable(name));
                match value {
                    Ok(value) => value.to_string(),
                    Err(why) => {
                        self.expansion_failed = true;
                        self.print(2, format!("sh: arithmetic syntax error: {why}\n").into_bytes());
                        String::new()
                    }
                }
            }
            Expansion::Output(list) => {
                if self.is_too_deep() {
                    return String::new();
                }
                let queue =
                    list.iter().map(|(next, command)| Item::Command(*next, command.clone())).collect();
                let inner =
                    Self { queue, slept: self.slept, ..Self::new(self.environment.clone(), self.depth + 1) };
                let mut out = Buffer::new(&self.environment.bounds());
                let code = self.run_nested(inner, |shell, channel, bytes| match channel {
                    2 => shell.print(2, bytes.to_vec()),
                    _ => {
                        out.push(bytes);
                    }
                });
                self.output_code = Some(code);
                // The text is copied twice, and each invalid byte becomes three.
                let bounds = self.environment.bounds();
                let mut room = Reservation::new(&bounds.allowance);
                if !bounds.grow(&mut room, 2 * out.len()) {
                    return String::new();
                }
                let text = String::from_utf8_lossy(out.as_ref());
                text.trim_end_matches('\n').to_owned()
            }
        }
    }

    /// Whether this shell may have no shell inside; then the command fails.
    fn is_too_deep(&mut self) -> bool {
        let too_deep = self.depth >= NESTED_SHELLS;
        if too_deep {
            self.print(2, b"sh: too many nested shells\n".to_vec());
            self.queue.clear();
            self.code = 2;
            self.output_code = Some(2);
        }
        too_deep
    }

    /// Runs a nested shell, which starts with a copy of this shell's variables and folder.
    pub(super) fn inner(&mut self, words: &[String], sinks: &Sinks, input: Option<Buffer>) {
        if self.is_too_deep() {
            return;
        }
        let started = Self::run_at(self.environment.clone(), words, self.depth + 1);
        let Ok(mut inner) = started else { return self.code = 127 };
        inner.stdin = input;
        let sinks = sinks.clone();
        self.code = self.run_nested(inner, |shell, channel, bytes| {
            shell.emit_text(&sinks[usize::from(channel == 2)], bytes.to_vec());
        });
    }

    /// Runs a nested shell to its end and returns its exit code. Its sleeps become sleeps of this shell.
    fn run_nested(&mut self, mut inner: Self, mut print: impl FnMut(&mut Self, u32, &[u8])) -> u8 {
        loop {
            match inner.step() {
                ShellStep::Exit(code) => return code,
                ShellStep::ReadLine => inner.line(None),
                ShellStep::Read => inner.input(None),
                ShellStep::Print(channel, printed) => print(self, channel, printed.as_ref()),
                // Only the outermost shell yields.
                ShellStep::Yield => {}
                // Sleeps add up, so that a loop of them holds no memory.
                ShellStep::Sleep(time) => match self.steps.back_mut() {
                    Some(ShellStep::Sleep(sum)) => *sum = sum.saturating_add(time).min(LONGEST_SLEEP),
                    _ => self.steps.push_back(ShellStep::Sleep(time)),
                },
                ShellStep::Copy => {
                    if self.steps.back() != Some(&ShellStep::Copy) {
                        self.steps.push_back(ShellStep::Copy);
                    }
                }
            }
        }
    }

    pub(super) fn variable(&self, name: &str) -> String {
        match name {
            "?" => self.code.to_string(),
            "$" => "1".to_owned(),
            "PWD" => self.environment.workdir.clone(),
            _ => {
                self.environment.work.spend(8 * self.environment.variables.len());
                let found = self.environment.variables.iter().rev().find(|(key, _)| key == name);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            }
        }
    }

    pub(super) fn assign(&mut self, word: &str) {
        if let Some((name, value)) = word.split_once('=') {
            let bounds = self.environment.bounds();
            bounds.work.spend(8 * self.environment.variables.len() + value.len());
            let old = self.environment.variables.iter().filter(|(key, _)| key == name);
            self.variables.shrink(old.map(|(name, value)| cost(name, value)).sum());
            self.environment.variables.retain(|(key, _)| key != name);
            if bounds.grow(&mut self.variables, cost(name, value)) {
                self.environment.variables.push((name.to_owned(), value.to_owned()));
            }
        }
        self.code = 0;
    }
}
