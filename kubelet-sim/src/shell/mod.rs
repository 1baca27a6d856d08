//! A shell that exists only as text: it knows a few commands, the container's environment and the files that are mounted into
//! it, and touches nothing else. Pure: what takes time or input is handed back as a [`Step`].

mod builtin;
mod parse;
#[cfg(test)]
mod tests;

use crate::behavior::ExecAnswer;
use parse::{Connector, Redirect};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

/// What a command finds around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// The pod's host name.
    pub hostname: String,
    /// Where it starts.
    pub workdir: String,
    /// Variables, in order.
    pub env: Vec<(String, String)>,
    /// Files by absolute path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Scripted answers by the words of the command, joined by blanks.
    pub answers: BTreeMap<String, ExecAnswer>,
    /// The time, as `date` prints it.
    pub date: String,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this on a channel (1 or 2).
    Print(u32, Vec<u8>),
    /// Wait, then step again.
    Sleep(Duration),
    /// Send everything that comes in out again until there is no more; then step again.
    Copy,
    /// Give one line of input to [`Shell::line`], or say that there is no more.
    ReadLine,
    /// It ended with this code.
    Exit(u8),
}

/// There is no such program: a container runtime's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exec: {0:?}: executable file not found in $PATH")]
pub struct NoProgram(pub String);

/// A command that runs.
#[derive(Clone, Debug)]
pub struct Shell {
    world: World,
    code: u8,
    /// What is still to be run.
    queue: VecDeque<(Connector, parse::Command)>,
    steps: VecDeque<Step>,
    /// It reads commands from its input.
    reads: bool,
}

impl Shell {
    /// Begins to run `argv`.
    ///
    /// # Errors
    /// When the container has no such program.
    pub fn run(world: World, argv: &[String]) -> Result<Self, NoProgram> {
        let mut shell = Self { world, code: 0, queue: VecDeque::new(), steps: VecDeque::new(), reads: false };
        let program = argv.first().cloned().unwrap_or_default();
        if shell.answer(argv) {
            return Ok(shell);
        }
        match (builtin::name(&program), argv) {
            ("sh" | "bash" | "ash", [_, flags, script, ..])
                if flags.starts_with('-') && flags.ends_with('c') =>
            {
                shell.script(script);
            }
            ("sh" | "bash" | "ash", [_, rest @ ..]) if rest.iter().all(|word| word.starts_with('-')) => {
                shell.reads = true;
            }
            // Parts of the language are no programs.
            ("exit" | "cd" | "export" | "set" | ":" | "sh" | "bash" | "ash", _) => {
                return Err(NoProgram(program));
            }
            _ if !shell.simple(argv, &[]) => return Err(NoProgram(program)),
            _ => {}
        }
        Ok(shell)
    }

    /// What happens next.
    pub fn step(&mut self) -> Step {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return step;
            }
            match self.queue.pop_front() {
                Some((connector, command)) => self.command(connector, &command),
                None if self.reads => return Step::ReadLine,
                None => return Step::Exit(self.code),
            }
        }
    }

    /// A line of input, without its end; `None`: there is no more.
    pub fn line(&mut self, line: Option<&str>) {
        match line {
            Some(line) => self.script(line),
            None => self.reads = false,
        }
    }

    /// Runs a text of commands after what is under way.
    fn script(&mut self, text: &str) {
        match parse::parse(text) {
            Ok(commands) => self.queue.extend(commands),
            Err(why) => {
                self.steps.push_back(Step::Print(2, format!("sh: syntax error: {why}\n").into_bytes()));
                self.code = 2;
            }
        }
    }

    fn command(&mut self, connector: Connector, command: &parse::Command) {
        let wanted = match connector {
            Connector::Then => true,
            Connector::And => self.code == 0,
            Connector::Or => self.code != 0,
        };
        if !wanted {
            return;
        }
        let words: Vec<String> =
            command.words.iter().map(|word| word.expand(|name| self.variable(name))).collect();
        let words: Vec<String> = words
            .into_iter()
            .zip(&command.words)
            .filter(|(text, word)| !text.is_empty() || word.quoted())
            .map(|(text, _)| text)
            .collect();
        let Some(first) = words.first() else { return };
        match (first.as_str(), words.get(1)) {
            ("exit", code) => {
                self.code = code.and_then(|code| code.parse().ok()).unwrap_or(self.code);
                self.queue.clear();
                self.reads = false;
            }
            ("cd", to) => self.change_directory(to.map_or("/", String::as_str)),
            ("export", _) => words[1..].iter().for_each(|word| self.assign(word)),
            ("set" | ":", _) => self.code = 0,
            (word, None) if parse::is_assignment(word) => self.assign(&words[0].clone()),
            _ if self.answer(&words) || self.simple(&words, &command.redirects) => {}
            ("sh" | "bash" | "ash", Some(flag)) if flag.ends_with('c') && words.len() > 2 => {
                self.inner(&words);
            }
            _ => {
                self.print(2, format!("sh: {first}: not found\n"), &command.redirects);
                self.code = 127;
            }
        }
    }

    /// A shell in the shell: it has what this one has, and what it changes is lost with it.
    fn inner(&mut self, words: &[String]) {
        let Ok(mut inner) = Self::run(self.world.clone(), words) else { return self.code = 127 };
        loop {
            match inner.step() {
                Step::Exit(code) => return self.code = code,
                Step::ReadLine => inner.line(None),
                step @ (Step::Print(..) | Step::Sleep(_) | Step::Copy) => self.steps.push_back(step),
            }
        }
    }

    /// A scripted answer to these words. False if there is none.
    fn answer(&mut self, words: &[String]) -> bool {
        let Some(answer) = self.world.answers.get(&words.join(" ")).cloned() else { return false };
        if let Some(after) = answer.after {
            self.steps.push_back(Step::Sleep(after));
        }
        self.print(1, answer.stdout, &[]);
        self.print(2, answer.stderr, &[]);
        self.code = answer.code;
        true
    }

    /// A command that is built in. False if there is none of this name.
    fn simple(&mut self, words: &[String], redirects: &[Redirect]) -> bool {
        let Some(outcome) = builtin::run(&self.world, words) else { return false };
        self.code = outcome.code;
        self.print(1, outcome.out, redirects);
        self.print(2, outcome.err, redirects);
        self.steps.extend(outcome.then);
        true
    }

    fn print(&mut self, channel: u32, text: impl Into<Vec<u8>>, redirects: &[Redirect]) {
        let text = text.into();
        if let (false, Some(channel)) = (text.is_empty(), parse::redirected(channel, redirects)) {
            self.steps.push_back(Step::Print(channel, text));
        }
    }

    fn variable(&self, name: &str) -> String {
        match name {
            "?" => self.code.to_string(),
            "$" => "1".to_owned(),
            _ => {
                let found = self.world.env.iter().rev().find(|(key, _)| key == name);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            }
        }
    }

    fn assign(&mut self, word: &str) {
        if let Some((name, value)) = word.split_once('=') {
            self.world.env.retain(|(key, _)| key != name);
            self.world.env.push((name.to_owned(), value.to_owned()));
        }
        self.code = 0;
    }

    fn change_directory(&mut self, to: &str) {
        let path = builtin::absolute(&self.world.workdir, to);
        self.code = u8::from(!builtin::is_directory(&self.world, &path));
        if self.code == 0 {
            self.world.workdir = path;
        } else {
            self.print(2, format!("sh: cd: can't cd to {to}: No such file or directory\n"), &[]);
        }
    }
}
