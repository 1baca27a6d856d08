//! Builtins that set variables and parameters.

use crate::shell::arithmetic;
use crate::shell::escape;
use crate::shell::machine::{Kernel, Process};
use crate::shell::syntax::is_name;
use crate::shell::variables::{Value, Variable};
use std::sync::Arc;

/// The name and value of `NAME=value`.
pub(super) fn assignment(word: &str) -> (&str, Option<&str>) {
    word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)))
}

impl Process {
    /// Assigns the value of a word `NAME=value`. Returns the name; `None`, with the reason printed, if it cannot.
    pub(super) fn assign_word<'a>(
        &mut self,
        kernel: &mut Kernel,
        argv: &[String],
        word: &'a str,
    ) -> Option<&'a str> {
        let (mut name, value) = assignment(word);
        let appends = name.ends_with('+') && value.is_some() && self.is_bash();
        if appends {
            name = &name[..name.len() - 1];
        }
        if !is_name(name) {
            self.refuse(kernel, argv, &format!("{name}: bad variable name"), 2);
            return None;
        }
        if let Some(value) = value {
            let before = self.state.env.variables.text(name).filter(|_| appends).unwrap_or_default();
            let value = format!("{before}{value}");
            if !self.set(kernel, name, &value) {
                return None;
            }
        }
        Some(name)
    }

    /// Marks a variable, which is made if there is none.
    pub(super) fn mark(&mut self, kernel: &mut Kernel, name: &str, mark: impl FnOnce(&mut Variable)) {
        let bounds = (&kernel.bounds, &mut self.room);
        match self.state.env.variables.get(name).cloned() {
            Some(mut variable) => {
                mark(&mut variable);
                self.state.env.variables.restore(name, Some(variable), bounds);
            }
            None => {
                // A new variable is not read-only.
                let _ = self.state.env.variables.change(name, bounds, mark);
            }
        }
    }

    fn listed(&self, chosen: impl Fn(&Variable) -> bool, prefix: &str) -> String {
        let all = self.state.env.variables.iter().filter(|(_, variable)| chosen(variable));
        all.map(|(name, _)| match self.state.env.variables.text(name) {
            Some(text) => format!("{prefix}{name}={}\n", escape::always_quoted(text)),
            None => format!("{prefix}{name}\n"),
        })
        .collect()
    }

    /// All variables, as `set` lists them.
    pub(super) fn all_variables(&self) -> String {
        self.listed(|variable| !matches!(variable.value, Value::Unset), "")
    }
}

pub(super) fn export(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    if argv.len() == 1 || argv[1..] == ["-p".to_owned()] {
        let text = process.listed(|variable| variable.exported, "export ");
        process.print(kernel, 1, text.as_bytes());
        return 0;
    }
    let removes = argv[1] == "-n";
    for word in argv[1..].iter().filter(|word| !word.starts_with('-')) {
        match process.assign_word(kernel, argv, word) {
            Some(name) if removes => process.mark(kernel, name, |variable| variable.exported = false),
            Some(name) => process.export(kernel, name),
            None => return stop(process),
        }
    }
    0
}

/// Ends the shell after an error of a special builtin.
fn stop(process: &mut Process) -> u8 {
    if process.is_bash() {
        return 1;
    }
    process.state.code = 2;
    process.abort();
    2
}

pub(super) fn readonly(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    if argv.len() == 1 || argv[1..] == ["-p".to_owned()] {
        let text = process.listed(|variable| variable.read_only, "readonly ");
        process.print(kernel, 1, text.as_bytes());
        return 0;
    }
    for word in argv[1..].iter().filter(|word| !word.starts_with('-')) {
        match process.assign_word(kernel, argv, word) {
            Some(name) => process.mark(kernel, name, |variable| variable.read_only = true),
            None => return stop(process),
        }
    }
    0
}

pub(super) fn unset(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let flag = argv.get(1).filter(|word| matches!(word.as_str(), "-f" | "-v")).cloned();
    for word in &argv[1 + usize::from(flag.is_some())..] {
        if flag.as_deref() == Some("-f") {
            Arc::make_mut(&mut process.state.functions).remove(word);
            continue;
        }
        if let Some((name, index)) = word.strip_suffix(']').and_then(|word| word.split_once('['))
            && process.is_bash()
        {
            process.mark(kernel, name, |variable| match &mut variable.value {
                Value::Array(all) => drop(index.parse().ok().and_then(|index: i64| all.remove(&index))),
                Value::Map(all) => drop(all.remove(index)),
                Value::Unset | Value::Text(_) => {}
            });
            continue;
        }
        let known = process.state.env.variables.get(word).is_some();
        if process.state.env.variables.remove(word, &mut process.room).is_err() {
            process.complain(kernel, &format!("{word}: is read only"));
            return stop(process);
        }
        if !known && flag.is_none() {
            Arc::make_mut(&mut process.state.functions).remove(word);
        }
    }
    0
}

/// `local`: variables that get their old values back at the end of the function.
pub(super) fn local(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    if !process.is_in_function() {
        return process.refuse(kernel, argv, "not in a function", 2);
    }
    for word in argv[1..].iter().filter(|word| !word.starts_with('-')) {
        let (name, value) = assignment(word);
        process.save_local(kernel, name, value.is_some());
        if process.assign_word(kernel, argv, word).is_none() {
            return stop(process);
        }
    }
    0
}

pub(super) fn shift(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let count = argv.get(1).map_or(Ok(1), |count| count.parse::<usize>());
    let Ok(count) = count else {
        return process.refuse(kernel, argv, &format!("Illegal number: {}", argv[1]), 2);
    };
    if count > process.state.positional.len() {
        return 1;
    }
    process.state.positional = Arc::new(process.state.positional[count..].to_vec());
    0
}

/// `let`.
pub(super) fn evaluate(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let mut last = 0;
    for word in &argv[1..] {
        let state = &process.state;
        match arithmetic::evaluate(word, &|name| state.env.variables.text(name).map(str::to_owned)) {
            Ok(found) => {
                last = found.value;
                for (name, value) in found.assigned {
                    process.set(kernel, &name, &value.to_string());
                }
            }
            Err(why) => {
                process.complain(kernel, &why);
                return stop(process);
            }
        }
    }
    u8::from(last == 0)
}

/// `getopts`.
pub(super) fn options(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let [_, known, name, given @ ..] = argv else {
        return process.refuse(kernel, argv, "usage: getopts optstring var [arg]", 2);
    };
    let words: Arc<Vec<String>> =
        if given.is_empty() { Arc::clone(&process.state.positional) } else { Arc::new(given.to_vec()) };
    let text = |process: &Process, name: &str| process.state.env.variables.text(name).map(str::to_owned);
    let mut index: usize = text(process, "OPTIND").and_then(|text| text.parse().ok()).unwrap_or(1).max(1);
    if index == 1
        && process.state.option_at > 0
        && words.first().is_none_or(|word| word.len() <= process.state.option_at)
    {
        process.state.option_at = 0;
    }
    let silent = known.starts_with(':');
    let word = words.get(index - 1).map(String::as_str).unwrap_or_default();
    if process.state.option_at == 0 {
        if word.len() < 2 || !word.starts_with('-') || word == "--" {
            index += usize::from(word == "--");
            process.set(kernel, "OPTIND", &index.to_string());
            process.set(kernel, name, "?");
            return 1;
        }
        process.state.option_at = 1;
    }
    let letter = word[process.state.option_at..].chars().next().unwrap_or('?');
    process.state.option_at += letter.len_utf8();
    let is_end = process.state.option_at >= word.len();
    let behind = known.find(letter).filter(|_| letter != ':').map(|at| &known[at + letter.len_utf8()..]);
    let mut value = None;
    let mut found = letter.to_string();
    match behind {
        None => {
            if silent {
                value = Some(found.clone());
            } else {
                process.complain(kernel, &format!("illegal option -{letter}"));
            }
            "?".clone_into(&mut found);
        }
        Some(behind) if behind.starts_with(':') => {
            value = match is_end {
                false => Some(word[process.state.option_at..].to_owned()),
                true => words.get(index).cloned(),
            };
            index += usize::from(is_end);
            if value.is_none() {
                value = silent.then(|| letter.to_string());
                found = if silent { ":" } else { "?" }.to_owned();
                if !silent {
                    process.complain(kernel, &format!("no arg for -{letter} option"));
                }
                index -= 1;
            }
            process.state.option_at = word.len();
        }
        Some(_) => value = Some(String::new()),
    }
    if process.state.option_at >= word.len() {
        index += 1;
        process.state.option_at = 0;
    }
    process.set(kernel, "OPTIND", &index.to_string());
    match value {
        Some(value) => {
            process.set(kernel, "OPTARG", &value);
        }
        None => drop(process.state.env.variables.remove("OPTARG", &mut process.room)),
    }
    process.set(kernel, name, &found);
    0
}
