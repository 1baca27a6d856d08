//! Programs and everything else that a process waits for.

use super::kernel::{InputResult, Kernel};
use super::process::{Flow, Frame, Process};
use crate::limits::{INPUT_BYTES, LONGEST_SLEEP, NETWORK_WORK};
use crate::shell::descriptor::{Descriptor, ReadResult};
use crate::shell::memory::Buffer;
use crate::shell::network::{NetworkFailure, NetworkReply};
use crate::shell::tools::{Effect, ExitRule, Filter, Outcome, Output, Runner, Tool, ToolCall};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A program that runs.
#[derive(Debug)]
pub(in crate::shell) struct ProgramRun {
    tool: &'static Tool,
    argv: Vec<String>,
    /// Its input so far, if it reads all before it prints.
    input: Buffer,
    filter: Option<Box<dyn Filter>>,
    reads: bool,
}

impl Process {
    pub(super) fn start_program(&mut self, kernel: &mut Kernel, tool: &'static Tool, argv: Vec<String>) {
        let touched: usize = argv.iter().map(|word| word.len() + crate::limits::WORD_COST).sum();
        if !kernel.bounds.work.spend(4 * touched) {
            return;
        }
        let reads = (tool.reads)(&argv[1..]);
        let run = ProgramRun { tool, argv, input: Buffer::new(&kernel.bounds), filter: None, reads };
        self.frames.push(Frame::Program(Box::new(run)));
    }

    /// Passes bytes of descriptor 0 to `take`.
    pub(in crate::shell) fn read_from(
        &mut self,
        kernel: &mut Kernel,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> ReadResult {
        match self.descriptors.get(&0) {
            Some(Descriptor::Input) => match kernel.read_input(take) {
                InputResult::Some => ReadResult::Some,
                InputResult::End => ReadResult::End,
                InputResult::Wait => ReadResult::Wait,
            },
            Some(descriptor) => descriptor.read(&self.state.env, take),
            None => ReadResult::Bad,
        }
    }

    /// Ends this process if it reads the command's standard input, after the client sent more than `INPUT_BYTES`.
    pub(super) fn input_failed(&mut self, kernel: &mut Kernel) {
        if !matches!(self.descriptors.get(&0), Some(Descriptor::Input)) {
            return;
        }
        if let Some(Frame::Program(run)) = self.frames.last() {
            let text = format!("{}: Cannot allocate memory\n", run.argv[0]);
            self.frames.pop();
            self.finish(kernel, Outcome::fail(1, text));
        }
    }

    /// Runs a frame that may have to wait.
    pub(super) fn waiting(&mut self, kernel: &mut Kernel, frame: Frame) -> Flow {
        match frame {
            Frame::Program(run) => return self.program(kernel, run),
            Frame::Effects(effects, code) => self.effects(kernel, effects, code),
            Frame::EffectDone(rule) => {
                let code = self.state.code;
                if let Some(Frame::Effects(_, of)) = self.frames.last_mut() {
                    match rule {
                        ExitRule::Take => *of = code,
                        ExitRule::Xargs if code != 0 => *of = if code >= 126 { code } else { 123 },
                        ExitRule::Xargs | ExitRule::Ignore => {}
                    }
                }
            }
            Frame::Words(argv) => self.external(kernel, argv),
            Frame::Sleep(until) if kernel.elapsed < until => {
                kernel.wake_at(until);
                self.frames.push(Frame::Sleep(until));
                return Flow::Wait;
            }
            Frame::AwaitChild(pid) => match self.children.get(&pid).copied().flatten() {
                Some(code) => {
                    self.children.remove(&pid);
                    self.report_death(kernel, pid);
                    self.state.code = code;
                }
                None => {
                    self.frames.push(Frame::AwaitChild(pid));
                    return Flow::Wait;
                }
            },
            Frame::AwaitSignal(handlers) => {
                self.frames.push(Frame::AwaitSignal(handlers));
                return Flow::Wait;
            }
            Frame::AwaitNetwork(number, next) => match kernel.take_reply(number) {
                Some(reply) => {
                    kernel
                        .bounds
                        .work
                        .spend(reply.result.as_ref().map_or(0, |received| received.bytes.len()));
                    let next = next.reply(&self.state.env, reply);
                    self.continue_with(next);
                }
                None => {
                    self.frames.push(Frame::AwaitNetwork(number, next));
                    return Flow::Wait;
                }
            },
            Frame::AwaitPipeline(pids) => return self.await_pipeline(pids),
            Frame::AwaitOutput(pid, capture, key) => return self.await_output(kernel, pid, capture, key),
            Frame::ReadVariables(words, read, until) => {
                return self.read_variables(kernel, words, read, until);
            }
            Frame::ReadScript(buffer) => return self.read_script(kernel, buffer),
            Frame::Wait(pids) => return self.wait_for(pids),
            Frame::Deadline(pid, at, signal) => return self.deadline(kernel, pid, at, signal),
            // The caller runs all others.
            _ => {}
        }
        Flow::On
    }

    fn await_pipeline(&mut self, pids: Vec<u32>) -> Flow {
        let codes: Option<Vec<u8>> =
            pids.iter().map(|pid| self.children.get(pid).copied().flatten()).collect();
        let Some(codes) = codes else {
            self.frames.push(Frame::AwaitPipeline(pids));
            return Flow::Wait;
        };
        self.children.retain(|pid, _| !pids.contains(pid));
        let last = codes.last().copied().unwrap_or(0);
        let failed = codes.iter().rev().copied().find(|code| *code != 0);
        self.state.code = if self.state.options.pipefail { failed.unwrap_or(0) } else { last };
        Flow::On
    }

    fn await_output(
        &mut self,
        kernel: &mut Kernel,
        pid: u32,
        capture: Arc<std::sync::Mutex<Buffer>>,
        key: usize,
    ) -> Flow {
        let ended = self.children.get(&pid).copied().flatten();
        // A background job of the substitution may print still.
        let (Some(code), 1) = (ended, Arc::strong_count(&capture)) else {
            self.frames.push(Frame::AwaitOutput(pid, capture, key));
            return Flow::Wait;
        };
        self.children.remove(&pid);
        let out = capture.lock().unwrap_or_else(PoisonError::into_inner);
        // The text is copied, and each invalid byte becomes three.
        if kernel.bounds.grow(&mut self.output_room, 3 * out.len()) {
            let text = String::from_utf8_lossy(out.as_ref());
            self.outputs.insert(key, text.trim_end_matches('\n').replace('\0', ""));
        }
        self.output_code = Some(code);
        Flow::On
    }

    fn wait_for(&mut self, pids: Vec<u32>) -> Flow {
        let runs = |pid: &u32| self.children.get(pid).is_some_and(Option::is_none);
        let waits = match pids.is_empty() {
            true => self.children.values().any(Option::is_none),
            false => pids.iter().any(runs),
        };
        if waits {
            self.frames.push(Frame::Wait(pids));
            return Flow::Wait;
        }
        self.state.code = match pids.last() {
            Some(last) => self.children.get(last).copied().flatten().unwrap_or(127),
            None => 0,
        };
        match pids.is_empty() {
            true => self.children.clear(),
            false => self.children.retain(|pid, _| !pids.contains(pid)),
        }
        Flow::On
    }

    fn deadline(&mut self, kernel: &mut Kernel, pid: u32, at: Duration, signal: u8) -> Flow {
        if let Some(code) = self.children.get(&pid).copied().flatten() {
            self.children.remove(&pid);
            self.state.code = code;
            return Flow::On;
        }
        if kernel.elapsed >= at {
            kernel.sent.push((pid, signal));
            self.frames.push(Frame::EffectDone(ExitRule::Take));
            self.frames.push(Frame::AwaitChild(pid));
            return Flow::On;
        }
        kernel.wake_at(at);
        self.frames.push(Frame::Deadline(pid, at, signal));
        Flow::Wait
    }

    fn read_script(&mut self, kernel: &mut Kernel, mut buffer: Buffer) -> Flow {
        let result = self.read_from(kernel, &mut |bytes| {
            buffer.push(bytes);
            bytes.len()
        });
        match result {
            ReadResult::Some | ReadResult::Wait => {
                self.frames.push(Frame::ReadScript(buffer));
                if result == ReadResult::Some { Flow::On } else { Flow::Wait }
            }
            ReadResult::End | ReadResult::Bad => {
                let text = String::from_utf8_lossy(buffer.as_ref()).into_owned();
                self.push_script(kernel, &text, "", false);
                Flow::On
            }
        }
    }

    fn program(&mut self, kernel: &mut Kernel, mut run: Box<ProgramRun>) -> Flow {
        if let Runner::Stream(begin) = run.tool.run
            && run.filter.is_none()
        {
            let call = ToolCall { env: &self.state.env, argv: &run.argv, input: b"" };
            match begin(&call) {
                Ok(filter) => run.filter = Some(filter),
                Err(outcome) => {
                    self.finish(kernel, outcome);
                    return Flow::On;
                }
            }
        }
        if run.reads {
            return self.feed(kernel, run);
        }
        self.run_program(kernel, *run);
        Flow::On
    }

    /// Passes the next input to a program.
    fn feed(&mut self, kernel: &mut Kernel, mut run: Box<ProgramRun>) -> Flow {
        let env = self.state.env.clone();
        let (mut outcome, mut is_full) = (None, false);
        let ProgramRun { input, filter, .. } = &mut *run;
        let result = self.read_from(kernel, &mut |bytes| {
            match filter {
                Some(filter) => outcome = Some(filter.feed(&env, bytes)),
                None if input.len() + bytes.len() > INPUT_BYTES => is_full = true,
                None => is_full = !input.push(bytes),
            }
            bytes.len()
        });
        if is_full {
            let name = run.argv[0].clone();
            let outcome = Outcome::fail(1, format!("{name}: Cannot allocate memory\n"));
            self.finish(kernel, outcome);
            return Flow::On;
        }
        match result {
            ReadResult::Wait => {
                self.frames.push(Frame::Program(run));
                Flow::Wait
            }
            ReadResult::Some => {
                match outcome {
                    Some((outcome, true)) => self.finish(kernel, outcome),
                    Some((outcome, false)) => {
                        self.frames.push(Frame::Program(run));
                        self.print_outcome(kernel, outcome);
                    }
                    None => self.frames.push(Frame::Program(run)),
                }
                Flow::On
            }
            ReadResult::End | ReadResult::Bad => {
                self.run_program(kernel, *run);
                Flow::On
            }
        }
    }

    /// Runs a program that has all of its input.
    fn run_program(&mut self, kernel: &mut Kernel, run: ProgramRun) {
        let ProgramRun { tool, argv, input, filter, .. } = run;
        // Programs pass over their input a few times.
        if !kernel.bounds.work.spend(4 * input.len()) {
            return;
        }
        let outcome = match (filter, tool.run) {
            (Some(mut filter), _) => filter.end(&self.state.env),
            (None, Runner::Whole(run)) => {
                run(&ToolCall { env: &self.state.env, argv: &argv, input: input.as_ref() })
            }
            (None, Runner::Stream(_)) => Outcome::default(),
        };
        drop(input);
        // Partial output would keep its memory until the client takes it.
        if kernel.bounds.work.killed().is_none() {
            self.finish(kernel, outcome);
        }
    }

    /// Prints the output of a program. Returns what is left to do, and its exit code.
    fn print_outcome(&mut self, kernel: &mut Kernel, outcome: Outcome) -> (Vec<Effect>, u8) {
        let Outcome { out, err, code, then } = outcome;
        match out {
            Output::Small(bytes) => {
                kernel.bounds.work.spend(8 * bytes.len());
                self.print(kernel, 1, &bytes);
            }
            Output::Reserved(bytes) => {
                if !bytes.is_empty() {
                    self.print_buffer(kernel, 1, bytes);
                }
            }
        }
        self.print(kernel, 2, err.as_bytes());
        (then, code)
    }

    fn finish(&mut self, kernel: &mut Kernel, outcome: Outcome) {
        self.state.code = 0;
        let (then, code) = self.print_outcome(kernel, outcome);
        // The write itself can fail.
        let code = if self.state.code != 0 && code == 0 { self.state.code } else { code };
        self.state.code = code;
        if !then.is_empty() {
            self.frames.push(Frame::Effects(then.into(), code));
        }
    }

    /// Puts effects in front of those that are left of the program.
    fn continue_with(&mut self, next: Vec<Effect>) {
        let at = self.frames.iter().rposition(|frame| matches!(frame, Frame::Effects(..)));
        if let Some(Frame::Effects(rest, _)) = at.map(|at| &mut self.frames[at]) {
            for effect in next.into_iter().rev() {
                rest.push_front(effect);
            }
        }
    }

    fn effects(&mut self, kernel: &mut Kernel, mut effects: VecDeque<Effect>, code: u8) {
        let Some(effect) = effects.pop_front() else { return self.state.code = code };
        self.frames.push(Frame::Effects(effects, code));
        match effect {
            Effect::Print(bytes) => {
                self.print(kernel, 1, &bytes);
            }
            Effect::Output(bytes) => {
                self.print_buffer(kernel, 1, bytes);
            }
            Effect::Error(bytes) => {
                self.print(kernel, 2, &bytes);
            }
            Effect::Sleep(time) => {
                let until = kernel.elapsed.saturating_add(time.min(LONGEST_SLEEP));
                self.frames.push(Frame::Sleep(until));
            }
            Effect::Write(path, bytes) => {
                let env = &self.state.env;
                // The program does not look at the result.
                let _ = env.write(&env.path(&path), &bytes);
            }
            Effect::Code(code) => {
                if let Some(Frame::Effects(_, of)) = self.frames.last_mut() {
                    *of = code;
                }
            }
            Effect::Step(program) => {
                self.count_round(kernel);
                let next = program.step(&self.state.env);
                self.continue_with(next);
            }
            Effect::Network(call, next) => {
                self.count_round(kernel);
                kernel.bounds.work.spend(NETWORK_WORK);
                match kernel.begin_call(*call) {
                    Some(number) => self.frames.push(Frame::AwaitNetwork(number, next)),
                    None => {
                        let reply = NetworkReply::failed(NetworkFailure::Exhausted);
                        let next = next.reply(&self.state.env, reply);
                        self.continue_with(next);
                    }
                }
            }
            Effect::AwaitSignal(handlers) => self.frames.push(Frame::AwaitSignal(handlers)),
            Effect::Run { argv, rule, variables, input, limit } => {
                self.frames.push(Frame::EffectDone(rule));
                let Some(mut child) = self.fork(kernel, vec![Frame::Words(argv)], true) else { return };
                if input.is_some() {
                    child.descriptors.insert(0, Descriptor::Null);
                }
                for (name, value) in variables {
                    match value {
                        Some(value) => {
                            child.set(kernel, &name, &value);
                            child.export(kernel, &name);
                        }
                        None => drop(child.state.env.variables.remove(&name, &mut child.room)),
                    }
                }
                match limit {
                    Some((time, signal)) => {
                        let at = kernel.elapsed.saturating_add(time.min(LONGEST_SLEEP));
                        self.frames.push(Frame::Deadline(child.pid, at, signal));
                    }
                    None => self.frames.push(Frame::AwaitChild(child.pid)),
                }
                kernel.spawned.push(child);
            }
        }
    }
}
