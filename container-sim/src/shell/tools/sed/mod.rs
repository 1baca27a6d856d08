//! `sed`: the commands of POSIX and a few of GNU's, line by line. The output of a line is made before the next one is read.

mod parse;
mod run;

use super::{Outcome, Runner, Tool, ToolCall};
use parse::Program;
use run::run;

pub(super) const TOOLS: &[Tool] = &[Tool { name: "sed", reads, run: Runner::Whole(sed), check }];

const KNOWN: &str = "nEre:f:i::sz";

/// The arguments: `-i` may have a suffix, and needs no word of its own.
fn parsed(arguments: &[String]) -> Result<(super::Parsed, bool), String> {
    let in_place = |word: &String| word.starts_with("-i") || word.starts_with("--in-place");
    let rest: Vec<String> = arguments.iter().filter(|word| !in_place(word)).cloned().collect();
    let long = [
        ("quiet", 'n'),
        ("silent", 'n'),
        ("expression", 'e'),
        ("regexp-extended", 'E'),
        ("file", 'f'),
        ("separate", 's'),
    ];
    Ok((super::parse(&rest, &KNOWN.replace("i::", ""), &long)?, rest.len() < arguments.len()))
}

fn files(parsed: &super::Parsed) -> &[String] {
    let given = parsed.has('e') || parsed.has('f');
    &parsed.operands[usize::from(!given && !parsed.operands.is_empty())..]
}

fn reads(arguments: &[String]) -> bool {
    parsed(arguments).is_ok_and(|(parsed, in_place)| {
        !in_place && (files(&parsed).is_empty() || files(&parsed).iter().any(|file| file == "-"))
    })
}

fn check(arguments: &[String]) -> Result<(), String> {
    let (parsed, _) = parsed(arguments)?;
    if parsed.has('f') {
        return Ok(());
    }
    let scripts: Vec<&str> = match parsed.has('e') {
        true => parsed.flags.iter().filter(|(flag, _)| *flag == 'e').map(|(_, text)| text.as_str()).collect(),
        false => parsed.operands.first().map(String::as_str).into_iter().collect(),
    };
    if scripts.contains(&"$") {
        return Ok(());
    }
    Program::parse(&scripts.join("\n"), parsed.has('E') || parsed.has('r')).map(drop)
}

fn sed(call: &ToolCall<'_>) -> Outcome {
    let fail = |why: String| Outcome::fail(1, format!("sed: {why}\n"));
    let (parsed, in_place) = match parsed(call.arguments()) {
        Ok(parsed) => parsed,
        Err(why) => return fail(why),
    };
    let mut script = String::new();
    for (flag, value) in &parsed.flags {
        match flag {
            'e' => script.push_str(value),
            'f' => match call.env.read(&call.env.path(value)) {
                Ok(bytes) => script.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => return fail(format!("{value}: {why}")),
            },
            _ => continue,
        }
        script.push('\n');
    }
    if !parsed.has('e') && !parsed.has('f') {
        match parsed.operands.first() {
            Some(text) => script.push_str(text),
            None => return fail("no script".to_owned()),
        }
    }
    let program = match Program::parse(&script, parsed.has('E') || parsed.has('r')) {
        Ok(program) => program,
        Err(why) => return fail(why),
    };
    let files = files(&parsed).to_vec();
    if !in_place {
        let mut err = String::new();
        let Some(bytes) = super::contents(call, &files, &mut err) else { return Outcome::code(1) };
        let (out, code, more) = run(call, &program, bytes.as_ref(), parsed.has('n'));
        let code = if err.is_empty() { code } else { 1 };
        return Outcome { err: err + &more, code, ..Outcome::reserved(out) };
    }
    let mut outcome = Outcome::default();
    for file in files.iter().take_while(|_| call.env.runs()) {
        let path = call.env.path(file);
        let done = call.env.read(&path).and_then(|bytes| {
            let (out, code, more) = run(call, &program, &bytes, parsed.has('n'));
            outcome.code = outcome.code.max(code);
            outcome.err.push_str(&more);
            call.env.write(&path, out.as_ref())
        });
        if let Err(why) = done {
            outcome.err.push_str(&format!("sed: {file}: {why}\n"));
            outcome.code = 1;
        }
    }
    outcome
}
