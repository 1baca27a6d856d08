//! New processes: subshells, parts of pipelines, substitutions and background jobs.

use super::kernel::Kernel;
use super::process::{Frame, Process};
use crate::limits::{NESTED_SHELLS, PROCESSES};
use crate::shell::descriptor::{self, Descriptor};
use crate::shell::memory::Buffer;
use crate::shell::syntax::{Command, List};
use crate::shell::work::SHELL_WORK;
use std::sync::{Arc, Mutex};

impl Process {
    /// A copy of this process that runs `frames`. `None`, with the reason printed, if there may be no more processes.
    pub(super) fn fork(&mut self, kernel: &mut Kernel, frames: Vec<Frame>, nested: bool) -> Option<Self> {
        if kernel.living >= PROCESSES || self.level + usize::from(nested) > NESTED_SHELLS {
            self.complain(kernel, "can't fork: Resource temporarily unavailable");
            self.state.code = 2;
            self.abort();
            return None;
        }
        kernel.bounds.work.spend(SHELL_WORK);
        kernel.living += 1;
        let pid = kernel.new_pid();
        let mut state = self.state.clone();
        state.options.interactive = false;
        // A subshell does not inherit what signals do, except for those that are ignored.
        Arc::make_mut(&mut state.traps).retain(|_, text| text.is_empty());
        let level = self.level + usize::from(nested);
        let mut child = Self::new(kernel, (pid, self.pid), state, self.descriptors.clone(), level);
        child.frames = frames;
        child.tested = self.tested;
        child.calls = self.calls;
        self.children.insert(pid, None);
        Some(child)
    }

    pub(super) fn start_subshell(&mut self, kernel: &mut Kernel, list: &Arc<List>) {
        let frames = vec![Frame::List(Arc::clone(list), 0)];
        if let Some(child) = self.fork(kernel, frames, true) {
            self.frames.push(Frame::AwaitChild(child.pid));
            kernel.spawned.push(child);
        }
    }

    /// Starts the commands of a pipeline, each with its pipe to the next.
    pub(super) fn start_pipeline(&mut self, kernel: &mut Kernel, commands: &[Arc<Command>]) {
        let mut pids = Vec::new();
        let mut input: Option<Descriptor> = None;
        let mut children = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            let Some(mut child) = self.fork(kernel, vec![Frame::Command(Arc::clone(command))], true) else {
                kernel.living -= children.len();
                for child in &children {
                    let child: &Self = child;
                    self.children.remove(&child.pid);
                }
                return;
            };
            if let Some(input) = input.take() {
                child.descriptors.insert(0, input);
            }
            if at + 1 < commands.len() {
                let (reader, writer) = descriptor::pipe(&kernel.bounds);
                child.descriptors.insert(1, writer);
                input = Some(reader);
            }
            pids.push(child.pid);
            children.push(child);
        }
        kernel.spawned.extend(children);
        self.frames.push(Frame::AwaitPipeline(pids));
    }

    /// Starts an entry of a list in the background.
    pub(super) fn start_background(&mut self, kernel: &mut Kernel, list: Arc<List>, at: usize) {
        let Some(mut child) = self.fork(kernel, vec![Frame::Entry(list, at, 0)], true) else { return };
        child.descriptors.insert(0, Descriptor::Null);
        child.tested = false;
        self.state.background = Some(child.pid);
        self.state.code = 0;
        kernel.spawned.push(child);
    }

    /// Starts a substitution, whose output goes to the place `key` of the current command.
    pub(super) fn start_substitution(&mut self, kernel: &mut Kernel, key: usize, list: &Arc<List>) {
        let frames = vec![Frame::List(Arc::clone(list), 0)];
        let Some(mut child) = self.fork(kernel, frames, true) else { return };
        let capture = Arc::new(Mutex::new(Buffer::new(&kernel.bounds)));
        child.descriptors.insert(1, Descriptor::Capture(Arc::clone(&capture)));
        child.tested = false;
        self.frames.push(Frame::AwaitOutput(child.pid, capture, key));
        kernel.spawned.push(child);
    }

    /// Starts a new program that reads the shell's language: `sh`.
    pub(super) fn fork_program(&mut self, kernel: &mut Kernel) -> Option<Self> {
        let mut child = self.fork(kernel, Vec::new(), true)?;
        child.become_shell(kernel);
        Some(child)
    }

    /// Forgets what a program does not get from the shell that starts it.
    pub(super) fn become_shell(&mut self, kernel: &Kernel) {
        self.state.env.variables.keep_exported();
        self.state.functions = Arc::default();
        self.state.options = super::Options::default();
        self.state.positional = Arc::default();
        self.state.code = 0;
        self.state.background = None;
        self.state.shell_pid = self.pid;
        self.state.option_at = 0;
        self.state.line = 0;
        self.state.started = kernel.elapsed;
        (self.tested, self.calls, self.has_left) = (false, 0, false);
        Arc::make_mut(&mut self.state.traps).retain(|_, text| text.is_empty());
    }
}
