//! Programs of a simulated container that process text, from their input or from files.

use super::Environment;
use super::builtin::Outcome;

/// The programs here that read their input when they get no file arguments.
pub(super) fn reads(program: &str, arguments: &[String]) -> bool {
    let files = match program {
        "head" | "tail" => counted(arguments).map(|(_, files)| files).unwrap_or_default(),
        "grep" => words(arguments).get(1..).unwrap_or_default().to_vec(),
        "wc" | "sort" => words(arguments),
        _ => return false,
    };
    files.is_empty() || files == ["-"]
}

/// Runs a program of this file; `None` if it has none of this name.
pub(super) fn run(
    environment: &Environment,
    program: &str,
    arguments: &[String],
    input: &[u8],
) -> Option<Outcome> {
    Some(match program {
        "head" => ends(environment, "head", arguments, input),
        "tail" => ends(environment, "tail", arguments, input),
        "wc" => count(environment, arguments, input),
        "grep" => grep(environment, arguments, input),
        "sort" => sort(environment, arguments, input),
        "printf" => printf(arguments),
        "seq" => sequence(arguments),
        "basename" => Outcome::text(format!("{}\n", last(arguments.first().map_or("", String::as_str)))),
        _ => return None,
    })
}

fn last(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// The arguments that are not flags.
fn words(arguments: &[String]) -> Vec<String> {
    arguments.iter().filter(|word| !word.starts_with('-') || *word == "-").cloned().collect()
}

fn flag(arguments: &[String], letter: char) -> bool {
    arguments.iter().any(|word| word.len() > 1 && word.starts_with('-') && word.contains(letter))
}

/// The concatenated bytes of a program's files, or its input if it names none.
fn all(environment: &Environment, program: &str, files: &[String], input: &[u8]) -> Result<Vec<u8>, Outcome> {
    if files.is_empty() {
        return Ok(input.to_vec());
    }
    let mut bytes = Vec::new();
    for file in files {
        match environment.read(&environment.path(file)) {
            _ if file == "-" => bytes.extend_from_slice(input),
            Ok(content) => bytes.extend(content),
            Err(why) => return Err(Outcome::fail(1, format!("{program}: {file}: {why}\n"))),
        }
    }
    Ok(bytes)
}

/// The part of a text that `head` or `tail` prints.
#[derive(Clone, Copy)]
enum Amount {
    Lines(usize),
    Bytes(usize),
    LinesFrom(usize),
    BytesFrom(usize),
}

/// Parses `-n 5`, `-n5`, `-5`, `-c 5` and `-n +5`, and returns the files too.
fn counted(arguments: &[String]) -> Option<(Amount, Vec<String>)> {
    let (mut amount, mut files) = (Amount::Lines(10), Vec::new());
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty()) else {
            files.push(word.clone());
            continue;
        };
        let (bytes, number) = match flags.split_at_checked(1) {
            Some(("n", "")) => (false, rest.next()?.as_str()),
            Some(("c", "")) => (true, rest.next()?.as_str()),
            Some(("n", number)) => (false, number),
            Some(("c", number)) => (true, number),
            Some(("q", "")) => continue,
            _ => (false, flags),
        };
        let from = number.starts_with('+');
        let number = number.trim_start_matches('+').parse().ok()?;
        amount = match (bytes, from) {
            (true, false) => Amount::Bytes(number),
            (true, true) => Amount::BytesFrom(number),
            (false, false) => Amount::Lines(number),
            (false, true) => Amount::LinesFrom(number),
        };
    }
    Some((amount, files))
}

fn ends(environment: &Environment, program: &str, arguments: &[String], input: &[u8]) -> Outcome {
    let Some((amount, files)) = counted(arguments) else {
        return Outcome::fail(1, format!("{program}: invalid option\n"));
    };
    let bytes = match all(environment, program, &files, input) {
        Ok(bytes) => bytes,
        Err(failed) => return failed,
    };
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let (head, length) = (program == "head", bytes.len());
    Outcome::text(match amount {
        Amount::Bytes(n) if head => bytes[..n.min(length)].to_vec(),
        Amount::Bytes(n) => bytes[length - n.min(length)..].to_vec(),
        Amount::Lines(n) if head => lines[..n.min(lines.len())].concat(),
        Amount::Lines(n) => lines[lines.len() - n.min(lines.len())..].concat(),
        Amount::BytesFrom(n) => bytes[n.saturating_sub(1).min(length)..].to_vec(),
        Amount::LinesFrom(n) => lines[n.saturating_sub(1).min(lines.len())..].concat(),
    })
}

fn count(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    let files = words(arguments);
    let bytes = match all(environment, "wc", &files, input) {
        Ok(bytes) => bytes,
        Err(failed) => return failed,
    };
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let found = String::from_utf8_lossy(&bytes).split_whitespace().count();
    let figures = [('l', lines), ('w', found), ('c', bytes.len())];
    let any = figures.iter().any(|(letter, _)| flag(arguments, *letter));
    let chosen = figures.iter().filter(|(letter, _)| !any || flag(arguments, *letter));
    let mut text: Vec<String> = chosen.map(|(_, figure)| figure.to_string()).collect();
    text.extend(files.first().cloned());
    Outcome::text(format!("{}\n", text.join(" ")))
}

/// `grep`: patterns are literal, except for `^` at their start and `$` at their end.
fn grep(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    let words = words(arguments);
    let Some((pattern, files)) = words.split_first() else {
        return Outcome::fail(2, "grep: no pattern\n".to_owned());
    };
    let bytes = match all(environment, "grep", files, input) {
        Ok(bytes) => bytes,
        Err(failed) => return Outcome { code: 2, ..failed },
    };
    let folded = |text: &str| if flag(arguments, 'i') { text.to_lowercase() } else { text.to_owned() };
    let pattern = folded(pattern);
    let (from_start, middle) =
        pattern.strip_prefix('^').map_or((false, pattern.as_str()), |rest| (true, rest));
    let (to_end, middle) = middle.strip_suffix('$').map_or((false, middle), |rest| (true, rest));
    let matches = |line: &str| match (from_start, to_end) {
        (true, true) => line == middle,
        (true, false) => line.starts_with(middle),
        (false, true) => line.ends_with(middle),
        (false, false) => line.contains(middle),
    };
    let text = String::from_utf8_lossy(&bytes);
    let found: Vec<&str> =
        text.lines().filter(|line| matches(&folded(line)) != flag(arguments, 'v')).collect();
    let code = u8::from(found.is_empty());
    let out = match (flag(arguments, 'q'), flag(arguments, 'c')) {
        (true, _) => String::new(),
        (false, true) => format!("{}\n", found.len()),
        (false, false) => found.iter().map(|line| format!("{line}\n")).collect(),
    };
    Outcome { code, ..Outcome::text(out) }
}

fn sort(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    let bytes = match all(environment, "sort", &words(arguments), input) {
        Ok(bytes) => bytes,
        Err(failed) => return failed,
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    if flag(arguments, 'u') {
        lines.dedup();
    }
    if flag(arguments, 'r') {
        lines.reverse();
    }
    Outcome::text(lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

/// `printf`: `%s`, `%d`, `\n`, `\t` and `\\`. The format repeats while arguments remain.
fn printf(arguments: &[String]) -> Outcome {
    let Some((format, values)) = arguments.split_first() else {
        return Outcome::fail(2, "printf: usage: printf format [arguments]\n".to_owned());
    };
    let (mut out, mut rest) = (String::new(), values);
    loop {
        let before = rest.len();
        rest = formatted(format, rest, &mut out);
        if rest.is_empty() || rest.len() == before {
            return Outcome::text(out);
        }
    }
}

/// Writes the format once and returns the values that it did not use.
fn formatted<'a>(format: &str, mut values: &'a [String], out: &mut String) -> &'a [String] {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some('\\')) => out.push('\\'),
            ('%', Some('%')) => out.push('%'),
            ('%', Some('s' | 'd')) => {
                if let Some((value, rest)) = values.split_first() {
                    out.push_str(value);
                    values = rest;
                }
            }
            (c, _) => {
                out.push(c);
                continue;
            }
        }
        chars.next();
    }
    values
}

fn sequence(arguments: &[String]) -> Outcome {
    let longest = 100_000;
    let numbers: Option<Vec<i64>> = arguments.iter().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some([last]) => {
            Outcome::text((1..=*last).take(longest).map(|n| format!("{n}\n")).collect::<String>())
        }
        Some([first, last]) => {
            Outcome::text((*first..=*last).take(longest).map(|n| format!("{n}\n")).collect::<String>())
        }
        _ => Outcome::fail(1, "seq: invalid number\n".to_owned()),
    }
}
