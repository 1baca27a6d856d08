//! Runs the processes of one command: shells, subshells, parts of pipelines, substitutions and background jobs, each until it must wait.
//!
//! `process` has the state of one process and its stack of frames, `kernel` what all share. `run` runs the frames: lists, loops and
//! conditions; `simple` simple commands; `redirect` redirections; `spawn` new processes; `program` programs; `signal` signals and traps.
//! Nothing recurses at run time, so a script's depth costs memory and no stack.

mod call;
mod control;
mod kernel;
mod process;
mod program;
mod redirect;
mod run;
pub(super) mod signal;
mod simple;
mod spawn;

pub(super) use kernel::{Kernel, Offered};
pub(super) use process::{Flow, Frame, Options, PartialWords, Process, State};

use super::ShellStep;
use super::descriptor::Descriptor;
use crate::limits::LONGEST_SLEEP;
use std::collections::BTreeMap;
use std::time::Duration;

/// Frames that a process runs before the next one may.
const QUANTUM: usize = 64;

/// All processes of a command.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) kernel: Kernel,
    processes: BTreeMap<u32, Process>,
    /// The process that ran last.
    last: u32,
    /// The exit code of the first process, after its end.
    code: Option<u8>,
}

impl Machine {
    /// A machine with its first process.
    pub(super) fn new(kernel: Kernel, first: Process) -> Self {
        Self { kernel, processes: BTreeMap::from([(first.pid, first)]), last: 0, code: None }
    }

    /// Ends all processes and frees their memory.
    pub(super) fn clear(&mut self) {
        self.processes.clear();
        self.kernel.clear();
    }

    /// Sets the size of the terminal.
    pub(super) fn resized(&mut self, rows: u16, columns: u16) {
        for process in self.processes.values_mut() {
            process.state.env.terminal = Some((rows, columns));
        }
    }

    /// Runs all processes once around. Returns what the caller must do, if anything; `None` if some process can go on.
    pub(super) fn round(&mut self) -> Option<ShellStep> {
        let mut moved = false;
        self.kernel.begin_round();
        let after: Vec<u32> = self.processes.range(self.last + 1..).map(|(pid, _)| *pid).collect();
        let before = self.processes.range(..=self.last).map(|(pid, _)| *pid);
        let order: Vec<u32> = after.into_iter().chain(before).collect();
        for pid in order {
            let Some(mut process) = self.processes.remove(&pid) else { continue };
            self.last = pid;
            process.state.env.now = self.kernel.now();
            let (ran, ended) = process.run(&mut self.kernel, QUANTUM);
            moved |= ran;
            match ended {
                Some(code) => {
                    drop(process.frames);
                    self.end(pid, process.parent, code);
                    moved = true;
                }
                None => drop(self.processes.insert(pid, process)),
            }
            for new in std::mem::take(&mut self.kernel.spawned) {
                self.processes.insert(new.pid, new);
                moved = true;
            }
            moved |= self.deliver();
            if let Some(step) = self.kernel.steps.pop_front() {
                return Some(step);
            }
            if let Some(code) = self.code {
                return Some(ShellStep::Exit(code));
            }
            if self.kernel.is_interrupted() {
                return None;
            }
        }
        if moved {
            return None;
        }
        Some(self.wait())
    }

    /// What to wait for when no process can go on.
    fn wait(&mut self) -> ShellStep {
        if self.kernel.wants_line {
            return ShellStep::ReadLine;
        }
        if self.kernel.wants_input {
            return ShellStep::Read;
        }
        let wait = self.kernel.next_wake.map(|at| at.saturating_sub(self.kernel.elapsed));
        // Processes that wait for each other do so for ever.
        ShellStep::Sleep(wait.unwrap_or(LONGEST_SLEEP).max(Duration::from_nanos(1)))
    }

    /// Reports the end of a process to its parent.
    fn end(&mut self, pid: u32, parent: u32, code: u8) {
        self.kernel.living = self.kernel.living.saturating_sub(1);
        self.kernel.pids.remove(&pid);
        if parent == 0 {
            self.code = Some(code);
        } else if let Some(parent) = self.processes.get_mut(&parent) {
            parent.children.insert(pid, Some(code));
        } else if let Some(new) = self.kernel.spawned.iter_mut().find(|process| process.pid == parent) {
            new.children.insert(pid, Some(code));
        }
    }

    /// The input of the command is larger than the bounds allow: programs that read it fail.
    pub(super) fn input_failed(&mut self) {
        for process in self.processes.values_mut() {
            process.input_failed(&mut self.kernel);
        }
    }

    /// Hands signals that were sent to their targets.
    pub(super) fn deliver(&mut self) -> bool {
        let sent = std::mem::take(&mut self.kernel.sent);
        let any = !sent.is_empty();
        for (pid, signal) in sent {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.signals.push(signal);
            }
        }
        any
    }
}

/// The descriptors of the first process.
pub(super) fn first_descriptors() -> BTreeMap<u32, Descriptor> {
    [(0, Descriptor::Input), (1, Descriptor::Channel(1)), (2, Descriptor::Channel(2))].into()
}
