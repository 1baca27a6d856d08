//! Programs that run other programs: `env`, `xargs`, `timeout`, `nohup`, `nice`, `setsid` and `time`.

use super::{Effect, ExitRule, Outcome, Tool, ToolCall, always, plain, whole};
use crate::shell::machine::signal;
use crate::shell::memory::Reservation;
use std::time::Duration;

pub(super) const TOOLS: &[Tool] = &[
    plain("env", environment),
    whole("xargs", always, arguments),
    plain("timeout", timeout),
    plain("nohup", |call| replaced(call, command("nohup", call.arguments()))),
    plain("nice", |call| replaced(call, command("nice", call.arguments()))),
    plain("setsid", |call| replaced(call, command("setsid", call.arguments()))),
    plain("stdbuf", |call| replaced(call, command("stdbuf", call.arguments()))),
    plain("time", |call| {
        let mut outcome = replaced(call, command("time", call.arguments()));
        outcome.then.push(Effect::Error(b"real\t0m 0.00s\nuser\t0m 0.00s\nsys\t0m 0.00s\n".to_vec()));
        outcome
    }),
];

/// The command that a program runs with these arguments; `None` if the program runs none.
pub(super) fn command(name: &str, arguments: &[String]) -> Option<Vec<String>> {
    let known = match name {
        "env" => "+i0u:C:",
        "xargs" => "+0rtn:I:s:L:P:E:d:a:x",
        "timeout" => "+s:k:",
        "nice" => "+n:",
        "nohup" | "setsid" | "time" => "+pvfow",
        "stdbuf" => "+i:o:e:",
        _ => return None,
    };
    let parsed = super::parse(arguments, known, &[]).unwrap_or_default();
    let skip = match name {
        "env" => parsed.operands.iter().take_while(|word| word.contains('=')).count(),
        "timeout" => 1,
        _ => 0,
    };
    Some(parsed.operands.get(skip..).unwrap_or_default().to_vec())
}

fn run(argv: Vec<String>, rule: ExitRule) -> Effect {
    Effect::Run { argv, rule, variables: Vec::new(), input: None, limit: None }
}

fn replaced(call: &ToolCall<'_>, argv: Option<Vec<String>>) -> Outcome {
    match argv.filter(|argv| !argv.is_empty()) {
        Some(argv) => Outcome { then: vec![run(argv, ExitRule::Take)], ..Outcome::default() },
        None => Outcome::fail(1, format!("{}: missing command\n", call.argv[0])),
    }
}

fn environment(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), "+i0u:", &[("ignore-environment", 'i'), ("unset", 'u')])
    {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("env: {why}\n")),
    };
    let set = parsed.operands.iter().take_while(|word| word.contains('=')).count();
    let (set, argv) = parsed.operands.split_at(set);
    let removed: Vec<String> = match parsed.has('i') {
        true => call.env.variables.environment().into_iter().map(|(name, _)| name.to_owned()).collect(),
        false => parsed.flags.iter().filter(|(flag, _)| *flag == 'u').map(|(_, name)| name.clone()).collect(),
    };
    let set: Vec<(&str, &str)> = set.iter().filter_map(|word| word.split_once('=')).collect();
    if argv.is_empty() {
        let kept = call.env.variables.environment().into_iter().filter(|(name, _)| {
            !removed.iter().any(|other| other == name) && !set.iter().any(|(other, _)| other == name)
        });
        let text: String =
            kept.chain(set.iter().copied()).map(|(name, value)| format!("{name}={value}\n")).collect();
        return Outcome::text(text);
    }
    let removed = removed.into_iter().map(|name| (name, None));
    let set = set.into_iter().map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    let variables = removed.chain(set).collect();
    let effect =
        Effect::Run { argv: argv.to_vec(), rule: ExitRule::Take, variables, input: None, limit: None };
    Outcome { then: vec![effect], ..Outcome::default() }
}

/// The words of `xargs`' input: separated by blanks, with quotes and backslashes.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut all, mut word, mut chars) = (Vec::new(), None::<String>, text.chars());
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => all.extend(word.take()),
            quote @ ('\'' | '"') => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        c if c == quote => break,
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    Some(all)
}

/// Words of one command of `xargs`, unless `-n` says less.
const XARGS_WORDS: usize = 5_000;

/// The words that `xargs` hands on; `None` if a quote is not closed.
fn given_words(parsed: &super::Parsed, text: &str) -> Option<Vec<String>> {
    let replaced = parsed.value('I');
    let separator = parsed
        .value('d')
        .map(|text| crate::shell::escape::replaced(text, crate::shell::escape::Escapes::Format).0)
        .and_then(|bytes| bytes.first().copied())
        .map(char::from);
    match () {
        () if parsed.has('0') => {
            Some(text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect())
        }
        () if separator.is_some() => {
            Some(text.trim_end_matches('\n').split(separator.unwrap_or('\n')).map(str::to_owned).collect())
        }
        () if replaced.is_some() => Some(
            text.lines().map(str::trim_start).filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        ),
        () if parsed.has('L') => {
            Some(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
        }
        () => words(text),
    }
}

fn arguments(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(
        call.arguments(),
        "+0rtn:I:s:L:P:E:d:x",
        &[("null", '0'), ("no-run-if-empty", 'r'), ("max-args", 'n'), ("max-procs", 'P')],
    ) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("xargs: {why}\n")),
    };
    let text = String::from_utf8_lossy(call.input).into_owned();
    let bounds = call.env.bounds();
    let mut room = Reservation::new(&bounds.allowance);
    if !bounds.grow(&mut room, 4 * text.len()) {
        return Outcome::code(1);
    }
    let replaced = parsed.value('I');
    let given = given_words(&parsed, &text);
    let Some(given) = given else { return Outcome::fail(1, "xargs: unmatched quote\n".to_owned()) };
    let command = if parsed.operands.is_empty() { vec!["echo".to_owned()] } else { parsed.operands.clone() };
    let most = match parsed.value('n').or(parsed.value('L')).map(str::parse::<usize>) {
        None => XARGS_WORDS,
        Some(Ok(most)) if most > 0 => most,
        Some(_) => return Outcome::fail(1, "xargs: invalid number\n".to_owned()),
    };
    let mut then = Vec::new();
    let mut push = |argv: Vec<String>| {
        if parsed.has('t') {
            then.push(Effect::Error(format!("{}\n", argv.join(" ")).into_bytes()));
        }
        let fits = call.env.work.spend(10_000)
            && bounds.grow(&mut room, argv.iter().map(|word| word.len() + 64).sum::<usize>());
        then.push(Effect::Run {
            argv,
            rule: ExitRule::Xargs,
            variables: Vec::new(),
            input: Some(()),
            limit: None,
        });
        fits
    };
    if let Some(place) = replaced {
        for line in given {
            if !push(command.iter().map(|word| word.replace(place, &line)).collect()) {
                break;
            }
        }
    } else if given.is_empty() {
        if !parsed.has('r') {
            push(command);
        }
    } else {
        for words in given.chunks(most) {
            let words = words.iter().flat_map(|word| match parsed.has('L') {
                true => word.split_whitespace().map(str::to_owned).collect(),
                false => vec![word.clone()],
            });
            if !push(command.iter().cloned().chain(words).collect()) {
                break;
            }
        }
    }
    Outcome { then, ..Outcome::default() }
}

fn timeout(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(
        call.arguments(),
        "+s:k:",
        &[("signal", 's'), ("kill-after", 'k'), ("preserve-status", 'p')],
    ) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("timeout: {why}\n")),
    };
    let Some((time, argv)) = parsed.operands.split_first().filter(|(_, argv)| !argv.is_empty()) else {
        return Outcome::fail(1, "timeout: missing operand\n".to_owned());
    };
    let digits = time.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &time[digits.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Outcome::fail(1, format!("timeout: invalid number '{time}'\n")),
    };
    let limit = digits.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number * unit).ok());
    let Some(limit) = limit else { return Outcome::fail(1, format!("timeout: invalid number '{time}'\n")) };
    let number = parsed.value('s').map_or(Some(signal::TERM), signal::number).unwrap_or(signal::TERM);
    let limit = (!limit.is_zero()).then_some((limit, number));
    let effect =
        Effect::Run { argv: argv.to_vec(), rule: ExitRule::Take, variables: Vec::new(), input: None, limit };
    Outcome { then: vec![effect], ..Outcome::default() }
}
