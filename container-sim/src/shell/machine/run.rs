//! Runs the frames of a process.

use super::Offered;
use super::kernel::Kernel;
use super::process::{Flow, Frame, Options, Process, Script};
use crate::limits::{ARGUMENT_BYTES, WORD_COST};
use crate::shell::memory::Reservation;
use crate::shell::syntax::{List, Parser, Pipeline, SyntaxError};
use crate::shell::work::COMMAND_WORK;
use std::sync::Arc;

impl Process {
    /// Runs up to `quantum` frames. Returns whether any ran, and the exit code if the process has ended.
    pub(super) fn run(&mut self, kernel: &mut Kernel, quantum: usize) -> (bool, Option<u8>) {
        let mut moved = false;
        for _ in 0..quantum {
            if kernel.is_interrupted() {
                break;
            }
            moved |= self.take_signals(kernel);
            if let Some(code) = self.ended.take() {
                if !self.leave(kernel, code) {
                    return (true, Some(code));
                }
                moved = true;
                continue;
            }
            if !self.flush(kernel) {
                break;
            }
            if self.ended.is_some() {
                continue;
            }
            let Some(frame) = self.frames.pop() else {
                let code = self.state.code;
                if self.leave(kernel, code) {
                    continue;
                }
                return (true, Some(code));
            };
            match self.frame(kernel, frame) {
                Flow::On => moved = true,
                Flow::Wait => break,
            }
            if !kernel.steps.is_empty() {
                break;
            }
        }
        (moved, None)
    }

    /// Runs the trap for the end of the shell. Returns false if there is none.
    fn leave(&mut self, kernel: &mut Kernel, code: u8) -> bool {
        let text = self.state.traps.get(&0).filter(|text| !text.is_empty()).cloned();
        let Some(text) = text.filter(|_| !self.has_left && kernel.bounds.work.killed().is_none()) else {
            return false;
        };
        self.has_left = true;
        self.state.code = code;
        self.frames = vec![Frame::Exit, Frame::TrapEnd(code)];
        self.push_script(kernel, &text, "", false);
        true
    }

    /// Puts a text on the stack that is read line by line.
    pub(super) fn push_script(&mut self, kernel: &Kernel, text: &str, role: &'static str, numbered: bool) {
        let mut room = Reservation::new(&kernel.bounds.allowance);
        if !kernel.bounds.work.spend(4 * text.len())
            || !kernel.bounds.grow(&mut room, text.len() * (WORD_COST / 4))
        {
            return;
        }
        let text: Arc<str> = Arc::from(text);
        self.frames.push(Frame::Script(Box::new(Script {
            text,
            at: 0,
            line: 1,
            numbered,
            role,
            _room: room,
        })));
    }

    fn frame(&mut self, kernel: &mut Kernel, frame: Frame) -> Flow {
        match frame {
            Frame::Script(script) => self.script(kernel, script),
            Frame::Interactive(before) => return self.interactive(kernel, before),
            Frame::List(list, at) => {
                if at < list.len() {
                    self.frames.push(Frame::List(Arc::clone(&list), at + 1));
                    self.entry(kernel, list, at);
                }
            }
            Frame::Entry(list, entry, at) => self.pipelines(kernel, list, entry, at),
            Frame::Command(_) if self.state.options.noexec && !self.state.options.interactive => {}
            Frame::Command(command) => {
                kernel.bounds.work.spend(COMMAND_WORK);
                self.command(kernel, command);
            }
            Frame::Simple(run) => self.simple(kernel, run),
            Frame::Arm(command, at) => self.arm(&command, at),
            Frame::Condition(command, code) => self.condition(&command, code),
            Frame::Round(command) => self.round(kernel, command),
            Frame::Next(command, values, room) => self.next_value(kernel, command, values, room),
            Frame::Negate => self.state.code = u8::from(self.state.code == 0),
            Frame::Tested(before) => self.tested = before,
            Frame::Check => self.check(),
            Frame::Restore(saved) => self.restore(kernel, *saved),
            Frame::TrapEnd(code) => self.state.code = code,
            Frame::Exit => self.ended = Some(self.state.code),
            frame => return self.waiting(kernel, frame),
        }
        Flow::On
    }

    /// `set -e`: ends the shell if the latest command failed.
    fn check(&mut self) {
        if self.state.options.errexit && self.state.code != 0 && !self.tested {
            self.ended = Some(self.state.code);
        }
    }

    fn script(&mut self, kernel: &mut Kernel, mut script: Box<Script>) {
        if script.text.len() > ARGUMENT_BYTES && !script.numbered {
            self.complain(kernel, "Argument list too long");
            self.state.code = 126;
            return;
        }
        if script.numbered {
            self.state.line = script.line;
        }
        let mut parser = Parser::new(&script.text, script.at, self.state.env.dialect, script.line);
        let parsed = parser.next_line();
        let (at, line) = (parser.offset(), parser.line());
        match parsed {
            Ok(None) => {}
            Ok(Some(list)) => {
                if self.state.options.verbose {
                    let text = script.text[script.at..at].to_owned();
                    self.print(kernel, 2, text.as_bytes());
                }
                kernel.bounds.work.spend(4 * (at - script.at));
                (script.at, script.line) = (at, line);
                self.frames.push(Frame::Script(script));
                self.frames.push(Frame::List(Arc::new(list), 0));
            }
            Err(error) => self.syntax_error(kernel, &script, &error),
        }
    }

    fn syntax_error(&mut self, kernel: &mut Kernel, script: &Script, error: &SyntaxError) {
        if script.numbered {
            self.state.line = error.line;
        }
        self.complain(kernel, &format!("{}syntax error: {}", script.role, error.text));
        self.state.code = 2;
        // The shell ends, also inside of `eval`.
        if !self.state.options.interactive {
            self.ended = Some(2);
        }
    }

    fn interactive(&mut self, kernel: &mut Kernel, before: String) -> Flow {
        let Some(offered) = kernel.take_line() else {
            self.frames.push(Frame::Interactive(before));
            return Flow::Wait;
        };
        let text = match &offered {
            Offered::Line(line) if before.is_empty() => line.clone(),
            Offered::Line(line) => format!("{before}\n{line}"),
            Offered::End => before,
        };
        let is_end = matches!(offered, Offered::End);
        if text.len() > ARGUMENT_BYTES {
            self.complain(kernel, "Argument list too long");
            self.state.code = 126;
            self.frames.push(Frame::Interactive(String::new()));
            return Flow::On;
        }
        kernel.bounds.work.spend(4 * text.len());
        let parsed = Parser::new(&text, 0, self.state.env.dialect, 1).all();
        match parsed {
            Err(error) if error.is_incomplete && !is_end => {
                self.frames.push(Frame::Interactive(text));
                return Flow::On;
            }
            Err(error) => {
                self.complain(kernel, &format!("syntax error: {}", error.text));
                self.state.code = 2;
            }
            Ok(list) => {
                if !is_end {
                    self.frames.push(Frame::Interactive(String::new()));
                }
                self.frames.push(Frame::List(Arc::new(list), 0));
                return Flow::On;
            }
        }
        if !is_end {
            self.frames.push(Frame::Interactive(String::new()));
        }
        Flow::On
    }

    fn entry(&mut self, kernel: &mut Kernel, list: Arc<List>, at: usize) {
        if list[at].background {
            return self.start_background(kernel, list, at);
        }
        self.frames.push(Frame::Entry(list, at, 0));
    }

    /// Runs the pipeline with the number `at` of an entry, or passes over it.
    fn pipelines(&mut self, kernel: &mut Kernel, list: Arc<List>, entry: usize, at: usize) {
        let of = &list[entry];
        if at > of.rest.len() {
            return;
        }
        let pipeline = if at == 0 { &of.first } else { &of.rest[at - 1].1 };
        let wanted = at == 0 || of.rest[at - 1].0 == (self.state.code == 0);
        let is_last = at == of.rest.len();
        if !is_last {
            self.frames.push(Frame::Entry(Arc::clone(&list), entry, at + 1));
        }
        if wanted {
            self.pipeline(kernel, pipeline, is_last);
        }
    }

    fn pipeline(&mut self, kernel: &mut Kernel, pipeline: &Pipeline, is_last: bool) {
        if pipeline.negated || !is_last {
            self.frames.push(Frame::Tested(self.tested));
            self.tested = true;
        }
        if pipeline.negated {
            self.frames.push(Frame::Negate);
        }
        match pipeline.commands.as_slice() {
            [command] => self.frames.push(Frame::Command(Arc::clone(command))),
            commands => {
                self.frames.push(Frame::Check);
                self.start_pipeline(kernel, commands);
            }
        }
    }

    /// The options as `$-` shows them.
    pub(in crate::shell) fn flags(options: &Options) -> String {
        let all = [
            (options.allexport, 'a'),
            (options.noclobber, 'C'),
            (options.command_string, 'c'),
            (options.errexit, 'e'),
            (options.noglob, 'f'),
            (options.interactive, 'i'),
            (options.noexec, 'n'),
            (options.nounset, 'u'),
            (options.verbose, 'v'),
            (options.xtrace, 'x'),
        ];
        all.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter).collect()
    }
}
