//! `test` and `[`: files, texts and numbers, with `!`, `-a`, `-o` and parentheses.

use super::{Outcome, ToolCall};
use crate::limits::NESTED_EXPRESSIONS;
use crate::shell::descriptor::Descriptor;
use crate::shell::disk::Content;
use crate::shell::env::Env;
use std::collections::BTreeMap;

/// Whether the word is an operator between two texts.
pub(in crate::shell) fn is_binary(word: &str) -> bool {
    matches!(
        word,
        "=" | "==" | "!=" | "<" | ">" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-nt" | "-ot" | "-ef"
    )
}

/// Whether the word is an operator before a text.
pub(in crate::shell) fn is_unary(word: &str) -> bool {
    word.len() == 2 && word.starts_with('-') && "fdersxwLhnzbcpStugkOGN".contains(&word[1..])
        || word == "-v"
        || word == "-o"
}

/// The result of an operator before a text.
pub(in crate::shell) fn unary(
    env: &Env,
    descriptors: &BTreeMap<u32, Descriptor>,
    operator: &str,
    operand: &str,
) -> bool {
    let path = env.path(operand);
    let found = || env.entry(&env.resolved(&path));
    match operator {
        "-n" => !operand.is_empty(),
        "-z" => operand.is_empty(),
        "-v" => env.variables.text(operand).is_some(),
        "-t" => {
            let number = operand.parse::<u32>().ok();
            number.and_then(|number| descriptors.get(&number)).is_some_and(|own| own.is_terminal(env))
        }
        // An empty path is no file.
        _ if operand.is_empty() => false,
        "-f" => env.is_file(&path) && !path.starts_with("/dev/"),
        "-d" => env.is_folder(&path),
        "-e" | "-r" | "-O" | "-G" => found().is_some(),
        "-w" => found().is_some() && env.writable(&env.resolved(&path)).is_ok(),
        "-s" => env.is_folder(&path) || env.read(&path).is_ok_and(|bytes| !bytes.is_empty()),
        "-x" => found().is_some_and(|entry| entry.mode & 0o111 != 0),
        "-L" | "-h" => env.entry(&path).is_some_and(|entry| matches!(entry.content, Content::Link(_))),
        "-c" => matches!(
            path.as_str(),
            "/dev/null" | "/dev/zero" | "/dev/full" | "/dev/random" | "/dev/urandom" | "/dev/tty"
        ),
        "-u" => found().is_some_and(|entry| entry.mode & 0o4000 != 0),
        "-g" => found().is_some_and(|entry| entry.mode & 0o2000 != 0),
        "-k" => found().is_some_and(|entry| entry.mode & 0o1000 != 0),
        _ => false,
    }
}

/// The result of an operator between two texts.
///
/// # Errors
/// The error's text.
pub(in crate::shell) fn binary(env: &Env, left: &str, operator: &str, right: &str) -> Result<bool, String> {
    let number = |text: &str| -> Result<i64, String> {
        text.trim().parse::<i64>().map_err(|_| format!("{text}: bad number"))
    };
    let modified = |path: &str| env.entry(&env.resolved(&env.path(path))).map(|entry| entry.modified);
    Ok(match operator {
        "=" | "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        ">" => left > right,
        "-nt" => modified(left) > modified(right),
        "-ot" => modified(left) < modified(right),
        "-ef" => modified(left).is_some() && env.resolved(&env.path(left)) == env.resolved(&env.path(right)),
        operator => {
            let (left, right) = (number(left)?, number(right)?);
            match operator {
                "-eq" => left == right,
                "-ne" => left != right,
                "-lt" => left < right,
                "-le" => left <= right,
                "-gt" => left > right,
                _ => left >= right,
            }
        }
    })
}

/// `test` with its words: whether it holds.
///
/// # Errors
/// The error's text.
pub(in crate::shell) fn holds(
    env: &Env,
    descriptors: &BTreeMap<u32, Descriptor>,
    words: &[String],
) -> Result<bool, String> {
    let negations = words.iter().take_while(|word| *word == "!").count();
    // A single `!` is a text.
    let negations = if negations == words.len() { negations.saturating_sub(1) } else { negations };
    let rest = &words[negations..];
    let found = match rest {
        [] => false,
        [text] => !text.is_empty(),
        [operator, operand] if is_unary(operator) => unary(env, descriptors, operator, operand),
        [left, operator, right] if is_binary(operator) => binary(env, left, operator, right)?,
        _ => {
            let mut test = Test { env, descriptors, words, at: 0 };
            let found = test.or(0)?;
            return match words.get(test.at) {
                None => Ok(found),
                Some(word) => Err(format!("{word}: unknown operand")),
            };
        }
    };
    Ok(found == (negations % 2 == 0))
}

struct Test<'a> {
    env: &'a Env,
    descriptors: &'a BTreeMap<u32, Descriptor>,
    words: &'a [String],
    at: usize,
}

impl Test<'_> {
    fn skip(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at).is_some_and(|own| own == word);
        self.at += usize::from(found);
        found
    }

    fn or(&mut self, depth: usize) -> Result<bool, String> {
        let mut found = self.and(depth)?;
        while self.skip("-o") {
            found |= self.and(depth)?;
        }
        Ok(found)
    }

    fn and(&mut self, depth: usize) -> Result<bool, String> {
        let mut found = self.primary(depth)?;
        while self.skip("-a") {
            found &= self.primary(depth)?;
        }
        Ok(found)
    }

    fn primary(&mut self, depth: usize) -> Result<bool, String> {
        if depth > NESTED_EXPRESSIONS {
            return Err("too many parentheses".to_owned());
        }
        let mut negated = false;
        while self.at + 1 < self.words.len() && self.skip("!") {
            negated = !negated;
        }
        let words = &self.words[self.at..];
        let found = match words {
            [left, operator, right, ..] if is_binary(operator) => {
                self.at += 3;
                binary(self.env, left, operator, right)?
            }
            [open, _, ..] if open == "(" => {
                self.at += 1;
                let found = self.or(depth + 1)?;
                if !self.skip(")") {
                    return Err("closing paren expected".to_owned());
                }
                found
            }
            [operator, operand, ..] if is_unary(operator) => {
                self.at += 2;
                unary(self.env, self.descriptors, operator, operand)
            }
            [text, ..] => {
                self.at += 1;
                !text.is_empty()
            }
            [] => return Err("argument expected".to_owned()),
        };
        Ok(found != negated)
    }
}

/// `test` and `[` as programs.
pub(super) fn run(call: &ToolCall<'_>) -> Outcome {
    let mut words = call.arguments();
    if call.argv[0].ends_with('[') {
        match words.split_last() {
            Some((last, rest)) if last == "]" => words = rest,
            _ => return Outcome::fail(2, "[: missing ]\n".to_owned()),
        }
    }
    match holds(call.env, &BTreeMap::new(), words) {
        Ok(holds) => Outcome::code(u8::from(!holds)),
        Err(why) => Outcome::fail(2, format!("{}: {why}\n", call.argv[0])),
    }
}
