//! Programs of a simulated container that process text, from their input or from files.

use super::Environment;
use super::builtin::Outcome;
use super::memory::{Buffer, Reservation};

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
        "printf" => printf(environment, arguments),
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
fn all<'a>(
    environment: &Environment,
    program: &str,
    files: &[String],
    input: &'a [u8],
) -> Result<FileBytes<'a>, Outcome> {
    if files.is_empty() {
        return Ok(FileBytes::Input(input));
    }
    let mut bytes = Buffer::new(&environment.bounds());
    for file in files {
        let fits = match environment.read(&environment.path(file)) {
            _ if file == "-" => bytes.push(input),
            Ok(content) => bytes.push(&content),
            Err(why) => return Err(Outcome::fail(1, format!("{program}: {file}: {why}\n"))),
        };
        if !fits {
            break;
        }
    }
    // Programs pass over them a few times.
    if environment.work.spend(4 * bytes.len()) { Ok(FileBytes::Files(bytes)) } else { Err(Outcome::code(1)) }
}

/// The bytes that a program processes.
enum FileBytes<'a> {
    Input(&'a [u8]),
    Files(Buffer),
}

impl std::ops::Deref for FileBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Input(bytes) => bytes,
            Self::Files(bytes) => bytes.as_ref(),
        }
    }
}

/// The lines of a text, without their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    })
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
    let (head, length) = (program == "head", bytes.len());
    // Where the line with this number begins, counted from the start.
    let line = |number: usize| {
        bytes.split_inclusive(|byte| *byte == b'\n').take(number).map(<[u8]>::len).sum::<usize>()
    };
    let lines = || bytes.split_inclusive(|byte| *byte == b'\n').count();
    Outcome::text(match amount {
        Amount::Bytes(n) if head => bytes[..n.min(length)].to_vec(),
        Amount::Bytes(n) => bytes[length - n.min(length)..].to_vec(),
        Amount::Lines(n) if head => bytes[..line(n)].to_vec(),
        Amount::Lines(n) => bytes[line(lines().saturating_sub(n))..].to_vec(),
        Amount::BytesFrom(n) => bytes[n.saturating_sub(1).min(length)..].to_vec(),
        Amount::LinesFrom(n) => bytes[line(n.saturating_sub(1))..].to_vec(),
    })
}

fn count(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    let files = words(arguments);
    let bytes = match all(environment, "wc", &files, input) {
        Ok(bytes) => bytes,
        Err(failed) => return failed,
    };
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let found = bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
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
    let ignores_case = flag(arguments, 'i');
    let folded = |text: &str| if ignores_case { text.to_lowercase() } else { text.to_owned() };
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
    let inverted = flag(arguments, 'v');
    let texts = lines(&bytes).map(String::from_utf8_lossy);
    let found = texts.filter(|line| matches(&folded(line)) != inverted);
    let (quiet, counts) = (flag(arguments, 'q'), flag(arguments, 'c'));
    let (mut out, mut count) = (Buffer::new(&environment.bounds()), 0);
    for line in found {
        count += 1;
        let is_shown = !quiet && !counts;
        if is_shown && !(out.push(line.as_bytes()) && out.push(b"\n")) {
            break;
        }
    }
    if counts && !quiet {
        out.push(format!("{count}\n").as_bytes());
    }
    Outcome { code: u8::from(count == 0), ..Outcome::reserved(out) }
}

fn sort(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    let bytes = match all(environment, "sort", &words(arguments), input) {
        Ok(bytes) => bytes,
        Err(failed) => return failed,
    };
    // A list of lines takes more memory than the lines, and sorting passes over them some times.
    let count = lines(&bytes).count();
    let bounds = environment.bounds();
    let mut room = Reservation::new(&bounds.allowance);
    if !bounds.grow(&mut room, count * size_of::<&[u8]>()) || !bounds.work.spend(64 * count + 4 * bytes.len())
    {
        return Outcome::code(1);
    }
    let mut lines: Vec<&[u8]> = lines(&bytes).collect();
    lines.sort_unstable();
    if flag(arguments, 'u') {
        lines.dedup();
    }
    if flag(arguments, 'r') {
        lines.reverse();
    }
    let mut out = Buffer::new(&bounds);
    for line in lines {
        if !(out.push(line) && out.push(b"\n")) {
            break;
        }
    }
    Outcome::reserved(out)
}

/// `printf`: `%s`, `%d`, `\n`, `\t` and `\\`. The format repeats while arguments remain.
fn printf(environment: &Environment, arguments: &[String]) -> Outcome {
    let Some((format, values)) = arguments.split_first() else {
        return Outcome::fail(2, "printf: usage: printf format [arguments]\n".to_owned());
    };
    let (mut out, mut rest) = (Buffer::new(&environment.bounds()), values);
    loop {
        let before = rest.len();
        rest = formatted(format, rest, &mut out);
        if rest.is_empty() || rest.len() == before || !environment.runs() {
            return Outcome::reserved(out);
        }
    }
}

/// Writes the format once and returns the values that it did not use.
fn formatted<'a>(format: &str, mut values: &'a [String], out: &mut Buffer) -> &'a [String] {
    let mut rest = format;
    while !rest.is_empty() {
        // A text without escapes, or an escape that is not known, which stays as it is.
        let plain = rest.find(['\\', '%']).unwrap_or(rest.len());
        let (text, length) = match (&rest[..plain], rest.get(plain..plain + 2)) {
            (text, _) if plain > 0 => (text, plain),
            (_, Some("\\n")) => ("\n", 2),
            (_, Some("\\t")) => ("\t", 2),
            (_, Some("\\\\")) => ("\\", 2),
            (_, Some("%%")) => ("%", 2),
            (_, Some("%s" | "%d")) => match values.split_first() {
                Some((value, more)) => {
                    values = more;
                    (value.as_str(), 2)
                }
                None => ("", 2),
            },
            (..) => (&rest[..1], 1),
        };
        if !out.push(text.as_bytes()) {
            break;
        }
        rest = &rest[length..];
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
