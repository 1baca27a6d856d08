//! Starts what the first word of a command names: a function, a builtin, a scripted answer, a program, or a script.

use super::kernel::Kernel;
use super::process::{Frame, Process, Saved};
use crate::limits::NESTED_CALLS;
use crate::shell::builtins;
use crate::shell::disk::Content;
use crate::shell::syntax::{Command, Dialect};
use crate::shell::tools::{self, Effect};
use crate::shell::{is_shell, program_name};
use std::sync::Arc;

impl Process {
    /// Starts the command of the container in its first process.
    pub(in crate::shell) fn start(&mut self, kernel: &mut Kernel, argv: &[String]) {
        if is_shell(&argv[0]) && !self.is_answered(argv) {
            self.start_shell(kernel, argv);
        } else {
            self.frames.push(Frame::Words(argv.to_vec()));
        }
    }

    /// Starts a command with all its words.
    pub(super) fn call(&mut self, kernel: &mut Kernel, argv: Vec<String>) {
        let name = argv[0].as_str();
        if let Some(body) = self.state.functions.get(name).cloned() {
            return self.function(kernel, &body, argv);
        }
        if !self.is_answered(&argv)
            && let Some(builtin) = builtins::find(name, self.state.env.dialect)
        {
            self.state.code = builtin(self, kernel, &argv);
            return;
        }
        self.external(kernel, argv);
    }

    fn is_answered(&self, argv: &[String]) -> bool {
        !self.state.env.answers.is_empty() && self.state.env.answers.contains_key(&argv.join(" "))
    }

    /// Counts a function, `eval` or `.`. Returns false, and ends the shell, if there are too many inside each other.
    pub(in crate::shell) fn enter_call(&mut self, kernel: &mut Kernel) -> bool {
        if self.calls >= NESTED_CALLS {
            self.complain(kernel, "too many nested calls");
            self.ended = Some(2);
            return false;
        }
        self.calls += 1;
        self.count_round(kernel);
        true
    }

    fn function(&mut self, kernel: &mut Kernel, body: &Arc<Command>, argv: Vec<String>) {
        if !self.enter_call(kernel) {
            return;
        }
        let positional = Arc::new(argv[1..].to_vec());
        let before = std::mem::replace(&mut self.state.positional, positional);
        let saved = Saved { positional: Some(before), is_function: true, ..Saved::default() };
        // The frame of `count_round` sleeps before the body.
        let sleep = matches!(self.frames.last(), Some(Frame::Sleep(_))).then(|| self.frames.pop()).flatten();
        self.frames.push(Frame::Restore(Box::new(saved)));
        self.frames.push(Frame::Command(Arc::clone(body)));
        self.frames.extend(sleep);
    }

    /// Whether the process runs a function.
    pub(in crate::shell) fn is_in_function(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame, Frame::Restore(saved) if saved.is_function))
    }

    /// Lets a variable get its value back at the end of the function. Without a new value it has none.
    pub(in crate::shell) fn save_local(&mut self, kernel: &Kernel, name: &str, keeps: bool) {
        let old = self.state.env.variables.get(name).cloned();
        let function = self.frames.iter_mut().rev().find_map(|frame| match frame {
            Frame::Restore(saved) if saved.is_function => Some(saved),
            _ => None,
        });
        let Some(saved) = function.filter(|saved| !saved.variables.iter().any(|(own, _)| own == name)) else {
            return;
        };
        let value = old.as_ref().map(|old| old.read_only);
        saved.variables.push((name.to_owned(), old));
        if value == Some(false) && (keeps || self.state.env.dialect == Dialect::Bash) {
            self.state.env.variables.restore(name, None, (&kernel.bounds, &mut self.room));
        }
    }

    /// Runs a text as `eval` does.
    pub(in crate::shell) fn evaluate(&mut self, kernel: &mut Kernel, text: &str) {
        if self.enter_call(kernel) {
            self.frames.push(Frame::Restore(Box::new(Saved { is_eval: true, ..Saved::default() })));
            self.push_script(kernel, text, "eval: line 0: ", false);
        }
    }

    /// Runs a file as `.` does.
    pub(in crate::shell) fn source(&mut self, kernel: &mut Kernel, text: &str, arguments: &[String]) {
        if self.enter_call(kernel) {
            let positional = (!arguments.is_empty())
                .then(|| std::mem::replace(&mut self.state.positional, Arc::new(arguments.to_vec())));
            let saved = Saved { positional, is_source: true, ..Saved::default() };
            self.frames.push(Frame::Restore(Box::new(saved)));
            self.push_script(kernel, text, "", false);
        }
    }

    /// Starts a program: nothing of the shell's language.
    pub(super) fn external(&mut self, kernel: &mut Kernel, argv: Vec<String>) {
        if self.is_answered(&argv)
            && let Some(answer) = self.state.env.answers.get(&argv.join(" ")).cloned()
        {
            let effects = answer.after.map(Effect::Sleep).into_iter();
            let effects = effects.chain([
                Effect::Print(answer.stdout.into_bytes()),
                Effect::Error(answer.stderr.into_bytes()),
            ]);
            self.frames.push(Frame::Effects(effects.collect(), answer.code));
            return;
        }
        let name = argv[0].clone();
        if is_shell(&name) {
            if let Some(mut child) = self.fork_program(kernel) {
                child.start_shell(kernel, &argv);
                self.frames.push(Frame::AwaitChild(child.pid));
                kernel.spawned.push(child);
            }
            return;
        }
        if let Some(tool) = tools::find_in(&self.state.env.programs, &name) {
            return self.start_program(kernel, tool, argv);
        }
        match self.script_file(&name) {
            Ok((path, text)) => {
                if let Some(mut child) = self.fork_program(kernel) {
                    child.start_script(kernel, &path, &text, &argv[1..]);
                    self.frames.push(Frame::AwaitChild(child.pid));
                    kernel.spawned.push(child);
                }
            }
            Err((why, code)) => {
                self.complain(kernel, &format!("{name}: {why}"));
                self.state.code = code;
            }
        }
    }

    /// The path and the text of an executable file.
    fn script_file(&self, name: &str) -> Result<(String, String), (&'static str, u8)> {
        let env = &self.state.env;
        let candidates: Vec<String> = match name.contains('/') {
            true => vec![name.to_owned()],
            false => {
                let path = env.variables.text("PATH").unwrap_or_default();
                path.split(':')
                    .filter(|folder| !folder.is_empty())
                    .map(|folder| format!("{folder}/{name}"))
                    .collect()
            }
        };
        let mut why = ("not found", 127);
        for candidate in candidates.iter().take_while(|_| env.runs()) {
            match env.entry(&env.resolved(&env.path(candidate))) {
                Some(entry) if entry.mode & 0o111 == 0 || matches!(entry.content, Content::Folder) => {
                    why = ("Permission denied", 126);
                }
                Some(entry) => {
                    let Content::File(bytes) = entry.content else { continue };
                    return Ok((candidate.clone(), String::from_utf8_lossy(&bytes).into_owned()));
                }
                None => {}
            }
        }
        Err(why)
    }

    /// Runs a script in this process, which is a new shell. Its first line may name another shell.
    pub(super) fn start_script(&mut self, kernel: &mut Kernel, path: &str, text: &str, arguments: &[String]) {
        let first = text.lines().next().unwrap_or_default();
        let interpreter = first.strip_prefix("#!").map(str::trim).unwrap_or("/bin/sh").to_owned();
        let mut words: Vec<String> = interpreter.split_whitespace().map(str::to_owned).collect();
        words.push(path.to_owned());
        words.extend(arguments.iter().cloned());
        if words.first().is_some_and(|word| word.ends_with("/env")) {
            words.remove(0);
        }
        if words.first().is_some_and(|word| is_shell(word)) {
            return self.start_shell(kernel, &words);
        }
        self.frames.push(Frame::Words(words));
    }

    /// Begins `sh` with its arguments in this process, which is a new shell.
    pub(in crate::shell) fn start_shell(&mut self, kernel: &mut Kernel, argv: &[String]) {
        let program = program_name(&argv[0]).to_owned();
        self.state.env.dialect = if program == "bash" { Dialect::Bash } else { Dialect::Ash };
        self.state.name = argv[0].clone();
        let (mut at, mut command, mut reads) = (1, false, false);
        while let Some(word) = argv.get(at).filter(|word| word.len() > 1 && word.starts_with(['-', '+'])) {
            at += 1;
            if word == "--" {
                break;
            }
            if word.starts_with("--") {
                // `--login`, `--norc` and their like.
                continue;
            }
            for letter in word[1..].chars() {
                match letter {
                    'c' => command = true,
                    's' => reads = true,
                    'i' | 'l' => {}
                    'o' => {
                        let name = argv.get(at).cloned().unwrap_or_default();
                        at += 1;
                        if !builtins::set_named(&mut self.state.options, &name, word.starts_with('-')) {
                            return self.bad_option(kernel, &format!("-o {name}"));
                        }
                    }
                    letter => {
                        if !builtins::set_letter(&mut self.state.options, letter, word.starts_with('-')) {
                            return self.bad_option(kernel, &format!("-{letter}"));
                        }
                    }
                }
            }
        }
        let rest = &argv[at.min(argv.len())..];
        match rest.split_first() {
            Some((text, rest)) if command => {
                if let Some((name, rest)) = rest.split_first() {
                    self.state.name.clone_from(name);
                    self.state.positional = Arc::new(rest.to_vec());
                }
                self.state.options.command_string = true;
                self.push_script(kernel, text, "", false);
            }
            None if command => self.bad_option(kernel, "-c requires an argument"),
            Some((path, rest)) if !reads => {
                self.state.positional = Arc::new(rest.to_vec());
                self.start_file(kernel, path);
            }
            _ => {
                self.state.positional = Arc::new(rest.to_vec());
                self.start_reading(kernel);
            }
        }
    }

    fn start_file(&mut self, kernel: &mut Kernel, path: &str) {
        match self.state.env.read(&self.state.env.path(path)) {
            Ok(bytes) => {
                path.clone_into(&mut self.state.name);
                let text = String::from_utf8_lossy(&bytes);
                self.push_script(kernel, &text, "", true);
            }
            Err(why) => {
                self.complain(kernel, &format!("can't open '{path}': {why}"));
                self.ended = Some(2);
            }
        }
    }

    /// A shell that reads its commands: from the client, or from a pipe or file to its end.
    fn start_reading(&mut self, kernel: &mut Kernel) {
        use crate::shell::descriptor::Descriptor;
        if matches!(self.descriptors.get(&0), Some(Descriptor::Input)) {
            self.state.options.interactive = self.pid == 1;
            self.frames.push(Frame::Interactive(String::new()));
        } else {
            self.frames.push(Frame::ReadScript(crate::shell::memory::Buffer::new(&kernel.bounds)));
        }
    }

    fn bad_option(&mut self, kernel: &mut Kernel, option: &str) {
        self.complain(kernel, &format!("illegal option {option}"));
        self.ended = Some(2);
    }
}
