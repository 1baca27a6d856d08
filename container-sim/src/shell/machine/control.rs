//! Loops, conditions and the other compound commands, and how `break`, `continue`, `return` and `exit` leave them.

use super::kernel::Kernel;
use super::process::{Frame, Process, Saved};
use crate::shell::expand::{ExpandError, Expanding};
use crate::shell::memory::Reservation;
use crate::shell::syntax::{Command, CommandKind, List, Word};
use std::collections::VecDeque;
use std::sync::Arc;

impl Process {
    /// Starts a command of any kind.
    pub(super) fn command(&mut self, kernel: &mut Kernel, command: Arc<Command>) {
        if self.state.line > 0 {
            self.state.line = command.line;
        }
        if let CommandKind::Simple { .. } = &command.kind {
            return self.start_simple(command);
        }
        if !command.redirects.is_empty() {
            match self.redirect_targets(kernel, &command.redirects) {
                Ok(targets) => {
                    let mut saved = Saved::default();
                    let applied = self.apply_redirects(kernel, &command.redirects, &targets, &mut saved);
                    self.frames.push(Frame::Restore(Box::new(saved)));
                    if let Err(why) = applied {
                        self.complain(kernel, &why);
                        self.state.code = 1;
                        return;
                    }
                }
                Err(error) => return self.failed(kernel, error, Frame::Command(command)),
            }
        }
        self.compound(kernel, command);
    }

    fn compound(&mut self, kernel: &mut Kernel, command: Arc<Command>) {
        match &command.kind {
            CommandKind::Simple { .. } => {}
            CommandKind::Subshell(list) => {
                self.frames.push(Frame::Check);
                self.start_subshell(kernel, list);
            }
            CommandKind::Group(list) => self.frames.push(Frame::List(Arc::clone(list), 0)),
            CommandKind::If(arms, _) => {
                let condition = Arc::clone(&arms[0].0);
                self.frames.push(Frame::Arm(Arc::clone(&command), 0));
                self.push_condition(condition);
            }
            CommandKind::While(_, condition, _) => {
                let condition = Arc::clone(condition);
                self.frames.push(Frame::Condition(command, 0));
                self.push_condition(condition);
            }
            CommandKind::For(_, words, _) => {
                let mut room = Reservation::new(&kernel.bounds.allowance);
                let values = match words {
                    Some(words) => match self.expand_all(kernel, words, &mut room) {
                        Ok(values) => values,
                        Err(error) => return self.failed(kernel, error, Frame::Command(command)),
                    },
                    None => self.state.positional.to_vec(),
                };
                self.state.code = 0;
                self.frames.push(Frame::Next(command, values.into(), room));
            }
            CommandKind::ArithmeticFor(words, _) => match self.arithmetic(kernel, &words[0]) {
                Ok(_) => {
                    self.state.code = 0;
                    self.arithmetic_round(kernel, command);
                }
                Err(error) => self.failed(kernel, error, Frame::Command(command)),
            },
            CommandKind::Case(..) => self.case(kernel, command),
            CommandKind::Function(name, body) => {
                Arc::make_mut(&mut self.state.functions).insert(name.clone(), Arc::clone(body));
                self.state.code = 0;
            }
            CommandKind::Arithmetic(word) => match self.arithmetic(kernel, word) {
                Ok(value) => {
                    self.state.code = u8::from(value == 0);
                    self.frames.push(Frame::Check);
                }
                Err(error) => self.failed(kernel, error, Frame::Command(command)),
            },
            CommandKind::Test(words) => match self.double_test(kernel, words) {
                Ok(code) => {
                    self.state.code = code;
                    self.frames.push(Frame::Check);
                }
                Err(error) => self.failed(kernel, error, Frame::Command(command)),
            },
        }
        self.forget_outputs();
    }

    fn push_condition(&mut self, condition: Arc<List>) {
        self.frames.push(Frame::Tested(self.tested));
        self.tested = true;
        self.frames.push(Frame::List(condition, 0));
    }

    /// Goes on after the condition of an arm of `if`.
    pub(super) fn arm(&mut self, command: &Arc<Command>, at: usize) {
        let CommandKind::If(arms, otherwise) = &command.kind else { return };
        if self.state.code == 0 {
            return self.frames.push(Frame::List(Arc::clone(&arms[at].1), 0));
        }
        match arms.get(at + 1) {
            Some((condition, _)) => {
                self.frames.push(Frame::Arm(Arc::clone(command), at + 1));
                self.push_condition(Arc::clone(condition));
            }
            None => {
                self.state.code = 0;
                self.frames.push(Frame::List(Arc::clone(otherwise), 0));
            }
        }
    }

    /// Goes on after the condition of a `while`.
    pub(super) fn condition(&mut self, command: &Arc<Command>, code: u8) {
        let CommandKind::While(until, _, body) = &command.kind else { return };
        if (self.state.code == 0) == *until {
            self.state.code = code;
            return;
        }
        self.frames.push(Frame::Round(Arc::clone(command)));
        self.frames.push(Frame::List(Arc::clone(body), 0));
    }

    /// Counts a round of a loop, or a call of a function.
    pub(super) fn count_round(&mut self, kernel: &mut Kernel) {
        if let Some(until) = kernel.count_round() {
            self.frames.push(Frame::Sleep(until));
        }
    }

    /// Goes on after the body of a loop.
    pub(super) fn round(&mut self, kernel: &mut Kernel, command: Arc<Command>) {
        match &command.kind {
            CommandKind::While(_, condition, _) => {
                let condition = Arc::clone(condition);
                self.frames.push(Frame::Condition(command, self.state.code));
                self.push_condition(condition);
                self.count_round(kernel);
            }
            CommandKind::ArithmeticFor(words, _) => match self.arithmetic(kernel, &words[2]) {
                Ok(_) => self.arithmetic_round(kernel, command),
                Err(error) => self.failed(kernel, error, Frame::Round(command)),
            },
            _ => {}
        }
    }

    fn arithmetic_round(&mut self, kernel: &mut Kernel, command: Arc<Command>) {
        let CommandKind::ArithmeticFor(words, body) = &command.kind else { return };
        self.forget_outputs();
        let holds = match words[1].0.is_empty() {
            true => Ok(1),
            false => self.arithmetic(kernel, &words[1]),
        };
        match holds {
            Ok(0) => self.forget_outputs(),
            Ok(_) => {
                self.forget_outputs();
                let body = Arc::clone(body);
                self.frames.push(Frame::Round(command));
                self.frames.push(Frame::List(body, 0));
                self.count_round(kernel);
            }
            Err(ExpandError::Output(..)) => {
                self.complain(kernel, "a substitution has no place in the condition of an arithmetic loop");
                self.ended = Some(2);
            }
            Err(error) => self.failed(kernel, error, Frame::Exit),
        }
    }

    pub(super) fn next_value(
        &mut self,
        kernel: &mut Kernel,
        command: Arc<Command>,
        mut values: VecDeque<String>,
        room: Reservation,
    ) {
        let CommandKind::For(name, _, body) = &command.kind else { return };
        let Some(value) = values.pop_front() else { return };
        if !self.set(kernel, name, &value) {
            self.ended = Some(2);
            return;
        }
        let body = Arc::clone(body);
        self.frames.push(Frame::Next(command, values, room));
        self.frames.push(Frame::List(body, 0));
        self.count_round(kernel);
    }

    fn case(&mut self, kernel: &mut Kernel, command: Arc<Command>) {
        let CommandKind::Case(word, arms) = &command.kind else { return };
        match self.case_arm(kernel, word, arms) {
            Ok(found) => {
                self.state.code = 0;
                let Some(first) = found else { return };
                let falls = arms[first..].iter().take_while(|arm| arm.falls_through).count();
                let last = (first + falls).min(arms.len() - 1);
                for arm in arms[first..=last].iter().rev() {
                    self.frames.push(Frame::List(Arc::clone(&arm.body), 0));
                }
            }
            Err(error) => {
                let command = Arc::clone(&command);
                self.failed(kernel, error, Frame::Command(command));
            }
        }
    }

    fn case_arm(
        &mut self,
        kernel: &mut Kernel,
        word: &Word,
        arms: &[crate::shell::syntax::CaseArm],
    ) -> Result<Option<usize>, ExpandError> {
        let mut room = Reservation::new(&kernel.bounds.allowance);
        let text = self.expand_text(kernel, word, &mut room)?;
        let chars: Vec<char> = text.chars().collect();
        for (at, arm) in arms.iter().enumerate() {
            for pattern in &arm.patterns {
                let pattern = Expanding::new(self, kernel, &mut room).pattern(pattern)?;
                if pattern.matches(&chars, &kernel.bounds.work) {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }

    /// An expansion could not be made: starts the substitution that it needs and comes back to `again`, or ends the shell.
    pub(super) fn failed(&mut self, kernel: &mut Kernel, error: ExpandError, again: Frame) {
        match error {
            ExpandError::Output(key, list) => {
                // Redirections of the command are made again.
                if matches!(again, Frame::Command(_)) && matches!(self.frames.last(), Some(Frame::Restore(_)))
                {
                    let restores = self.frames.pop();
                    if let Some(Frame::Restore(saved)) = restores {
                        self.restore(kernel, *saved);
                    }
                }
                self.frames.push(again);
                self.start_substitution(kernel, key, &list);
            }
            ExpandError::Failed(why) => {
                self.complain(kernel, &why);
                self.state.code =
                    if self.state.env.dialect == crate::shell::syntax::Dialect::Bash { 1 } else { 2 };
                self.forget_outputs();
                self.abort();
            }
            ExpandError::Killed => {}
        }
    }

    /// Ends a script after an error of the shell; an interactive shell goes on with its next line.
    pub(in crate::shell) fn abort(&mut self) {
        if !self.state.options.interactive {
            self.ended = Some(self.state.code);
            return;
        }
        while !matches!(self.frames.last(), None | Some(Frame::Interactive(_))) {
            self.frames.pop();
        }
    }

    /// `break` and `continue` of so many loops.
    pub(in crate::shell) fn leave_loops(&mut self, kernel: &mut Kernel, count: usize, ends: bool) {
        let is_loop =
            |frame: &Frame| matches!(frame, Frame::Condition(..) | Frame::Round(_) | Frame::Next(..));
        let boundary = |frame: &Frame| matches!(frame, Frame::Restore(saved) if saved.is_function);
        let inside = self.frames.iter().rev().take_while(|frame| !boundary(frame));
        let loops = inside.filter(|frame| is_loop(frame)).count().min(count);
        let mut left = 0;
        while left < loops {
            match self.frames.pop() {
                Some(frame) if is_loop(&frame) => {
                    left += 1;
                    if left == loops && !ends {
                        // The condition of a loop that is left by its own `continue` is decided anew.
                        let frame = match frame {
                            Frame::Condition(command, _) => Frame::Round(command),
                            frame => frame,
                        };
                        self.frames.push(frame);
                    }
                }
                Some(frame) => self.unwound(kernel, frame),
                None => break,
            }
        }
        self.state.code = 0;
    }

    /// `return`: leaves the function, or the file of `.`. Returns false outside of both.
    pub(in crate::shell) fn leave_function(&mut self, kernel: &mut Kernel) -> bool {
        let ends =
            |frame: &Frame| matches!(frame, Frame::Restore(saved) if saved.is_function || saved.is_source);
        if !self.frames.iter().any(ends) {
            return false;
        }
        while let Some(frame) = self.frames.pop() {
            let is_end = ends(&frame);
            self.unwound(kernel, frame);
            if is_end {
                break;
            }
        }
        true
    }

    /// Restores what a frame that is left would have restored.
    fn unwound(&mut self, kernel: &mut Kernel, frame: Frame) {
        match frame {
            Frame::Restore(saved) => self.restore(kernel, *saved),
            Frame::Tested(before) => self.tested = before,
            _ => {}
        }
    }

    /// Puts back descriptors, variables and parameters.
    pub(super) fn restore(&mut self, kernel: &Kernel, saved: Saved) {
        for (number, descriptor) in saved.descriptors.into_iter().rev() {
            match descriptor {
                Some(descriptor) => drop(self.descriptors.insert(number, descriptor)),
                None => drop(self.descriptors.remove(&number)),
            }
        }
        for (name, old) in saved.variables.into_iter().rev() {
            self.state.env.variables.restore(&name, old, (&kernel.bounds, &mut self.room));
        }
        if let Some(positional) = saved.positional {
            self.state.positional = positional;
        }
        if saved.is_function || saved.is_source || saved.is_eval {
            self.calls -= 1;
        }
    }
}
