//! Simple commands: words, redirections and assignments are expanded in this order, then the command starts.

use super::kernel::Kernel;
use super::process::{Frame, Process, Saved};
use crate::shell::escape;
use crate::shell::expand::{ExpandError, Expanding};
use crate::shell::memory::Reservation;
use crate::shell::syntax::{AssignedValue, Assignment, Command, CommandKind};
use crate::shell::variables::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far a simple command is.
#[derive(Debug)]
pub(in crate::shell) struct SimpleRun {
    command: Arc<Command>,
    argv: Option<Vec<String>>,
    targets: Option<Vec<String>>,
    /// Assignments that are made.
    assigned: usize,
    /// The assignments as `-x` shows them.
    traced: Vec<String>,
    saved: Saved,
    room: Reservation,
}

/// Builtins whose assignments and redirection errors concern the whole shell.
pub(super) const SPECIAL: [&str; 16] = [
    ":", ".", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift",
    "times", "trap", "unset", "source",
];

impl Process {
    pub(super) fn start_simple(&mut self, command: Arc<Command>) {
        self.output_code = None;
        let room = Reservation::new(&self.state.env.memory);
        self.frames.push(Frame::Simple(Box::new(SimpleRun {
            command,
            argv: None,
            targets: None,
            assigned: 0,
            traced: Vec::new(),
            saved: Saved::default(),
            room,
        })));
    }

    pub(super) fn simple(&mut self, kernel: &mut Kernel, mut run: Box<SimpleRun>) {
        let command = Arc::clone(&run.command);
        let CommandKind::Simple { assignments, words } = &command.kind else { return };
        if run.argv.is_none() {
            match self.expand_all(kernel, words, &mut run.room) {
                Ok(argv) => run.argv = Some(argv),
                Err(error) => return self.failed(kernel, error, Frame::Simple(run)),
            }
        }
        if run.targets.is_none() {
            match self.redirect_targets(kernel, &command.redirects) {
                Ok(targets) => run.targets = Some(targets),
                Err(error) => return self.failed(kernel, error, Frame::Simple(run)),
            }
        }
        let is_alone = run.argv.as_ref().is_none_or(Vec::is_empty);
        while let Some(assignment) = assignments.get(run.assigned) {
            if !is_alone {
                let old = self.state.env.variables.get(&assignment.name).cloned();
                run.saved.variables.push((assignment.name.clone(), old));
            }
            match self.assign(kernel, assignment, !is_alone, &mut run.traced) {
                Ok(true) => run.assigned += 1,
                Ok(false) => {
                    self.state.code = 2;
                    return self.abort();
                }
                Err(error) => {
                    if !is_alone {
                        run.saved.variables.pop();
                    }
                    return self.failed(kernel, error, Frame::Simple(run));
                }
            }
        }
        self.forget_outputs();
        if kernel.bounds.work.killed().is_none() {
            self.dispatch(kernel, *run);
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, run: SimpleRun) {
        let SimpleRun { command, argv, targets, mut saved, traced, room: _room, .. } = run;
        let argv = argv.unwrap_or_default();
        if self.state.options.xtrace {
            self.trace(kernel, &traced, &argv);
        }
        let is_special = argv.first().is_some_and(|name| SPECIAL.contains(&name.as_str()));
        self.frames.push(Frame::Check);
        let applied =
            self.apply_redirects(kernel, &command.redirects, &targets.unwrap_or_default(), &mut saved);
        if let Err(why) = applied {
            self.restore(kernel, saved);
            self.complain(kernel, &why);
            self.state.code = if is_special { 2 } else { 1 };
            if is_special {
                self.abort();
            }
            return;
        }
        let Some(name) = argv.first() else {
            self.state.code = self.output_code.unwrap_or(0);
            return self.restore(kernel, saved);
        };
        if is_special && self.state.functions.get(name).is_none() {
            saved.variables.clear();
        }
        if name == "exec" {
            saved.descriptors.clear();
        }
        self.frames.push(Frame::Restore(Box::new(saved)));
        self.call(kernel, argv);
    }

    /// `-x`: prints the command to descriptor 2.
    fn trace(&mut self, kernel: &mut Kernel, assigned: &[String], argv: &[String]) {
        let words = assigned.iter().cloned().chain(argv.iter().map(|word| escape::quoted(word)));
        let prompt = self.state.env.variables.text("PS4").unwrap_or("+ ").to_owned();
        let line = words.collect::<Vec<_>>().join(" ");
        self.print(kernel, 2, format!("{prompt}{line}\n").as_bytes());
    }

    /// Makes one assignment. Returns false if the variable is read-only.
    fn assign(
        &mut self,
        kernel: &mut Kernel,
        assignment: &Assignment,
        exported: bool,
        traced: &mut Vec<String>,
    ) -> Result<bool, ExpandError> {
        let mut room = Reservation::new(&kernel.bounds.allowance);
        let name = &assignment.name;
        match &assignment.value {
            AssignedValue::Text(word) => {
                let mut text = Expanding::new(self, kernel, &mut room).assigned(word)?;
                if let Some(index) = &assignment.index {
                    return self.assign_element(kernel, name, index, &text, assignment.appends);
                }
                if assignment.appends {
                    let before = self.state.env.variables.text(name).unwrap_or_default();
                    text = match self.state.env.variables.get(name).is_some_and(|variable| variable.integer) {
                        true => format!("{before}+({text})"),
                        false => format!("{before}{text}"),
                    };
                }
                if self.state.options.xtrace {
                    traced.push(format!("{name}={}", escape::quoted(&text)));
                }
                if !self.set(kernel, name, &text) {
                    return Ok(false);
                }
                if exported {
                    self.export(kernel, name);
                }
                Ok(true)
            }
            AssignedValue::List(elements) => self.assign_list(kernel, assignment, elements),
        }
    }

    /// Marks a variable for programs.
    pub(in crate::shell) fn export(&mut self, kernel: &mut Kernel, name: &str) {
        let is_exported = self.state.env.variables.get(name).is_some_and(|variable| variable.exported);
        if !is_exported {
            // A read-only variable can be exported.
            let bounds = (&kernel.bounds, &mut self.room);
            let old = self.state.env.variables.get(name).cloned();
            match old {
                Some(mut variable) => {
                    variable.exported = true;
                    self.state.env.variables.restore(name, Some(variable), bounds);
                }
                None => {
                    let _ =
                        self.state.env.variables.change(name, bounds, |variable| variable.exported = true);
                }
            }
        }
    }

    fn assign_element(
        &mut self,
        kernel: &mut Kernel,
        name: &str,
        index: &crate::shell::syntax::Word,
        text: &str,
        appends: bool,
    ) -> Result<bool, ExpandError> {
        let is_map = self
            .state
            .env
            .variables
            .get(name)
            .is_some_and(|variable| matches!(variable.value, Value::Map(_)));
        let mut room = Reservation::new(&kernel.bounds.allowance);
        let (key, at) = match is_map {
            true => (self.expand_text(kernel, index, &mut room)?, 0),
            false => (String::new(), self.arithmetic(kernel, index)?),
        };
        let bounds = (&kernel.bounds, &mut self.room);
        let changed = self.state.env.variables.change(name, bounds, |variable| {
            let put = |place: &mut String| {
                if !appends {
                    place.clear();
                }
                place.push_str(text);
            };
            match &mut variable.value {
                Value::Map(all) => put(all.entry(key).or_default()),
                Value::Array(all) => {
                    let at = if at < 0 { all.keys().last().map_or(0, |last| last + 1) + at } else { at };
                    put(all.entry(at).or_default());
                }
                value => {
                    let mut all = BTreeMap::new();
                    if let Value::Text(first) = value {
                        all.insert(0, std::mem::take(first));
                    }
                    put(all.entry(at.max(0)).or_default());
                    *value = Value::Array(all);
                }
            }
        });
        if changed.is_err() {
            self.complain(kernel, &format!("{name}: readonly variable"));
        }
        Ok(changed.is_ok())
    }

    fn assign_list(
        &mut self,
        kernel: &mut Kernel,
        assignment: &Assignment,
        elements: &[(Option<crate::shell::syntax::Word>, crate::shell::syntax::Word)],
    ) -> Result<bool, ExpandError> {
        let name = &assignment.name;
        let old = self.state.env.variables.get(name).map(|variable| variable.value.clone());
        let mut room = Reservation::new(&kernel.bounds.allowance);
        let mut value = match (old, assignment.appends) {
            (Some(Value::Map(all)), true) => Value::Map(all),
            (Some(Value::Map(_)), false) => Value::Map(BTreeMap::new()),
            (Some(Value::Array(all)), true) => Value::Array(all),
            (Some(Value::Text(text)), true) => Value::Array([(0, text)].into()),
            _ => Value::Array(BTreeMap::new()),
        };
        for (index, word) in elements {
            match (&mut value, index) {
                (Value::Map(all), Some(index)) => {
                    let key = self.expand_text(kernel, index, &mut room)?;
                    all.insert(key, Expanding::new(self, kernel, &mut room).assigned(word)?);
                }
                (Value::Array(all), Some(index)) => {
                    let at = self.arithmetic(kernel, index)?;
                    all.insert(at, Expanding::new(self, kernel, &mut room).assigned(word)?);
                }
                (Value::Array(all), None) => {
                    let mut next = all.keys().last().map_or(0, |last| last.saturating_add(1));
                    for text in self.expand_all(kernel, std::slice::from_ref(word), &mut room)? {
                        all.insert(next, text);
                        next = next.saturating_add(1);
                    }
                }
                (_, _) => {
                    return Err(ExpandError::Failed(format!("{name}: an element without a subscript")));
                }
            }
        }
        let bounds = (&kernel.bounds, &mut self.room);
        let changed = self.state.env.variables.change(name, bounds, |variable| variable.value = value);
        if changed.is_err() {
            self.complain(kernel, &format!("{name}: readonly variable"));
        }
        Ok(changed.is_ok())
    }
}
