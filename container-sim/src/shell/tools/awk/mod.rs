//! `awk`: the language of POSIX. `lexer` and `parse` read a program as a `tree`; `run` runs its statements, `eval` its expressions,
//! `library` its functions, `input` reads records. What runs other commands (`system`, pipes) is an error of the program, so that a
//! container with it is not run.

mod eval;
mod input;
mod lexer;
mod library;
mod parse;
mod run;
mod tree;
mod value;

use super::{Outcome, Runner, Tool, ToolCall};

pub(super) const TOOLS: &[Tool] = &[Tool { name: "awk", reads, run: Runner::Whole(awk), check }];

const KNOWN: &str = "+F:v:f:";

/// Whether it reads its input: without files, and if there is more than `BEGIN`.
fn reads(arguments: &[String]) -> bool {
    let Ok(parsed) = super::parse(arguments, KNOWN, &[]) else { return false };
    let skip = usize::from(!parsed.has('f'));
    let files = parsed.operands.iter().skip(skip).filter(|file| !file.contains('=') || file.contains('/'));
    let text = parsed.operands.first().map(String::as_str).unwrap_or_default();
    let only_begin = skip == 1 && parse::parse(text).is_ok_and(|program| !program.reads());
    let files: Vec<&String> = files.collect();
    !only_begin && (files.is_empty() || files.iter().any(|file| *file == "-"))
}

fn check(arguments: &[String]) -> Result<(), String> {
    let parsed = super::parse(arguments, KNOWN, &[])?;
    match parsed.operands.first() {
        Some(text) if !parsed.has('f') && text != "$" => parse::parse(text).map(drop),
        _ => Ok(()),
    }
}

fn awk(call: &ToolCall<'_>) -> Outcome {
    let fail = |why: String| Outcome::fail(1, format!("awk: {why}\n"));
    let parsed = match super::parse(call.arguments(), KNOWN, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return fail(why),
    };
    let mut text = String::new();
    for (_, file) in parsed.flags.iter().filter(|(flag, _)| *flag == 'f') {
        match call.env.read(&call.env.path(file)) {
            Ok(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
            Err(why) => return fail(format!("{file}: {why}")),
        }
        text.push('\n');
    }
    let mut files = parsed.operands.clone();
    if !parsed.has('f') {
        if files.is_empty() {
            return fail("missing program".to_owned());
        }
        text = files.remove(0);
    }
    if !call.env.work.spend(64 * text.len()) {
        return Outcome::code(2);
    }
    let program = match parse::parse(&text) {
        Ok(program) => program,
        Err(why) => return fail(format!("cmd. line:1: {why}")),
    };
    let assigned: Vec<(char, String)> = parsed.flags.into_iter().filter(|(flag, _)| *flag != 'f').collect();
    run::run(call, &program, &assigned, files)
}
