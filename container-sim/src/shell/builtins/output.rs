//! Builtins that a program of the same name does too, and the working directory.

use crate::shell::machine::{Kernel, Process};
use crate::shell::tools::{self, Outcome, Output, conditions};

pub(super) fn echo(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let bytes = tools::echo(&argv[1..]);
    written(process, kernel, |process, kernel| {
        process.print(kernel, 1, &bytes);
    })
}

/// The exit code of output that may fail.
fn written(process: &mut Process, kernel: &mut Kernel, print: impl FnOnce(&mut Process, &mut Kernel)) -> u8 {
    let before = std::mem::replace(&mut process.state.code, 0);
    print(process, kernel);
    std::mem::replace(&mut process.state.code, before)
}

pub(super) fn printf(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    if let [_, flag, name, rest @ ..] = argv
        && flag == "-v"
        && process.is_bash()
    {
        let outcome = tools::printf::run(&process.state.env, "printf", rest);
        let text = match &outcome.out {
            Output::Small(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Output::Reserved(bytes) => String::from_utf8_lossy(bytes.as_ref()).into_owned(),
        };
        process.set(kernel, name, &text);
        return outcome.code;
    }
    let outcome = tools::printf::run(&process.state.env, &process.state.name, &argv[1..]);
    let Outcome { out, err, code, .. } = outcome;
    let failed = written(process, kernel, |process, kernel| match out {
        Output::Small(bytes) => {
            process.print(kernel, 1, &bytes);
        }
        Output::Reserved(bytes) if !bytes.is_empty() => {
            process.print_buffer(kernel, 1, bytes);
        }
        Output::Reserved(_) => {}
    });
    process.print(kernel, 2, err.as_bytes());
    code.max(failed)
}

/// `test` and `[`.
pub(super) fn test(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let mut words = &argv[1..];
    if argv[0] == "[" {
        match words.split_last() {
            Some((last, rest)) if last == "]" => words = rest,
            _ => {
                process.complain(kernel, "missing ]");
                return 2;
            }
        }
    }
    match conditions::holds(&process.state.env, &process.descriptors, words) {
        Ok(holds) => u8::from(!holds),
        Err(why) => {
            process.complain(kernel, &why);
            2
        }
    }
}

pub(super) fn directory(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let env = &process.state.env;
    let shown = if argv.get(1).is_some_and(|flag| flag == "-P") {
        env.resolved(&env.workdir)
    } else {
        env.workdir.clone()
    };
    process.print(kernel, 1, format!("{shown}\n").as_bytes());
    0
}

pub(super) fn change_directory(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let words: Vec<&String> =
        argv[1..].iter().filter(|word| !matches!(word.as_str(), "-L" | "-P" | "--")).collect();
    let variable = |name: &str| process.state.env.variables.text(name).map(str::to_owned);
    let (to, prints) = match words.first().map(|word| word.as_str()) {
        None => (variable("HOME").unwrap_or_else(|| "/".to_owned()), false),
        Some("-") => match variable("OLDPWD") {
            Some(before) => (before, true),
            None => (process.state.env.workdir.clone(), true),
        },
        Some(to) => (to.to_owned(), false),
    };
    let env = &process.state.env;
    let path = env.resolved(&env.path(&to));
    if to.is_empty() {
        return 0;
    }
    if !env.is_folder(&path) {
        let why = if env.entry(&path).is_some() { "Not a directory" } else { "No such file or directory" };
        return process.refuse(
            kernel,
            argv,
            &format!("can't cd to {to}: {why}"),
            2 - u8::from(process.is_bash()),
        );
    }
    let before = std::mem::replace(&mut process.state.env.workdir, path.clone());
    process.set(kernel, "OLDPWD", &before);
    process.set(kernel, "PWD", &path);
    if prints {
        process.print(kernel, 1, format!("{path}\n").as_bytes());
    }
    0
}
