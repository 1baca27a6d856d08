//! Builtins that decide what runs next.

use crate::shell::machine::{Frame, Kernel, Process};
use crate::shell::tools;

pub(super) fn nothing(_: &mut Process, _: &mut Kernel, _: &[String]) -> u8 {
    0
}

pub(super) fn fail(_: &mut Process, _: &mut Kernel, _: &[String]) -> u8 {
    1
}

/// `break` and `continue`.
pub(super) fn leave(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let count = match argv.get(1).map(|count| count.parse::<usize>()) {
        None => 1,
        Some(Ok(count)) if count > 0 => count,
        Some(_) => {
            let code = process.refuse(kernel, argv, &format!("Illegal number: {}", argv[1]), 2);
            process.state.code = code;
            process.abort();
            return code;
        }
    };
    process.leave_loops(kernel, count, argv[0] == "break");
    0
}

/// The exit code that a word gives; the latest one without a word.
fn given(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    match argv.get(1).map(|code| code.parse::<i64>()) {
        None => process.state.code,
        Some(Ok(code)) if code >= 0 || process.is_bash() => code.to_le_bytes()[0],
        Some(_) => process.refuse(kernel, argv, &format!("Illegal number: {}", argv[1]), 2),
    }
}

pub(super) fn exit(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let code = given(process, kernel, argv);
    process.ended = Some(code);
    code
}

/// `return`: outside of a function it ends the shell.
pub(super) fn give_back(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let code = given(process, kernel, argv);
    if !process.leave_function(kernel) {
        process.ended = Some(code);
    }
    code
}

pub(super) fn eval(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    process.evaluate(kernel, &argv[1..].join(" "));
    // An empty text has the code of the substitutions in its words.
    if argv.len() > 1 { process.state.code } else { 0 }
}

/// `exec`: replaces the shell by a program. Without one its redirections stay.
pub(super) fn exec(process: &mut Process, _: &mut Kernel, argv: &[String]) -> u8 {
    let words = &argv[1..];
    if words.is_empty() {
        return 0;
    }
    process.state.traps = std::sync::Arc::default();
    process.has_left = true;
    process.frames = vec![Frame::Exit, Frame::Words(words.to_vec())];
    0
}

/// `.` and `source`.
pub(super) fn source(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let Some(file) = argv.get(1) else {
        return process.refuse(kernel, argv, "filename argument required", 2);
    };
    let env = &process.state.env;
    let found = env.read(&env.path(file));
    match found {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            process.source(kernel, &text, &argv[2..]);
            0
        }
        Err(why) => {
            let code = process.refuse(kernel, argv, &format!("can't open '{file}': {why}"), 2);
            process.state.code = code;
            if !process.is_bash() {
                process.abort();
            }
            code
        }
    }
}

/// Whether a name is that of a program.
pub(super) fn is_program(name: &str) -> bool {
    tools::find(crate::shell::program_name(name)).is_some() || crate::shell::is_shell(name)
}
