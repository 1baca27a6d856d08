//! Background jobs, signals and traps.

use crate::shell::escape;
use crate::shell::machine::{Frame, Kernel, Process, signal};
use std::sync::Arc;

pub(super) fn times(process: &mut Process, kernel: &mut Kernel, _: &[String]) -> u8 {
    process.print(kernel, 1, b"0m0.000s 0m0.000s\n0m0.000s 0m0.000s\n");
    0
}

pub(super) fn no_control(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    process.refuse(kernel, argv, "job control is not simulated", 2)
}

pub(super) fn trap(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let words: Vec<&String> = argv[1..].iter().filter(|word| *word != "--").collect();
    match words.as_slice() {
        [] => {
            let all = process.state.traps.iter();
            let text: String = all
                .map(|(number, text)| {
                    format!("trap -- {} {}\n", escape::always_quoted(text), signal::name(*number))
                })
                .collect();
            process.print(kernel, 1, text.as_bytes());
            return 0;
        }
        [flag] if *flag == "-l" => {
            process.print(kernel, 1, signal::list().as_bytes());
            return 0;
        }
        _ => {}
    }
    // Without an action the signals get their default back.
    let resets = words[0] == "-"
        || words.len() == 1
        || words[0].chars().all(|c| c.is_ascii_digit()) && !words[0].is_empty();
    let names = if words.len() == 1 || (resets && words[0] != "-") { &words[..] } else { &words[1..] };
    let mut code = 0;
    for name in names {
        let Some(number) = signal::number(name) else {
            code = process.refuse(kernel, argv, &format!("{name}: invalid signal specification"), 1);
            continue;
        };
        let traps = Arc::make_mut(&mut process.state.traps);
        match resets {
            true => drop(traps.remove(&number)),
            false => drop(traps.insert(number, words[0].clone())),
        }
    }
    code
}

/// The process that a word of `wait` or `kill` names.
fn pid(process: &Process, word: &str) -> Option<u32> {
    match word.strip_prefix('%') {
        Some("%" | "+" | "") => process.children.keys().last().copied(),
        Some(number) => process.children.keys().nth(number.parse::<usize>().ok()?.checked_sub(1)?).copied(),
        None => word.parse().ok(),
    }
}

pub(super) fn wait(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let words: Vec<&String> = argv[1..].iter().filter(|word| *word != "-n").collect();
    let mut pids = Vec::new();
    for word in &words {
        match pid(process, word) {
            Some(pid) if process.children.contains_key(&pid) => pids.push(pid),
            Some(_) => {}
            None => return process.refuse(kernel, argv, &format!("{word}: no such job"), 2),
        }
    }
    if pids.is_empty() && !words.is_empty() {
        return 127;
    }
    process.frames.push(Frame::Wait(pids));
    0
}

pub(super) fn list(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let only_pids = argv[1..].iter().any(|word| word == "-p");
    let running = process.children.iter().filter(|(_, code)| code.is_none()).enumerate();
    let text: String = running
        .map(|(at, (pid, _))| match only_pids {
            true => format!("{pid}\n"),
            false => format!("[{}]{}  Running\n", at + 1, if at == 0 { '+' } else { '-' }),
        })
        .collect();
    process.print(kernel, 1, text.as_bytes());
    0
}

pub(super) fn kill(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let (mut number, mut at) = (signal::TERM, 1);
    match argv.get(1).map(String::as_str) {
        Some("-l" | "-L") => {
            let text = match argv.get(2).and_then(|word| signal::number(word)) {
                Some(number) => format!("{}\n", signal::name(number & 127)),
                None => signal::list(),
            };
            process.print(kernel, 1, text.as_bytes());
            return 0;
        }
        Some("-s") => {
            let Some(found) = argv.get(2).and_then(|word| signal::number(word)) else {
                return process.refuse(kernel, argv, "invalid signal", 1);
            };
            (number, at) = (found, 3);
        }
        Some(word) if word.starts_with('-') && word.len() > 1 && word != "--" => {
            let Some(found) = signal::number(&word[1..]) else {
                return process.refuse(kernel, argv, &format!("bad signal name '{}'", &word[1..]), 1);
            };
            (number, at) = (found, 2);
        }
        Some("--") => at = 2,
        _ => {}
    }
    let words = &argv[at.min(argv.len())..];
    if words.is_empty() {
        return process.refuse(kernel, argv, "you need to specify whom to kill", 1);
    }
    let mut code = 0;
    for word in words {
        let target = pid(process, word);
        let is_known = target.is_some_and(|pid| {
            pid == process.pid
                || pid == 0
                || pid == 1
                || process.children.get(&pid).is_some_and(Option::is_none)
                || kernel.knows(pid)
        });
        match target.filter(|_| is_known) {
            Some(_) if number == 0 => {}
            Some(pid) if pid == process.pid || pid == 0 => process.signals.push(number),
            Some(pid) => kernel.send(pid, number),
            None => {
                code = process.refuse(kernel, argv, &format!("can't kill pid {word}: No such process"), 1);
            }
        }
    }
    code
}
