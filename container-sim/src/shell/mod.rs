//! The simulated shell: interprets commands over a container's [`Environment`] (variables, mounted files, written files),
//! and touches nothing else. No I/O: [`ShellStep`] says what needs time or input.
//!
//! `parse` and `compound` are the language, `control` runs loops and conditions, `arithmetic` evaluates `$((…))`. `builtin`,
//! `text`, `tools` and `tar` are the programs, `files` and `disk` the file system, `memory` bounds what is buffered. `known` and
//! `reading` judge a command before it runs.

mod arithmetic;
mod builtin;
mod compound;
mod control;
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

use crate::limits::INPUT_BYTES;
use crate::script::ScriptedAnswer;
pub use builtin::is_shell;
use compound::{Item, Queue};
pub use disk::{Content, Disk, DiskCapacity, DiskEntry, DiskFull};
pub use known::{NotRunnable, check_runnable};
use memory::Reservation;
pub use memory::{BufferAllowance, BufferCapacity, OutputBytes};
use parse::{Connector, Expansion, Redirect, To, Word};
pub use reading::may_read_files;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Everything that a command can observe of its container.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The pod's host name.
    pub hostname: String,
    /// The working directory.
    pub workdir: String,
    /// The environment variables; of several with one name the last one counts.
    pub variables: Vec<(String, String)>,
    /// Mounted files by absolute path. Programs cannot change them.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Folders that are mounted read-only.
    pub read_only: BTreeSet<String>,
    /// Writable volumes by the folder where they are mounted.
    pub volumes: BTreeMap<String, Disk>,
    /// The container's own disk, for all other paths.
    pub disk: Disk,
    /// Scripted answers by command line: the words of the command joined by blanks.
    pub answers: BTreeMap<String, ScriptedAnswer>,
    /// The time in seconds since 1970, when the command begins.
    pub now: i64,
    /// Rows and columns of the terminal; `None` until the client sends them.
    pub terminal: Option<(u16, u16)>,
    /// The bound on buffered input and output.
    pub memory: BufferAllowance,
}

/// The caller's next step after [`Shell::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellStep {
    /// Send these bytes on a channel (1 is standard output, 2 is standard error).
    Print(u32, OutputBytes),
    /// Wait this long, then step again.
    Sleep(Duration),
    /// Copy all input to standard output until the input ends, then step again.
    Copy,
    /// Pass the next input, or its end, to [`Shell::input`].
    Read,
    /// Pass the next line of input, or its end, to [`Shell::line`].
    ReadLine,
    /// The command ended with this exit code.
    Exit(u8),
}

/// The container has no such program. The text is a container runtime's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exec: {0:?}: executable file not found in $PATH")]
pub struct ProgramNotFound(pub String);

/// The destination of an output channel.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sink {
    Channel(u32),
    /// The input of the next command.
    Pipe,
    /// Appended to this file.
    File(String),
}

/// The destinations of standard output and standard error.
type Sinks = [Sink; 2];

/// A command that waits for the end of its input.
#[derive(Debug)]
struct Waiting {
    words: Vec<String>,
    sinks: Sinks,
    input: Vec<u8>,
    /// The reservations for `input`.
    held: Vec<Reservation>,
}

/// A running command: call [`Shell::step`] until it returns [`ShellStep::Exit`].
#[derive(Debug)]
pub struct Shell {
    environment: Environment,
    code: u8,
    /// The commands that have not started.
    queue: Queue,
    steps: VecDeque<ShellStep>,
    /// The part of a second that commands have slept beyond `environment.now`.
    slept: Duration,
    /// Rounds of loops since the last sleep.
    rounds: u32,
    /// Whether the output is read only when the shell has ended.
    nested: bool,
    /// The exit code of the latest `$(…)` of the current command, which is that of an assignment.
    output_code: Option<u8>,
    /// Whether a word of the current command could not be expanded.
    expansion_failed: bool,
    /// Whether the shell reads commands from its input.
    reads: bool,
    /// The input of a nested shell, known when it starts; empty once a program has read it.
    stdin: Option<Vec<u8>>,
    /// The input that a pipe passes to the next command.
    piped: Option<Vec<u8>>,
    /// The output that the current command has written to its pipe.
    pipe: Vec<u8>,
    waiting: Option<Waiting>,
}

impl Shell {
    /// Starts the command `argv`.
    ///
    /// # Errors
    /// When the container has no such program.
    pub fn run(environment: Environment, argv: &[String]) -> Result<Self, ProgramNotFound> {
        let (queue, steps) = (Queue::new(), VecDeque::new());
        let (stdin, piped, pipe, waiting) = (None, None, Vec::new(), None);
        let (slept, rounds) = (Duration::ZERO, 0);
        let (reads, nested) = (false, false);
        let (output_code, expansion_failed) = (None, false);
        let mut shell = Self {
            output_code,
            expansion_failed,
            environment,
            code: 0,
            queue,
            steps,
            slept,
            rounds,
            nested,
            reads,
            stdin,
            piped,
            pipe,
            waiting,
        };
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
            // Words of the shell language are not programs.
            ("exit" | "cd" | "export" | "set" | ":" | "sh" | "bash" | "ash" | "command", _) => {
                return Err(ProgramNotFound(program));
            }
            _ if argv.is_empty() || !shell.simple(argv, &sinks, None) => {
                return Err(ProgramNotFound(program));
            }
            _ => {}
        }
        Ok(shell)
    }

    /// Advances to the next thing that the caller must do.
    pub fn step(&mut self) -> ShellStep {
        loop {
            if let Some(step) = self.steps.pop_front() {
                if let ShellStep::Sleep(time) = step {
                    self.pass(time);
                }
                return step;
            }
            if self.waiting.is_some() {
                return ShellStep::Read;
            }
            match self.queue.pop_front() {
                Some(item) => self.item(item),
                None if self.reads => return ShellStep::ReadLine,
                None => return ShellStep::Exit(self.code),
            }
        }
    }

    /// Moves the shell's clock.
    fn pass(&mut self, time: Duration) {
        self.rounds = 0;
        self.slept = self.slept.saturating_add(time);
        let seconds = i64::try_from(self.slept.as_secs()).unwrap_or(i64::MAX);
        self.environment.now = self.environment.now.saturating_add(seconds);
        self.slept = Duration::from_nanos(self.slept.subsec_nanos().into());
    }

    /// Sets the size of the terminal.
    pub fn resized(&mut self, rows: u16, columns: u16) {
        self.environment.terminal = Some((rows, columns));
    }

    /// Passes one line of input without its newline; `None` is the end of input.
    pub fn line(&mut self, line: Option<&str>) {
        match line {
            Some(line) => self.script(line),
            None => self.reads = false,
        }
    }

    /// Passes input to the command that waits for it; `None` is the end of input. A command with more input than the bounds
    /// allow fails.
    pub fn input(&mut self, bytes: Option<&[u8]>) {
        let Some(waiting) = &mut self.waiting else { return };
        match bytes {
            Some(bytes)
                if waiting.input.len() + bytes.len() <= INPUT_BYTES
                    && let Some(held) = self.environment.memory.hold(bytes.len()) =>
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

    /// Queues the commands of a script.
    fn script(&mut self, text: &str) {
        match parse::parse(text) {
            Ok(commands) => {
                let items = commands.into_iter().map(|(next, command)| Item::Command(next, command));
                self.queue.extend(items);
            }
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
            // The rest of its pipeline does not run either.
            while self.queue.front().is_some_and(Item::is_piped) {
                self.queue.pop_front();
            }
            return;
        }
        if let Some(compound) = &command.compound {
            return self.compound(compound);
        }
        if command.negated {
            self.queue.push_front(Item::Negate);
        }
        self.output_code = None;
        let given = self.piped.take();
        let (sinks, input) = match self.redirected(&command.redirects, given) {
            Ok(redirected) => redirected,
            Err(why) => {
                self.code = 1;
                return self.emit(&Sink::Channel(2), format!("sh: {why}\n").into_bytes());
            }
        };
        let words: Vec<String> = command.words.iter().flat_map(|word| self.fields(word)).collect();
        if std::mem::take(&mut self.expansion_failed) {
            // This ends a script.
            self.queue.clear();
            return self.code = 2;
        }
        self.words(&words, &sinks, input);
        if self.waiting.is_none() {
            self.piped_on(&sinks);
        }
    }

    fn expanded(&mut self, word: &Word) -> String {
        word.expand(|expansion| self.value(expansion)).0
    }

    /// The words that a word is expanded to.
    fn fields(&mut self, word: &Word) -> Vec<String> {
        let (whole, fields) = word.expand(|expansion| self.value(expansion));
        if word.assigns() { vec![whole] } else { fields }
    }

    fn value(&mut self, expansion: &Expansion) -> String {
        match expansion {
            Expansion::Variable(name) => self.variable(name),
            Expansion::Arithmetic(text) => {
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
                let queue =
                    list.iter().map(|(next, command)| Item::Command(*next, command.clone())).collect();
                let inner = Self { queue, ..self.child() };
                let mut out = Vec::new();
                let code = self.run_nested(inner, |shell, channel, bytes| match channel {
                    2 => shell.print(2, bytes),
                    _ => out.extend(bytes),
                });
                self.output_code = Some(code);
                let text = String::from_utf8_lossy(&out);
                text.trim_end_matches('\n').to_owned()
            }
        }
    }

    /// A nested shell without commands. Its changes to variables and folder are lost.
    fn child(&self) -> Self {
        Self {
            environment: self.environment.clone(),
            code: 0,
            queue: Queue::new(),
            steps: VecDeque::new(),
            slept: self.slept,
            rounds: 0,
            nested: true,
            output_code: None,
            expansion_failed: false,
            reads: false,
            stdin: None,
            piped: None,
            pipe: Vec::new(),
            waiting: None,
        }
    }

    /// Passes the piped output of an ended command to the next one.
    fn piped_on(&mut self, sinks: &Sinks) {
        let printed = std::mem::take(&mut self.pipe);
        if sinks.contains(&Sink::Pipe) || self.queue.front().is_some_and(Item::is_piped) {
            self.piped = Some(printed);
        }
    }

    /// The destinations of a command's output and, if it does not read the shell's input, its input.
    fn redirected(
        &mut self,
        redirects: &[Redirect],
        mut input: Option<Vec<u8>>,
    ) -> Result<(Sinks, Option<Vec<u8>>), String> {
        let piped = self.queue.front().is_some_and(Item::is_piped);
        let mut sinks = [if piped { Sink::Pipe } else { Sink::Channel(1) }, Sink::Channel(2)];
        // Redirections apply in order: `>/dev/null 2>&1` discards both.
        for redirect in redirects {
            let mut path = |word: &Word| {
                let given = self.expanded(word);
                self.environment.path(&given)
            };
            let sink = match &redirect.to {
                To::File(word) if redirect.from == 0 => {
                    let path = path(word);
                    input = Some(
                        self.environment.read(&path).map_err(|why| format!("can't open {path}: {why}"))?,
                    );
                    continue;
                }
                To::File(word) => {
                    let path = path(word);
                    self.environment
                        .write(&path, b"")
                        .map_err(|why| format!("can't create {path}: {why}"))?;
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
            ("break" | "continue", None) => {
                compound::leave_round(&mut self.queue, first == "break");
                self.code = 0;
            }
            ("command", Some(flag)) if flag == "-v" => {
                let words: Vec<String> =
                    ["which".to_owned()].into_iter().chain(words[2..].iter().cloned()).collect();
                self.simple(&words, sinks, None);
            }
            (word, None) if parse::is_assignment(word) => {
                self.assign(word);
                self.code = self.output_code.unwrap_or(0);
            }
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

    /// Runs a nested shell, which starts with a copy of this shell's variables and folder.
    fn inner(&mut self, words: &[String], sinks: &Sinks, input: Option<Vec<u8>>) {
        let Ok(mut inner) = Self::run(self.environment.clone(), words) else { return self.code = 127 };
        (inner.stdin, inner.nested) = (input, true);
        let sinks = sinks.clone();
        self.code = self
            .run_nested(inner, |shell, channel, bytes| shell.emit(&sinks[usize::from(channel == 2)], bytes));
    }

    /// Runs a nested shell to its end and returns its exit code. Its sleeps become sleeps of this shell.
    fn run_nested(&mut self, mut inner: Self, mut print: impl FnMut(&mut Self, u32, Vec<u8>)) -> u8 {
        loop {
            match inner.step() {
                ShellStep::Exit(code) => return code,
                ShellStep::ReadLine => inner.line(None),
                ShellStep::Read => inner.input(None),
                ShellStep::Print(channel, printed) => print(self, channel, printed.into_bytes()),
                step @ (ShellStep::Sleep(_) | ShellStep::Copy) => self.steps.push_back(step),
            }
        }
    }

    /// Gives the scripted answer to a command line. Returns false if there is none.
    fn answer(&mut self, words: &[String], sinks: &Sinks) -> bool {
        let Some(answer) = self.environment.answers.get(&words.join(" ")).cloned() else { return false };
        if let Some(after) = answer.after {
            self.steps.push_back(ShellStep::Sleep(after));
        }
        self.emit(&sinks[0], answer.stdout.into_bytes());
        self.emit(&sinks[1], answer.stderr.into_bytes());
        self.code = answer.code;
        true
    }

    /// Runs a program. Returns false if the container has none of this name.
    fn simple(&mut self, words: &[String], sinks: &Sinks, input: Option<Vec<u8>>) -> bool {
        let reads = input.is_none() && builtin::reads(words);
        let input = input.or_else(|| self.stdin.as_mut().filter(|_| reads).map(std::mem::take));
        if reads && input.is_none() {
            match (builtin::name(&words[0]), &sinks[0]) {
                ("cat", Sink::Channel(1)) => {
                    self.code = 0;
                    self.steps.push_back(ShellStep::Copy);
                }
                _ => {
                    let (words, sinks) = (words.to_vec(), sinks.clone());
                    self.waiting = Some(Waiting { words, sinks, input: Vec::new(), held: Vec::new() });
                }
            }
            return true;
        }
        let Some(outcome) = builtin::run(&self.environment, words, &input.unwrap_or_default()) else {
            return false;
        };
        self.code = outcome.code;
        self.emit(&sinks[0], outcome.out);
        self.emit(&sinks[1], outcome.err.into_bytes());
        self.steps.extend(outcome.then);
        true
    }

    /// Writes output to its destination.
    fn emit(&mut self, sink: &Sink, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match sink {
            Sink::Channel(channel) => self.print(*channel, bytes),
            Sink::Pipe if self.pipe.len() + bytes.len() <= INPUT_BYTES => self.pipe.extend(bytes),
            // The pipe is full: the next command could not read all of it.
            Sink::Pipe => self.code = 1,
            Sink::File(path) => {
                let before = self.environment.read(path).unwrap_or_default();
                if let Err(why) = self.environment.write(path, &[before, bytes].concat()) {
                    self.code = 1;
                    self.print(2, format!("sh: write error: {why}\n").into_bytes());
                }
            }
        }
    }

    /// Queues output for a channel. Output that exceeds the bounds is lost, and the command fails.
    fn print(&mut self, channel: u32, bytes: Vec<u8>) {
        match OutputBytes::new(bytes, &self.environment.memory) {
            Some(printed) => self.steps.push_back(ShellStep::Print(channel, printed)),
            None => {
                self.code = 1;
                let why = b"sh: write error: Cannot allocate memory\n".to_vec();
                let told = OutputBytes::new(why, &self.environment.memory);
                self.steps.extend(told.map(|printed| ShellStep::Print(2, printed)));
            }
        }
    }

    fn variable(&self, name: &str) -> String {
        match name {
            "?" => self.code.to_string(),
            "$" => "1".to_owned(),
            "PWD" => self.environment.workdir.clone(),
            _ => {
                let found = self.environment.variables.iter().rev().find(|(key, _)| key == name);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            }
        }
    }

    fn assign(&mut self, word: &str) {
        if let Some((name, value)) = word.split_once('=') {
            self.environment.variables.retain(|(key, _)| key != name);
            self.environment.variables.push((name.to_owned(), value.to_owned()));
        }
        self.code = 0;
    }

    fn change_directory(&mut self, to: &str, sinks: &Sinks) {
        let path = self.environment.resolved(&self.environment.path(to));
        self.code = u8::from(!self.environment.is_folder(&path));
        if self.code == 0 {
            self.environment.workdir = path;
        } else {
            let why = format!("sh: cd: can't cd to {to}: No such file or directory\n");
            self.emit(&sinks[1], why.into_bytes());
        }
    }
}
