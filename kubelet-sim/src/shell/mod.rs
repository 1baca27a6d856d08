//! A shell that exists only as text: it knows a few commands, the container's environment, the files that are mounted into it
//! and those that were written in it, and touches nothing else. No I/O: what takes time or input is handed back as a [`Step`].

mod builtin;
mod disk;
mod files;
mod known;
mod memory;
mod parse;
mod reading;
mod tar;
#[cfg(test)]
mod tests;
mod text;
mod tools;

use crate::behavior::ExecAnswer;
use crate::limits::INPUT_BYTES;
pub use builtin::is_shell;
pub use disk::{Content, Disk, Entry, Full, Room};
pub use known::{NotRunnable, runnable};
use memory::Held;
pub use memory::{Allowance, Memory, Printed};
use parse::{Connector, Redirect, To, Word};
pub use reading::may_read_files;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// What a command finds around it.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The pod's host name.
    pub hostname: String,
    /// Where it starts.
    pub workdir: String,
    /// Variables, in order.
    pub env: Vec<(String, String)>,
    /// Files that it comes with, by absolute path; they do not change.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Folders in which nothing changes.
    pub read_only: BTreeSet<String>,
    /// Volumes, by the folder where they are mounted.
    pub volumes: BTreeMap<String, Disk>,
    /// Where everything else is written.
    pub disk: Disk,
    /// Scripted answers by the words of the command, joined by blanks.
    pub answers: BTreeMap<String, ExecAnswer>,
    /// The time, as `date` prints it.
    pub date: String,
    /// The time in seconds since 1970.
    pub now: i64,
    /// Rows and columns of the terminal, once somebody has said.
    pub terminal: Option<(u16, u16)>,
    /// What may be held of its input and output.
    pub memory: Allowance,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this on a channel (1 or 2).
    Print(u32, Printed),
    /// Wait, then step again.
    Sleep(Duration),
    /// Send everything that comes in out again until there is no more; then step again.
    Copy,
    /// Give what comes in to [`Shell::input`], or say that there is no more.
    Read,
    /// Give one line of input to [`Shell::line`], or say that there is no more.
    ReadLine,
    /// It ended with this code.
    Exit(u8),
}

/// There is no such program: a container runtime's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exec: {0:?}: executable file not found in $PATH")]
pub struct NoProgram(pub String);

/// Where a channel leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sink {
    Channel(u32),
    /// Into the next command.
    Pipe,
    /// To the end of a file.
    File(String),
}

/// Where out and err lead.
type Sinks = [Sink; 2];

/// A command that waits for its input.
#[derive(Debug)]
struct Waiting {
    words: Vec<String>,
    sinks: Sinks,
    input: Vec<u8>,
    /// For the input.
    held: Vec<Held>,
}

/// A command that runs.
#[derive(Debug)]
pub struct Shell {
    world: World,
    code: u8,
    /// What is still to be run.
    queue: VecDeque<(Connector, parse::Command)>,
    steps: VecDeque<Step>,
    /// It reads commands from its input.
    reads: bool,
    /// What it reads, if that was known from the beginning; once read, nothing is left of it.
    stdin: Option<Vec<u8>>,
    /// What the next command reads instead.
    piped: Option<Vec<u8>>,
    /// What the command under way prints for the next one.
    pipe: Vec<u8>,
    waiting: Option<Waiting>,
}

impl Shell {
    /// Begins to run `argv`.
    ///
    /// # Errors
    /// When the container has no such program.
    pub fn run(world: World, argv: &[String]) -> Result<Self, NoProgram> {
        let (queue, steps) = (VecDeque::new(), VecDeque::new());
        let (stdin, piped, pipe, waiting) = (None, None, Vec::new(), None);
        let mut shell = Self { world, code: 0, queue, steps, reads: false, stdin, piped, pipe, waiting };
        let program = argv.first().cloned().unwrap_or_default();
        let sinks = [Sink::Channel(1), Sink::Channel(2)];
        if shell.answer(argv, &sinks) {
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
            ("exit" | "cd" | "export" | "set" | ":" | "sh" | "bash" | "ash" | "command", _) => {
                return Err(NoProgram(program));
            }
            _ if argv.is_empty() || !shell.simple(argv, &sinks, None) => return Err(NoProgram(program)),
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
            if self.waiting.is_some() {
                return Step::Read;
            }
            match self.queue.pop_front() {
                Some((connector, command)) => self.command(connector, &command),
                None if self.reads => return Step::ReadLine,
                None => return Step::Exit(self.code),
            }
        }
    }

    /// The terminal has so many rows and columns from now on.
    pub fn resized(&mut self, rows: u16, columns: u16) {
        self.world.terminal = Some((rows, columns));
    }

    /// A line of input, without its end; `None`: there is no more.
    pub fn line(&mut self, line: Option<&str>) {
        match line {
            Some(line) => self.script(line),
            None => self.reads = false,
        }
    }

    /// Input for the command that asked for it; `None`: there is no more. One that gets too much fails.
    pub fn input(&mut self, bytes: Option<&[u8]>) {
        let Some(waiting) = &mut self.waiting else { return };
        match bytes {
            Some(bytes)
                if waiting.input.len() + bytes.len() <= INPUT_BYTES
                    && let Some(held) = self.world.memory.hold(bytes.len()) =>
            {
                waiting.held.push(held);
                waiting.input.extend_from_slice(bytes);
            }
            Some(_) => {
                let Some(waiting) = self.waiting.take() else { return };
                self.code = 1;
                let why = format!("{}: Cannot allocate memory\n", waiting.words[0]);
                self.emit(&waiting.sinks[1], why.into_bytes());
                self.piped_on(&waiting.sinks);
            }
            None => {
                let Some(Waiting { words, sinks, input, held }) = self.waiting.take() else { return };
                self.simple(&words, &sinks, Some(input));
                drop(held);
                self.piped_on(&sinks);
            }
        }
    }

    /// Runs a text of commands after what is under way.
    fn script(&mut self, text: &str) {
        match parse::parse(text) {
            Ok(commands) => self.queue.extend(commands),
            Err(why) => {
                self.print(2, format!("sh: syntax error: {why}\n").into_bytes());
                self.code = 2;
            }
        }
    }

    fn command(&mut self, connector: Connector, command: &parse::Command) {
        let wanted = match connector {
            Connector::Then | Connector::Pipe => true,
            Connector::And => self.code == 0,
            Connector::Or => self.code != 0,
        };
        if !wanted {
            // What it would have been piped into does not run either.
            while self.queue.front().is_some_and(|(next, _)| *next == Connector::Pipe) {
                self.queue.pop_front();
            }
            return;
        }
        let given = self.piped.take();
        let (sinks, input) = match self.redirected(&command.redirects, given) {
            Ok(redirected) => redirected,
            Err(why) => {
                self.code = 1;
                return self.emit(&Sink::Channel(2), format!("sh: {why}\n").into_bytes());
            }
        };
        let words: Vec<String> = command.words.iter().map(|word| self.expanded(word)).collect();
        let words: Vec<String> = words
            .into_iter()
            .zip(&command.words)
            .filter(|(text, word)| !text.is_empty() || word.quoted())
            .map(|(text, _)| text)
            .collect();
        self.words(&words, &sinks, input);
        if self.waiting.is_none() {
            self.piped_on(&sinks);
        }
    }

    fn expanded(&self, word: &Word) -> String {
        word.expand(|name| self.variable(name))
    }

    /// What a command that has ended printed becomes the next one's input.
    fn piped_on(&mut self, sinks: &Sinks) {
        let printed = std::mem::take(&mut self.pipe);
        if sinks.contains(&Sink::Pipe) || self.queue.front().is_some_and(|(next, _)| *next == Connector::Pipe)
        {
            self.piped = Some(printed);
        }
    }

    /// Where the channels of the next command lead, and what it reads if that is not the shell's input.
    fn redirected(
        &self,
        redirects: &[Redirect],
        mut input: Option<Vec<u8>>,
    ) -> Result<(Sinks, Option<Vec<u8>>), String> {
        let piped = self.queue.front().is_some_and(|(next, _)| *next == Connector::Pipe);
        let mut sinks = [if piped { Sink::Pipe } else { Sink::Channel(1) }, Sink::Channel(2)];
        // Each is done in order: `>/dev/null 2>&1` silences both.
        for redirect in redirects {
            let path = |word: &Word| self.world.path(&self.expanded(word));
            let sink = match &redirect.to {
                To::File(word) if redirect.from == 0 => {
                    let path = path(word);
                    input = Some(self.world.read(&path).map_err(|why| format!("can't open {path}: {why}"))?);
                    continue;
                }
                To::File(word) => {
                    let path = path(word);
                    self.world.write(&path, b"").map_err(|why| format!("can't create {path}: {why}"))?;
                    Sink::File(path)
                }
                To::Append(word) => Sink::File(path(word)),
                To::Channel(channel) => sinks[*channel as usize - 1].clone(),
            };
            sinks[redirect.from as usize - 1] = sink;
        }
        Ok((sinks, input))
    }

    fn words(&mut self, words: &[String], sinks: &Sinks, input: Option<Vec<u8>>) {
        let Some(first) = words.first() else { return };
        match (first.as_str(), words.get(1)) {
            ("exit", code) => {
                self.code = code.and_then(|code| code.parse().ok()).unwrap_or(self.code);
                self.queue.clear();
                self.reads = false;
            }
            ("cd", to) => self.change_directory(to.map_or("/", String::as_str), sinks),
            ("export", _) => words[1..].iter().for_each(|word| self.assign(word)),
            ("set" | ":", _) => self.code = 0,
            ("command", Some(flag)) if flag == "-v" => {
                let words: Vec<String> =
                    ["which".to_owned()].into_iter().chain(words[2..].iter().cloned()).collect();
                self.simple(&words, sinks, None);
            }
            (word, None) if parse::is_assignment(word) => self.assign(&words[0].clone()),
            _ if self.answer(words, sinks) => {}
            ("sh" | "bash" | "ash", Some(flag)) if flag.ends_with('c') && words.len() > 2 => {
                self.inner(words, sinks, input);
            }
            _ if self.simple(words, sinks, input) => {}
            _ => {
                self.emit(&sinks[1], format!("sh: {first}: not found\n").into_bytes());
                self.code = 127;
            }
        }
    }

    /// A shell in the shell: it has what this one has, and what it changes is lost with it.
    fn inner(&mut self, words: &[String], sinks: &Sinks, input: Option<Vec<u8>>) {
        let Ok(mut inner) = Self::run(self.world.clone(), words) else { return self.code = 127 };
        inner.stdin = input;
        loop {
            match inner.step() {
                Step::Exit(code) => return self.code = code,
                Step::ReadLine => inner.line(None),
                Step::Read => inner.input(None),
                Step::Print(channel, printed) => {
                    self.emit(&sinks[usize::from(channel == 2)], printed.into_bytes());
                }
                step @ (Step::Sleep(_) | Step::Copy) => self.steps.push_back(step),
            }
        }
    }

    /// A scripted answer to these words. False if there is none.
    fn answer(&mut self, words: &[String], sinks: &Sinks) -> bool {
        let Some(answer) = self.world.answers.get(&words.join(" ")).cloned() else { return false };
        if let Some(after) = answer.after {
            self.steps.push_back(Step::Sleep(after));
        }
        self.emit(&sinks[0], answer.stdout.into_bytes());
        self.emit(&sinks[1], answer.stderr.into_bytes());
        self.code = answer.code;
        true
    }

    /// A command that is built in. False if there is none of this name.
    fn simple(&mut self, words: &[String], sinks: &Sinks, input: Option<Vec<u8>>) -> bool {
        let reads = input.is_none() && builtin::reads(words);
        let input = input.or_else(|| self.stdin.as_mut().filter(|_| reads).map(std::mem::take));
        if reads && input.is_none() {
            match (builtin::name(&words[0]), &sinks[0]) {
                ("cat", Sink::Channel(1)) => {
                    self.code = 0;
                    self.steps.push_back(Step::Copy);
                }
                _ => {
                    let (words, sinks) = (words.to_vec(), sinks.clone());
                    self.waiting = Some(Waiting { words, sinks, input: Vec::new(), held: Vec::new() });
                }
            }
            return true;
        }
        let Some(outcome) = builtin::run(&self.world, words, &input.unwrap_or_default()) else {
            return false;
        };
        self.code = outcome.code;
        self.emit(&sinks[0], outcome.out);
        self.emit(&sinks[1], outcome.err.into_bytes());
        self.steps.extend(outcome.then);
        true
    }

    /// Sends what was printed where it belongs.
    fn emit(&mut self, sink: &Sink, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match sink {
            Sink::Channel(channel) => self.print(*channel, bytes),
            Sink::Pipe if self.pipe.len() + bytes.len() <= INPUT_BYTES => self.pipe.extend(bytes),
            // A pipe that nobody could read to its end.
            Sink::Pipe => self.code = 1,
            Sink::File(path) => {
                let before = self.world.read(path).unwrap_or_default();
                if let Err(why) = self.world.write(path, &[before, bytes].concat()) {
                    self.code = 1;
                    self.print(2, format!("sh: write error: {why}\n").into_bytes());
                }
            }
        }
    }

    /// Sends what was printed on a channel. What there is no memory for is lost, and the command has failed.
    fn print(&mut self, channel: u32, bytes: Vec<u8>) {
        match Printed::new(bytes, &self.world.memory) {
            Some(printed) => self.steps.push_back(Step::Print(channel, printed)),
            None => {
                self.code = 1;
                let why = b"sh: write error: Cannot allocate memory\n".to_vec();
                let told = Printed::new(why, &self.world.memory);
                self.steps.extend(told.map(|printed| Step::Print(2, printed)));
            }
        }
    }

    fn variable(&self, name: &str) -> String {
        match name {
            "?" => self.code.to_string(),
            "$" => "1".to_owned(),
            "PWD" => self.world.workdir.clone(),
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

    fn change_directory(&mut self, to: &str, sinks: &Sinks) {
        let path = self.world.resolved(&self.world.path(to));
        self.code = u8::from(!self.world.is_folder(&path));
        if self.code == 0 {
            self.world.workdir = path;
        } else {
            let why = format!("sh: cd: can't cd to {to}: No such file or directory\n");
            self.emit(&sinks[1], why.into_bytes());
        }
    }
}
