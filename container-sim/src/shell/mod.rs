//! The simulated shell: interprets commands over a container's [`Environment`] (variables, mounted files, written files),
//! and touches nothing else. No I/O: [`ShellStep`] says what needs time or input.
//!
//! `parse` and `compound` are the language, `control` runs loops and conditions, `arithmetic` evaluates `$((…))`. `builtin`,
//! `text`, `tools` and `tar` are the programs, `files` and `disk` the file system. `nested` expands words and runs nested shells.
//! `memory` and `work` bound what a command may use. `known` and `reading` judge a command before it runs.

mod arithmetic;
#[cfg(test)]
mod bounds_tests;
mod builtin;
mod compound;
mod control;
mod disk;
mod files;
mod known;
mod memory;
mod nested;
mod parse;
mod reading;
mod tar;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod work;

use crate::limits::{ARGUMENT_BYTES, INPUT_BYTES, WORD_COST};
use crate::script::ScriptedAnswer;
use builtin::Output;
pub use builtin::is_shell;
use compound::{Item, Queue};
pub use disk::{Content, Disk, DiskCapacity, DiskEntry, DiskFull};
pub use known::{NotRunnable, check_runnable};
use memory::Buffer;
pub use memory::{BufferAllowance, BufferCapacity, OutputBytes, Reservation};
use parse::{Connector, Redirect, To, Word};
pub use reading::may_read_files;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use work::COMMAND_WORK;
pub use work::{Killed, WorkMeter};

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
    pub files: BTreeMap<String, Arc<[u8]>>,
    /// The memory of the variables and mounted files.
    pub reservation: Option<Arc<Reservation>>,
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
    /// The bound on the memory of the command.
    pub memory: BufferAllowance,
    /// Counts the work of the command.
    pub work: WorkMeter,
}

/// The caller's next step after [`Shell::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellStep {
    /// Send these bytes on a channel (1 is standard output, 2 is standard error).
    Print(u32, OutputBytes),
    /// Wait this long, then step again.
    Sleep(Duration),
    /// The command has used its time slice: let others run, then step again.
    Yield,
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

/// The exit code of a process that SIGKILL ended.
const KILLED: u8 = 137;

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
    input: Buffer,
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
    /// How many shells and substitutions this one is inside of. The output of a nested one is read only when it has ended.
    depth: usize,
    /// The memory of the variables.
    variables: Reservation,
    /// The memory of the commands that have not started.
    scripts: Reservation,
    /// The exit code of the latest `$(…)` of the current command, which is that of an assignment.
    output_code: Option<u8>,
    /// Whether a word of the current command could not be expanded.
    expansion_failed: bool,
    /// Whether the shell reads commands from its input.
    reads: bool,
    /// The input of a nested shell, known when it starts; empty once a program has read it.
    stdin: Option<Buffer>,
    /// The input that a pipe passes to the next command.
    piped: Option<Buffer>,
    /// The output that the current command has written to its pipe.
    pipe: Option<Buffer>,
    waiting: Option<Waiting>,
    /// Whether the reason why the command was killed is printed.
    has_said_why: bool,
}

impl Shell {
    /// Starts the command `argv`.
    ///
    /// # Errors
    /// When the container has no such program.
    pub fn run(environment: Environment, argv: &[String]) -> Result<Self, ProgramNotFound> {
        Self::run_at(environment, argv, 0)
    }

    /// Starts the command `argv` inside of `depth` shells.
    fn run_at(environment: Environment, argv: &[String], depth: usize) -> Result<Self, ProgramNotFound> {
        let mut shell = Self::new(environment, depth);
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
        if self.depth == 0 {
            self.environment.work.begin_step();
        }
        loop {
            if let Some(step) = self.steps.pop_front() {
                if let ShellStep::Sleep(time) = step {
                    self.pass(time);
                }
                return step;
            }
            if let Some(why) = self.environment.work.killed().filter(|_| self.depth == 0) {
                if !self.has_said_why {
                    self.kill(why);
                    continue;
                }
            } else if self.depth == 0 && self.environment.work.is_slice_used() {
                self.environment.work.begin_step();
                return ShellStep::Yield;
            }
            if self.depth > 0 && self.environment.work.killed().is_some() {
                return ShellStep::Exit(KILLED);
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

    /// Ends the command with the exit code of SIGKILL. What it has printed is still sent.
    fn kill(&mut self, why: Killed) {
        self.queue.clear();
        (self.waiting, self.stdin, self.piped, self.pipe) = (None, None, None, None);
        (self.reads, self.has_said_why) = (false, true);
        self.environment.variables.clear();
        self.variables = Reservation::new(&self.environment.memory);
        let has_said_why = Buffer::of(format!("{why}\n").into_bytes(), &self.environment.bounds());
        self.steps.extend(has_said_why.map(|text| ShellStep::Print(2, text.into_output())));
        self.code = KILLED;
    }

    /// Why the command was killed, if it was.
    pub fn killed(&self) -> Option<Killed> {
        self.environment.work.killed()
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
                if waiting.input.len() + bytes.len() <= INPUT_BYTES && waiting.input.try_push(bytes) => {}
            Some(_) => {
                let Some(waiting) = self.waiting.take() else { return };
                self.code = 1;
                let why = format!("{}: Cannot allocate memory\n", waiting.words[0]);
                drop(waiting.input);
                self.emit_text(&waiting.sinks[1], why.into_bytes());
                self.piped_on(&waiting.sinks);
            }
            None => {
                let Some(Waiting { words, sinks, input }) = self.waiting.take() else { return };
                self.simple(&words, &sinks, Some(input));
                self.piped_on(&sinks);
            }
        }
    }

    /// Queues the commands of a script.
    fn script(&mut self, text: &str) {
        if self.queue.is_empty() {
            self.scripts.shrink(usize::MAX);
        }
        let bounds = self.environment.bounds();
        if !bounds.work.spend(4 * text.len()) || !bounds.grow(&mut self.scripts, text.len() * WORD_COST) {
            return;
        }
        if text.len() > ARGUMENT_BYTES {
            self.print(2, b"sh: Argument list too long\n".to_vec());
            self.code = 126;
            return;
        }
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
        if !self.environment.work.spend(COMMAND_WORK) {
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
                return self.print(2, format!("sh: {why}\n").into_bytes());
            }
        };
        let mut room = Reservation::new(&self.environment.memory);
        let words: Vec<String> = command.words.iter().flat_map(|word| self.fields(word, &mut room)).collect();
        if std::mem::take(&mut self.expansion_failed) {
            // This ends a script.
            self.queue.clear();
            return self.code = 2;
        }
        if self.environment.work.killed().is_some() {
            return;
        }
        self.words(&words, &sinks, input);
        if self.waiting.is_none() {
            self.piped_on(&sinks);
        }
    }

    /// Passes the piped output of an ended command to the next one.
    fn piped_on(&mut self, sinks: &Sinks) {
        let printed = self.pipe.take();
        if sinks.contains(&Sink::Pipe) || self.queue.front().is_some_and(Item::is_piped) {
            self.piped = Some(printed.unwrap_or_else(|| Buffer::new(&self.environment.bounds())));
        }
    }

    /// The destinations of a command's output and, if it does not read the shell's input, its input.
    fn redirected(
        &mut self,
        redirects: &[Redirect],
        mut input: Option<Buffer>,
    ) -> Result<(Sinks, Option<Buffer>), String> {
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
                    let file =
                        self.environment.read(&path).map_err(|why| format!("can't open {path}: {why}"))?;
                    let mut bytes = Buffer::new(&self.environment.bounds());
                    bytes.push(&file);
                    input = Some(bytes);
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

    fn words(&mut self, words: &[String], sinks: &Sinks, input: Option<Buffer>) {
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
                self.emit_text(&sinks[1], format!("sh: {first}: not found\n").into_bytes());
                self.code = 127;
            }
        }
    }

    /// Gives the scripted answer to a command line. Returns false if there is none.
    fn answer(&mut self, words: &[String], sinks: &Sinks) -> bool {
        if self.environment.answers.is_empty() {
            return false;
        }
        let Some(answer) = self.environment.answers.get(&words.join(" ")).cloned() else { return false };
        if let Some(after) = answer.after {
            self.steps.push_back(ShellStep::Sleep(after));
        }
        self.emit_text(&sinks[0], answer.stdout.into_bytes());
        self.emit_text(&sinks[1], answer.stderr.into_bytes());
        self.code = answer.code;
        true
    }

    /// Runs a program. Returns false if the container has none of this name.
    fn simple(&mut self, words: &[String], sinks: &Sinks, input: Option<Buffer>) -> bool {
        let reads = input.is_none() && builtin::reads(words);
        let input = input.or_else(|| {
            self.stdin.as_mut().filter(|_| reads).map(|stdin| {
                // Once a program has read the input, it is empty for the next one.
                std::mem::replace(stdin, Buffer::new(&self.environment.bounds()))
            })
        });
        if reads && input.is_none() {
            match (builtin::name(&words[0]), &sinks[0]) {
                ("cat", Sink::Channel(1)) => {
                    self.code = 0;
                    self.steps.push_back(ShellStep::Copy);
                }
                _ => {
                    let (words, sinks) = (words.to_vec(), sinks.clone());
                    let input = Buffer::new(&self.environment.bounds());
                    self.waiting = Some(Waiting { words, sinks, input });
                }
            }
            return true;
        }
        let given = input.as_ref().map(Buffer::as_ref).unwrap_or_default();
        // Programs pass over their input and their words a few times.
        let touched = words.iter().map(|word| word.len() + WORD_COST).sum::<usize>() + given.len();
        if !self.environment.work.spend(4 * touched) {
            return true;
        }
        let Some(outcome) = builtin::run(&self.environment, words, given) else { return false };
        drop(input);
        if self.environment.work.killed().is_some() {
            // Partial output would keep its memory until the client takes it.
            return true;
        }
        self.code = outcome.code;
        match outcome.out {
            Output::Small(bytes) => {
                self.environment.work.spend(8 * bytes.len());
                self.emit_text(&sinks[0], bytes);
            }
            Output::Reserved(bytes) => self.emit(&sinks[0], bytes),
        }
        self.emit_text(&sinks[1], outcome.err.into_bytes());
        self.steps.extend(outcome.then);
        true
    }

    /// Writes output whose memory is not reserved yet to its destination. Output that exceeds the bounds is lost, and the
    /// command fails.
    fn emit_text(&mut self, sink: &Sink, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match Buffer::of(bytes, &self.environment.bounds()) {
            Some(bytes) => self.emit(sink, bytes),
            None => {
                self.code = 1;
                let why = b"sh: write error: Cannot allocate memory\n".to_vec();
                let has_said_why = Buffer::of(why, &self.environment.bounds());
                self.steps.extend(has_said_why.map(|text| ShellStep::Print(2, text.into_output())));
            }
        }
    }

    /// Writes output to its destination.
    fn emit(&mut self, sink: &Sink, bytes: Buffer) {
        if bytes.is_empty() {
            return;
        }
        match sink {
            Sink::Channel(channel) => self.steps.push_back(ShellStep::Print(*channel, bytes.into_output())),
            Sink::Pipe => match &mut self.pipe {
                None => self.pipe = Some(bytes),
                Some(pipe) if pipe.len() + bytes.len() <= INPUT_BYTES => {
                    pipe.push(bytes.as_ref());
                }
                // The pipe is full: the next command could not read all of it.
                Some(_) => self.code = 1,
            },
            Sink::File(path) => {
                if let Err(why) = self.environment.append(path, bytes.as_ref()) {
                    self.code = 1;
                    self.print(2, format!("sh: write error: {why}\n").into_bytes());
                }
            }
        }
    }

    /// Queues a short text for a channel.
    fn print(&mut self, channel: u32, bytes: Vec<u8>) {
        self.emit_text(&Sink::Channel(channel), bytes);
    }

    fn change_directory(&mut self, to: &str, sinks: &Sinks) {
        let path = self.environment.resolved(&self.environment.path(to));
        self.code = u8::from(!self.environment.is_folder(&path));
        if self.code == 0 {
            self.environment.workdir = path;
        } else {
            let why = format!("sh: cd: can't cd to {to}: No such file or directory\n");
            self.emit_text(&sinks[1], why.into_bytes());
        }
    }
}
