//! `declare` of bash.

use super::variables::assignment;
use crate::shell::escape;
use crate::shell::machine::{Kernel, Process};
use crate::shell::variables::Value;
use std::collections::BTreeMap;

pub(super) fn declare(process: &mut Process, kernel: &mut Kernel, argv: &[String]) -> u8 {
    let flags: String =
        argv[1..].iter().filter(|word| word.starts_with('-')).map(|word| &word[1..]).collect();
    let words: Vec<&String> = argv[1..].iter().filter(|word| !word.starts_with(['-', '+'])).collect();
    if flags.contains('p') || words.is_empty() {
        return print(process, kernel, &words);
    }
    if let Some(flag) = flags.chars().find(|flag| !"aAixrg".contains(*flag)) {
        return process.refuse(kernel, argv, &format!("-{flag}: invalid option"), 2);
    }
    let local = process.is_in_function() && !flags.contains('g');
    for word in words {
        let (name, value) = assignment(word);
        let name = name.strip_suffix('+').unwrap_or(name);
        if local {
            process.save_local(kernel, name, value.is_some());
        }
        process.mark(kernel, name, |variable| {
            variable.integer |= flags.contains('i');
            match variable.value {
                Value::Unset | Value::Text(_) if flags.contains('A') => {
                    variable.value = Value::Map(BTreeMap::new());
                }
                Value::Unset if flags.contains('a') => variable.value = Value::Array(BTreeMap::new()),
                _ => {}
            }
        });
        if process.assign_word(kernel, argv, word).is_none() {
            return 1;
        }
        process.mark(kernel, name, |variable| {
            variable.exported |= flags.contains('x');
            variable.read_only |= flags.contains('r');
        });
    }
    0
}

fn print(process: &mut Process, kernel: &mut Kernel, names: &[&String]) -> u8 {
    let (mut text, mut code) = (String::new(), 0);
    let quoted =
        |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$"));
    let all: Vec<String> = match names.is_empty() {
        true => process.state.env.variables.iter().map(|(name, _)| name.clone()).collect(),
        false => names.iter().map(|name| (*name).clone()).collect(),
    };
    for name in all {
        let Some(variable) = process.state.env.variables.get(&name) else {
            process.complain(kernel, &format!("declare: {name}: not found"));
            code = 1;
            continue;
        };
        let letters = [
            (matches!(variable.value, Value::Array(_)), 'a'),
            (matches!(variable.value, Value::Map(_)), 'A'),
            (variable.integer, 'i'),
            (variable.read_only, 'r'),
            (variable.exported, 'x'),
        ];
        let letters: String = letters.iter().filter(|(is, _)| *is).map(|(_, letter)| *letter).collect();
        let letters = if letters.is_empty() { "-".to_owned() } else { letters };
        let value = match &variable.value {
            Value::Unset => String::new(),
            Value::Text(text) => format!("={}", quoted(text)),
            Value::Array(all) => {
                let all: Vec<String> =
                    all.iter().map(|(at, text)| format!("[{at}]={}", quoted(text))).collect();
                format!("=({})", all.join(" "))
            }
            Value::Map(all) => {
                let all: String = all
                    .iter()
                    .map(|(key, text)| format!("[{}]={} ", escape::quoted(key), quoted(text)))
                    .collect();
                format!("=({all})")
            }
        };
        text.push_str(&format!("declare -{letters} {name}{value}\n"));
    }
    process.print(kernel, 1, text.as_bytes());
    code
}
