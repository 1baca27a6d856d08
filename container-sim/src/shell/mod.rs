//! The simulated shell: interprets commands over a container's [`Environment`] (variables, mounted files, written files),
//! and touches nothing else. No I/O: [`ShellStep`] says what needs time or input.
//!
//! `syntax` is the language, `machine` runs it in processes, `expand` and `arithmetic` expand words. `variables` and `descriptor` are the
//! state of a process, `builtins` its commands. `tools` are the programs, `pattern` and `regex` match texts, `files` and `disk` are the
//! file system. `network` is what programs want of the network, `server` answers requests. `memory` and `work` bound what a command may
//! use. `known` and `reading` judge a command before it runs.

mod arithmetic;
#[cfg(test)]
mod bounds_tests;
mod builtins;
#[cfg(test)]
mod compared_tests;
mod descriptor;
mod disk;
mod env;
mod escape;
mod expand;
mod files;
mod known;
mod machine;
mod memory;
mod network;
#[cfg(test)]
mod network_tests;
mod pattern;
mod reading;
mod regex;
#[cfg(test)]
mod running_tests;
mod server;
mod syntax;
#[cfg(test)]
mod tests;
mod tools;
mod variables;
mod work;

use crate::script::ScriptedAnswer;
pub use disk::{Content, Disk, DiskCapacity, DiskEntry, DiskFull};
use env::Env;
pub use known::{NotRunnable, check_runnable};
use machine::{Kernel, Machine, Offered, Options, Process, State};
use memory::Buffer;
pub use memory::{BufferAllowance, BufferCapacity, OutputBytes, Reservation};
pub use network::{
    DnsAnswer, DnsQuestion, DnsRecord, NetworkCall, NetworkEnd, NetworkFailure, NetworkReply, Received,
    ReceivedEnd, RecordKind, TlsClient, TlsFailure, TlsTrust,
};
pub use reading::{may_read_files, may_read_input};
pub use server::{Server, ServerAction, ServerCertificate, ServerEncryption, ServerGreeting, ServerPeer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
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
    /// Folders that are mounted read-only; `/` is the root of the container.
    pub read_only: BTreeSet<String>,
    /// Folders whose files are in memory: `tmpfs`.
    pub memory_mounts: BTreeSet<String>,
    /// Writable volumes by the folder where they are mounted.
    pub volumes: BTreeMap<String, Disk>,
    /// The container's own disk, for all other paths.
    pub disk: Disk,
    /// The user that runs the command.
    pub user: User,
    /// Programs of the container's image beside those of every image, by path.
    pub programs: ImagePrograms,
    /// Whether its programs cannot gain privileges, such as by the bit `setuid` of a file (`no_new_privs`).
    pub no_new_privileges: bool,
    /// The command line of the container's first process, for `ps`; empty if the command is that process itself.
    pub first_process: String,
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

/// Programs of an image by their paths, with the names of the simulated programs that they are.
pub type ImagePrograms = BTreeMap<String, String>;

/// The user of a command: numbers of the user, of its group, and of further groups. The default is root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The number of the user.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
    /// The numbers of its further groups.
    pub more_groups: Vec<u32>,
}

impl User {
    /// All groups of the user, each once, its own first.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        let more = self.more_groups.iter().copied().filter(|group| *group != self.group);
        std::iter::once(self.group).chain(more)
    }
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
    /// Begin this call on the network, and pass its reply with its number to [`Shell::network`]. Step on meanwhile.
    Network(u64, Box<NetworkCall>),
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

/// The name of a program without the folder of an absolute path.
fn program_name(program: &str) -> &str {
    let folders = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/"];
    folders.iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program)
}

/// Whether a program is the shell itself.
pub fn is_shell(program: &str) -> bool {
    matches!(program_name(program), "sh" | "bash" | "ash" | "dash")
}

/// Whether the programs of every image, or these of one image, have one that this word starts.
pub fn has_program(programs: &ImagePrograms, word: &str) -> bool {
    is_shell(word) || tools::find_in(programs, word).is_some()
}

/// The name of a program in one of the folders of `$PATH`, or without a folder; `None` for other paths.
pub fn name_in_path(program: &str) -> Option<&str> {
    Some(program_name(program)).filter(|name| !name.contains('/'))
}

/// Whether a command that the runtime starts, without a shell, is a program.
fn is_program(env: &Env, argv: &[String]) -> bool {
    let Some(first) = argv.first() else { return false };
    let is_script = || {
        let entry = env.entry(&env.resolved(&env.path(first)));
        first.contains('/')
            && entry.is_some_and(|entry| entry.mode & 0o111 != 0 && entry.content != Content::Folder)
    };
    env.answers.contains_key(&argv.join(" ")) || has_program(&env.programs, first) || is_script()
}

/// A running command: call [`Shell::step`] until it returns [`ShellStep::Exit`].
#[derive(Debug)]
pub struct Shell {
    machine: Machine,
    /// The exit code, once the command has ended.
    ended: Option<u8>,
    /// Whether the reason why the command was killed is printed.
    has_said_why: bool,
}

impl Shell {
    /// Starts the command `argv`.
    ///
    /// # Errors
    /// When the container has no such program.
    pub fn run(environment: Environment, argv: &[String]) -> Result<Self, ProgramNotFound> {
        let shared = Arc::new(environment);
        let env = Env::new(&shared);
        if !is_program(&env, argv) {
            return Err(ProgramNotFound(argv.first().cloned().unwrap_or_default()));
        }
        let kernel = Kernel::new(shared);
        let state = State {
            env,
            functions: Arc::default(),
            options: Options::default(),
            name: "sh".to_owned(),
            positional: Arc::default(),
            traps: Arc::default(),
            code: 0,
            background: None,
            shell_pid: 1,
            option_at: 0,
            line: 0,
            started: Duration::ZERO,
        };
        let mut first = Process::new(&kernel, (1, 0), state, machine::first_descriptors(), 0);
        let mut kernel = kernel;
        first.start(&mut kernel, argv);
        Ok(Self { machine: Machine::new(kernel, first), ended: None, has_said_why: false })
    }

    /// Advances to the next thing that the caller must do.
    pub fn step(&mut self) -> ShellStep {
        let work = self.machine.kernel.bounds.work.clone();
        work.begin_step();
        loop {
            if let Some(step) = self.machine.kernel.steps.pop_front() {
                return step;
            }
            if let Some(code) = self.ended {
                return ShellStep::Exit(code);
            }
            if let Some(why) = work.killed() {
                if !self.has_said_why {
                    self.kill(why);
                }
                continue;
            }
            if work.is_slice_used() {
                work.begin_step();
                return ShellStep::Yield;
            }
            match self.machine.round() {
                None => {}
                Some(ShellStep::Exit(code)) => {
                    self.ended = Some(code);
                    self.machine.clear();
                }
                // A killed command prints nothing more that it has begun.
                Some(ShellStep::Print(..)) if work.killed().is_some() => {}
                Some(ShellStep::Sleep(time)) => {
                    self.machine.kernel.pass(time);
                    return ShellStep::Sleep(time);
                }
                Some(step) => return step,
            }
        }
    }

    /// Ends the command with the exit code of SIGKILL. What it has printed is still sent.
    fn kill(&mut self, why: Killed) {
        self.has_said_why = true;
        self.machine.clear();
        let kernel = &mut self.machine.kernel;
        let text = Buffer::of(format!("{why}\n").into_bytes(), &kernel.bounds);
        kernel.steps.extend(text.map(|text| ShellStep::Print(2, text.into_output())));
        self.ended = Some(KILLED);
    }

    /// Why the command was killed, if it was.
    pub fn killed(&self) -> Option<Killed> {
        self.machine.kernel.bounds.work.killed()
    }

    /// Sets the size of the terminal.
    pub fn resized(&mut self, rows: u16, columns: u16) {
        self.machine.resized(rows, columns);
    }

    /// Sends a signal to the first process, where it has no effect without a trap, except for SIGKILL; 15 is SIGTERM. The time of the
    /// latest [`ShellStep::Sleep`] counts as passed but for `unslept`, the rest of it, for which the caller has not waited.
    pub fn signal(&mut self, signal: u8, unslept: Duration) {
        let kernel = &mut self.machine.kernel;
        kernel.elapsed = kernel.elapsed.saturating_sub(unslept);
        kernel.send(1, signal);
        self.machine.deliver();
    }

    /// Passes the reply to a call on the network, `unslept` before the end of the latest [`ShellStep::Sleep`].
    pub fn network(&mut self, number: u64, reply: NetworkReply, unslept: Duration) {
        let kernel = &mut self.machine.kernel;
        kernel.elapsed = kernel.elapsed.saturating_sub(unslept);
        kernel.offer_reply(number, reply);
    }

    /// Passes one line of input without its newline; `None` is the end of input.
    pub fn line(&mut self, line: Option<&str>) {
        let offered = line.map_or(Offered::End, |line| Offered::Line(line.to_owned()));
        self.machine.kernel.offer_line(offered);
    }

    /// Passes input to the command that waits for it; `None` is the end of input. A command with more input than the bounds
    /// allow fails.
    pub fn input(&mut self, bytes: Option<&[u8]>) {
        if !self.machine.kernel.offer_input(bytes) {
            self.machine.input_failed();
        }
    }
}
