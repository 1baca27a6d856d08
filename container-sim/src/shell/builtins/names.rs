//! `type` and `command`: what a name stands for.

use super::control::is_program;
use super::find;
use crate::shell::machine::{Frame, Kernel, Process};

/// Words of the language.
const RESERVED: [&str; 17] = [
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "then",
    "until", "while",
];

/// What a name stands for.
enum Kind {
    Reserved,
    Function,
    Builtin,
    Program(String),
}

fn of(process: &Process, name: &str) -> Option<Kind> {
    if RESERVED.contains(&name) {
        return Some(Kind::Reserved);
    }
    if process.state.functions.contains_key(name) {
        return Some(Kind::Function);
    }
    if find(name, process.state.env.dialect).is_some() {
        return Some(Kind::Builtin);
    }
    if is_program(name) {
        let path = if name.starts_with('/') { name.to_owned() } else { format!("/bin/{name}") };
        return Some(Kind::Program(path));
    }
    let env = &process.state.env;
    let is_script = name.contains('/') && env.is_file(&env.path(name));
    is_script.then(|| Kind::Program(name.to_owned()))
}

/// `type`, and `command -V`.
fn describe(process: &mut Process, kernel: &mut Kernel, names: &[String]) -> u8 {
    let mut code = 0;
    for name in names {
        let text = match of(process, name) {
            Some(Kind::Reserved) => format!("{name} is a shell keyword\n"),
            Some(Kind::Function) => format!("{name} is a function\n"),
            Some(Kind::Builtin) => format!("{name} is a shell builtin\n"),
            Some(Kind::Program(path)) => format!("{name} is {path}\n"),
            None => {
                code = 127;
                format!("{name}: not found\n")
            }
        };
        process.print(kernel, 1, text.as_bytes());
    }
    code
}

pub(super) fn kind(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    describe(process, kernel, &argv[1..])
}

/// `command`: runs a command that is no function, or says with `-v` what it is.
pub(super) fn command(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let flags = argv[1..].iter().take_while(|word| word.starts_with('-') && word.len() > 1).count();
    let (flags, words) = argv[1..].split_at(flags);
    if flags.iter().any(|flag| flag == "-V") {
        return describe(process, kernel, words);
    }
    if flags.iter().any(|flag| flag == "-v") {
        let mut code = 0;
        for name in words {
            match of(process, name) {
                Some(Kind::Program(path)) => {
                    process.print(kernel, 1, format!("{path}\n").as_bytes());
                }
                Some(_) => {
                    process.print(kernel, 1, format!("{name}\n").as_bytes());
                }
                None => code = 127,
            }
        }
        return code;
    }
    let Some(name) = words.first() else { return 0 };
    match find(name, process.state.env.dialect) {
        Some(builtin) => builtin(process, kernel, words),
        None => {
            process.frames.push(Frame::Words(words.to_vec()));
            0
        }
    }
}
