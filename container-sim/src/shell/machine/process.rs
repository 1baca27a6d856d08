//! One process: the state that a subshell copies, its descriptors, and the stack of what it runs.

use super::kernel::Kernel;
use super::program::ProgramRun;
use super::simple::SimpleRun;
use crate::limits::PROCESS_BYTES;
use crate::shell::descriptor::Descriptor;
use crate::shell::env::Env;
use crate::shell::memory::{Buffer, Reservation};
use crate::shell::syntax::{Command, List};
use crate::shell::tools::{Effect, ExitRule, Networked};
use crate::shell::variables::Variable;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The options of `set` and `shopt`.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shell) struct Options {
    pub(in crate::shell) errexit: bool,
    pub(in crate::shell) nounset: bool,
    pub(in crate::shell) xtrace: bool,
    pub(in crate::shell) noglob: bool,
    pub(in crate::shell) noexec: bool,
    pub(in crate::shell) verbose: bool,
    pub(in crate::shell) allexport: bool,
    pub(in crate::shell) noclobber: bool,
    pub(in crate::shell) pipefail: bool,
    pub(in crate::shell) nullglob: bool,
    pub(in crate::shell) extglob: bool,
    pub(in crate::shell) globstar: bool,
    pub(in crate::shell) command_string: bool,
    pub(in crate::shell) interactive: bool,
}

/// What a subshell copies.
#[derive(Clone, Debug)]
pub(in crate::shell) struct State {
    pub(in crate::shell) env: Env,
    pub(in crate::shell) functions: Arc<BTreeMap<String, Arc<Command>>>,
    pub(in crate::shell) options: Options,
    /// `$0`.
    pub(in crate::shell) name: String,
    /// `$1` and so on.
    pub(in crate::shell) positional: Arc<Vec<String>>,
    /// Commands for signals by number; 0 is the end of the shell. An empty one ignores the signal.
    pub(in crate::shell) traps: Arc<BTreeMap<u8, String>>,
    /// The exit code of the latest command.
    pub(in crate::shell) code: u8,
    /// `$!`.
    pub(in crate::shell) background: Option<u32>,
    /// `$$`: the process of the shell, not of its subshell.
    pub(in crate::shell) shell_pid: u32,
    /// The place of `getopts` in its word.
    pub(in crate::shell) option_at: usize,
    /// The line of the current command of a script file; 0 if the script is no file.
    pub(in crate::shell) line: usize,
    pub(in crate::shell) started: Duration,
}

/// A text that is read line by line.
#[derive(Debug)]
pub(in crate::shell) struct Script {
    pub(in crate::shell) text: Arc<str>,
    pub(in crate::shell) at: usize,
    pub(in crate::shell) line: usize,
    /// Whether errors name the line: a script that is a file.
    pub(in crate::shell) numbered: bool,
    /// What errors name beside the shell: `eval: `.
    pub(in crate::shell) role: &'static str,
    /// Memory of the text and its parts.
    pub(in crate::shell) _room: Reservation,
}

/// What a frame restores when it ends.
#[derive(Debug, Default)]
pub(in crate::shell) struct Saved {
    pub(super) descriptors: Vec<(u32, Option<Descriptor>)>,
    pub(super) variables: Vec<(String, Option<Variable>)>,
    pub(super) positional: Option<Arc<Vec<String>>>,
    /// Whether the frame is the end of a function.
    pub(super) is_function: bool,
    /// Whether the frame is the end of `.`.
    pub(super) is_source: bool,
    /// Whether it is the end of `eval`.
    pub(super) is_eval: bool,
}

/// What a process runs; the last one of the stack is next.
#[derive(Debug)]
pub(in crate::shell) enum Frame {
    Script(Box<Script>),
    /// Lines of an interactive shell, with the incomplete command so far.
    Interactive(String),
    /// A shell that reads all of its input as its script.
    ReadScript(Buffer),
    List(Arc<List>, usize),
    /// The pipelines of an entry, from the one with the number.
    Entry(Arc<List>, usize, usize),
    Command(Arc<Command>),
    Simple(Box<SimpleRun>),
    /// The condition of the arm with this number has run.
    Arm(Arc<Command>, usize),
    /// The condition of a loop has run; with the exit code of the latest round.
    Condition(Arc<Command>, u8),
    /// The body of a loop has run.
    Round(Arc<Command>),
    /// The remaining values of a `for`.
    Next(Arc<Command>, VecDeque<String>, Reservation),
    /// Inverts the exit code.
    Negate,
    /// Ends a part whose failure `set -e` does not see: the flag was this before it.
    Tested(bool),
    /// The exit code was not looked at yet by `set -e`.
    Check,
    Restore(Box<Saved>),
    AwaitChild(u32),
    /// Ends with the code of the last of these processes, or with `pipefail` of the last that failed.
    AwaitPipeline(Vec<u32>),
    /// A substitution: its process, its output, and the place in the script.
    AwaitOutput(u32, Arc<Mutex<Buffer>>, usize),
    Program(Box<ProgramRun>),
    /// What is left of a program's result: output, waits and commands.
    Effects(VecDeque<Effect>, u8),
    /// The code of a command that a program ran.
    EffectDone(ExitRule),
    /// A program with its arguments, without functions and builtins.
    Words(Vec<String>),
    Sleep(Duration),
    /// A program that waits for one of these signals: what follows each.
    AwaitSignal(Vec<(u8, Vec<Effect>)>),
    /// A program that waits for the reply to its call on the network.
    AwaitNetwork(u64, Box<dyn Networked>),
    /// `read`: its words and what it has read.
    ReadVariables(Vec<String>, Vec<u8>, Option<Duration>),
    /// `wait` for these processes; for all if there are none.
    Wait(Vec<u32>),
    /// The end of a trap: the exit code before it.
    TrapEnd(u8),
    /// Ends the process with its exit code.
    Exit,
    /// Kills a program after its time: `timeout`.
    Deadline(u32, Duration, u8),
}

/// How a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shell) enum Flow {
    /// The process goes on.
    On,
    /// It must wait.
    Wait,
}

/// The expanded words of a command so far.
#[derive(Debug)]
pub(in crate::shell) struct PartialWords {
    /// The place of the words in the script.
    pub(in crate::shell) key: usize,
    /// How many of them are expanded.
    pub(in crate::shell) next: usize,
    pub(in crate::shell) fields: Vec<String>,
    pub(in crate::shell) room: Reservation,
}

/// One process.
#[derive(Debug)]
pub(in crate::shell) struct Process {
    pub(in crate::shell) pid: u32,
    pub(in crate::shell) parent: u32,
    pub(in crate::shell) state: State,
    pub(in crate::shell) frames: Vec<Frame>,
    pub(in crate::shell) descriptors: BTreeMap<u32, Descriptor>,
    /// Output that its pipe has no space for yet.
    pub(in crate::shell) pending: VecDeque<(Descriptor, Buffer, usize)>,
    /// The exit codes of children; `None` while they run.
    pub(in crate::shell) children: BTreeMap<u32, Option<u8>>,
    pub(in crate::shell) signals: Vec<u8>,
    /// Ended by a signal or `exit`: the code.
    pub(in crate::shell) ended: Option<u8>,
    /// Whether `set -e` does not see failures: the process runs a condition.
    pub(in crate::shell) tested: bool,
    /// The output of substitutions of the current command, by their place in the script.
    pub(in crate::shell) outputs: BTreeMap<usize, String>,
    /// Words that are expanded already, while a later one waits for a substitution.
    pub(in crate::shell) partial: Option<PartialWords>,
    /// The exit code of the latest substitution of the current command.
    pub(in crate::shell) output_code: Option<u8>,
    /// How many functions, `eval` and `.` run inside each other.
    pub(in crate::shell) calls: usize,
    /// How many shells and substitutions the process is inside of.
    pub(in crate::shell) level: usize,
    /// Memory of the variables.
    pub(in crate::shell) room: Reservation,
    /// Memory of outputs of substitutions.
    pub(in crate::shell) output_room: Reservation,
    /// Whether the trap for the end has run.
    pub(in crate::shell) has_left: bool,
}

impl Process {
    /// A process with these descriptors and without frames.
    pub(in crate::shell) fn new(
        kernel: &Kernel,
        (pid, parent): (u32, u32),
        state: State,
        descriptors: BTreeMap<u32, Descriptor>,
        level: usize,
    ) -> Self {
        let bounds = &kernel.bounds;
        let mut room = Reservation::new(&bounds.allowance);
        if pid > 1 {
            let positional: usize = state.positional.iter().map(String::len).sum();
            let cost = PROCESS_BYTES + state.env.variables.cost() + positional;
            bounds.work.spend(cost);
            bounds.grow(&mut room, cost);
        }
        Self {
            pid,
            parent,
            state,
            frames: Vec::new(),
            descriptors,
            pending: VecDeque::new(),
            children: BTreeMap::new(),
            signals: Vec::new(),
            ended: None,
            tested: false,
            outputs: BTreeMap::new(),
            partial: None,
            output_code: None,
            calls: 0,
            level,
            room,
            output_room: Reservation::new(&bounds.allowance),
            has_left: false,
        }
    }

    /// Forgets the outputs of the current command's substitutions.
    pub(super) fn forget_outputs(&mut self) {
        self.partial = None;
        if !self.outputs.is_empty() {
            self.outputs.clear();
            self.output_room.shrink(usize::MAX);
        }
    }

    /// Sets a variable. Prints why it cannot and returns false if it is read-only.
    pub(in crate::shell) fn set(&mut self, kernel: &mut Kernel, name: &str, text: &str) -> bool {
        use crate::shell::variables::Value;
        let exports = self.state.options.allexport;
        let bounds = (&kernel.bounds, &mut self.room);
        let integer = self.state.env.variables.get(name).is_some_and(|variable| variable.integer);
        let evaluated;
        let text = match integer {
            true => match crate::shell::arithmetic::evaluate(text, &|name| {
                self.state.env.variables.text(name).map(str::to_owned)
            }) {
                Ok(value) => {
                    evaluated = value.value.to_string();
                    evaluated.as_str()
                }
                Err(_) => "0",
            },
            false => text,
        };
        let set = self.state.env.variables.change(name, bounds, |variable| {
            match &mut variable.value {
                Value::Array(all) => drop(all.insert(0, text.to_owned())),
                Value::Map(all) => drop(all.insert("0".to_owned(), text.to_owned())),
                Value::Unset | Value::Text(_) => variable.value = Value::Text(text.to_owned()),
            }
            variable.exported |= exports;
        });
        if set.is_err() {
            self.complain(kernel, &format!("{name}: is read only"));
        }
        set.is_ok()
    }

    /// Prints an error of the shell to descriptor 2.
    pub(in crate::shell) fn complain(&mut self, kernel: &mut Kernel, text: &str) {
        let line = match self.state.line {
            0 => String::new(),
            line => format!("line {line}: "),
        };
        let text = format!("{}: {line}{text}\n", self.state.name);
        self.print(kernel, 2, text.as_bytes());
    }
}
