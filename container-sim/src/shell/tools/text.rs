//! Programs of a simulated container that process text, from their input or from files.

use super::{Effect, Outcome, Steps, Tool, whole};
use crate::limits::LONGEST_SLEEP;
use crate::shell::env::Env;
use crate::shell::memory::Buffer;
use std::time::Duration;

pub(super) const TOOLS: &[Tool] = &[
    whole("tail", reads_counted, |call| {
        let outcome = ends(call.env, "tail", call.arguments(), call.input);
        if outcome.code == 0 { followed(call.env, call.arguments(), outcome) } else { outcome }
    }),
    whole("wc", super::without_files, |call| count(call.env, call.arguments(), call.input)),
];

/// The time between two looks of `tail -f`.
const FOLLOW: Duration = Duration::from_secs(1);

/// `tail -f`: the ends of files, as they grow.
#[derive(Debug)]
struct Follow(Vec<(String, usize)>);

/// With `-f`, lets `tail` go on after its first output.
fn followed(env: &Env, arguments: &[String], first: Outcome) -> Outcome {
    if !arguments.iter().any(|word| matches!(word.as_str(), "-f" | "-F")) {
        return first;
    }
    let files = counted(arguments).map(|(_, files)| files).unwrap_or_default();
    let files = files.iter().filter(|file| *file != "-").map(|file| env.resolved(&env.path(file)));
    // Devices do not grow.
    let files = files.filter(|path| !path.starts_with("/dev/"));
    let length = |path: &str| env.read(path).map(|bytes| bytes.len()).unwrap_or(0);
    let follow = Follow(files.map(|path| (path.clone(), length(&path))).collect());
    Outcome { then: vec![Effect::Step(Box::new(follow))], ..first }
}

impl Steps for Follow {
    fn step(mut self: Box<Self>, env: &Env) -> Vec<Effect> {
        if self.0.is_empty() {
            return vec![Effect::Sleep(LONGEST_SLEEP), Effect::Step(self)];
        }
        let mut all = Vec::new();
        for (path, at) in &mut self.0 {
            let bytes = env.read(path).unwrap_or_default();
            // A file that is shorter than before was written anew.
            *at = if bytes.len() < *at { 0 } else { *at };
            if bytes.len() > *at {
                let mut grown = Buffer::new(&env.bounds());
                if !grown.push(&bytes[*at..]) {
                    return Vec::new();
                }
                all.push(Effect::Output(grown));
            }
            *at = bytes.len();
        }
        all.extend([Effect::Sleep(FOLLOW), Effect::Step(self)]);
        all
    }
}

/// Whether `tail` reads its input.
fn reads_counted(arguments: &[String]) -> bool {
    let files = counted(arguments).map(|(_, files)| files).unwrap_or_default();
    files.is_empty() || files == ["-"]
}

/// The arguments that are not flags.
fn words(arguments: &[String]) -> Vec<String> {
    arguments.iter().filter(|word| !word.starts_with('-') || *word == "-").cloned().collect()
}

fn flag(arguments: &[String], letter: char) -> bool {
    arguments.iter().any(|word| word.len() > 1 && word.starts_with('-') && word.contains(letter))
}

/// The concatenated bytes of a program's files, or its input if it names none.
fn all<'a>(env: &Env, program: &str, files: &[String], input: &'a [u8]) -> Result<FileBytes<'a>, Outcome> {
    if files.is_empty() {
        return Ok(FileBytes::Input(input));
    }
    let mut bytes = Buffer::new(&env.bounds());
    for file in files {
        let fits = match env.read(&env.path(file)) {
            _ if file == "-" => bytes.push(input),
            Ok(content) => bytes.push(&content),
            Err(why) => return Err(Outcome::fail(1, format!("{program}: {file}: {why}\n"))),
        };
        if !fits {
            break;
        }
    }
    // Programs pass over them a few times.
    if env.work.spend(4 * bytes.len()) { Ok(FileBytes::Files(bytes)) } else { Err(Outcome::code(1)) }
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
            Some(("q" | "f" | "F", "")) => continue,
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

fn ends(env: &Env, program: &str, arguments: &[String], input: &[u8]) -> Outcome {
    let Some((amount, files)) = counted(arguments) else {
        return Outcome::fail(1, format!("{program}: invalid option\n"));
    };
    let bytes = match all(env, program, &files, input) {
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

/// `wc`: a line for each file, and one for all of them together.
fn count(env: &Env, arguments: &[String], input: &[u8]) -> Outcome {
    let files = words(arguments);
    let letters = ['l', 'w', 'c'];
    let any = letters.iter().any(|letter| flag(arguments, *letter));
    let chosen: Vec<usize> = (0..3).filter(|at| !any || flag(arguments, letters[*at])).collect();
    let line = |counts: &[usize; 3], name: &str| {
        let shown: Vec<String> = match chosen.as_slice() {
            [only] => vec![counts[*only].to_string()],
            several => several.iter().map(|at| format!("{:>9}", counts[*at])).collect(),
        };
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        format!("{}{name}\n", shown.join(" "))
    };
    let counted = |bytes: &[u8]| {
        env.work.spend(4 * bytes.len());
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        let found = bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        [lines, found, bytes.len()]
    };
    if files.is_empty() {
        return Outcome::text(line(&counted(input), ""));
    }
    let (mut outcome, mut text, mut sum) = (Outcome::default(), String::new(), [0; 3]);
    for file in files.iter().take_while(|_| env.runs()) {
        let counts = match env.read(&env.path(file)) {
            _ if file == "-" => counted(input),
            Ok(bytes) => counted(&bytes),
            Err(why) => {
                outcome.err.push_str(&format!("wc: {file}: {why}\n"));
                outcome.code = 1;
                continue;
            }
        };
        text.push_str(&line(&counts, file));
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    if files.len() > 1 {
        text.push_str(&line(&sum, "total"));
    }
    Outcome { out: Outcome::text(text).out, ..outcome }
}
