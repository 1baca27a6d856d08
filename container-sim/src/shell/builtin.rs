//! Programs of a simulated container, computed from its [`Environment`] alone. Programs that process text are in `text`,
//! those that change files in `tools`, and archives in `tar`.

use super::disk::Content;
use super::memory::Buffer;
use super::{Environment, ShellStep, tar, text, tools};
use crate::limits::LONGEST_SLEEP;
use std::time::Duration;

/// The standard output of a program.
pub(super) enum Output {
    /// Not larger than the input, the words and the files of the program together.
    Small(Vec<u8>),
    /// Of any size, with its memory.
    Reserved(Buffer),
}

impl Default for Output {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

/// The result of a program.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) out: Output,
    pub(super) err: String,
    pub(super) code: u8,
    /// Steps after the output that need time or input.
    pub(super) then: Vec<ShellStep>,
}

impl Outcome {
    pub(super) fn text(out: impl Into<Vec<u8>>) -> Self {
        Self { out: Output::Small(out.into()), ..Self::default() }
    }

    pub(super) fn reserved(out: Buffer) -> Self {
        Self { out: Output::Reserved(out), ..Self::default() }
    }

    pub(super) fn code(code: u8) -> Self {
        Self { code, ..Self::default() }
    }

    pub(super) fn fail(code: u8, err: String) -> Self {
        Self { err, code, ..Self::default() }
    }
}

/// The name of a program without the folder of an absolute path.
pub(super) fn name(program: &str) -> &str {
    let folders = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/"];
    folders.iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program)
}

/// Whether the program reads its standard input when called with these words.
pub(super) fn reads(words: &[String]) -> bool {
    let (program, arguments) = (name(&words[0]), &words[1..]);
    match program {
        "cat" => arguments.is_empty() || arguments.iter().any(|word| word == "-"),
        "tar" => tar::reads(arguments),
        _ => text::reads(program, arguments) || tools::reads(program, arguments),
    }
}

/// Runs the program that the first word names, with its complete input. `None` if the container has no such program.
pub(super) fn run(environment: &Environment, words: &[String], input: &[u8]) -> Option<Outcome> {
    let arguments = &words[1..];
    let program = name(&words[0]);
    let outcome = match program {
        "true" => Outcome::default(),
        "false" => Outcome::code(1),
        "echo" => echo(arguments),
        "env" | "printenv" => variables(environment, arguments),
        "hostname" => Outcome::text(format!("{}\n", environment.hostname)),
        "pwd" => Outcome::text(format!("{}\n", environment.workdir)),
        "whoami" => Outcome::text("root\n"),
        "id" => Outcome::text("uid=0(root) gid=0(root) groups=0(root)\n"),
        "uname" if arguments.first().is_some_and(|flag| flag == "-n") => {
            Outcome::text(format!("{}\n", environment.hostname))
        }
        "uname" => Outcome::text("Linux\n"),
        "date" => date(environment, arguments),
        "uptime" => uptime(environment),
        "sleep" => sleep(arguments),
        "cat" => cat(environment, arguments, input),
        "tar" => tar::run(environment, arguments, input),
        "tty" => Outcome::fail(1, "not a tty\n".to_owned()),
        "stty" => match environment.terminal {
            Some((rows, columns)) => Outcome::text(format!("{rows} {columns}\n")),
            None => {
                Outcome::fail(1, "stty: standard input: the size of the terminal is not known\n".to_owned())
            }
        },
        "clear" => Outcome::default(),
        "which" => which(arguments),
        "ls" => list(environment, arguments),
        "test" => test(environment, arguments),
        "[" => match arguments.split_last() {
            Some((last, rest)) if last == "]" => test(environment, rest),
            _ => Outcome::fail(2, "sh: [: missing ]\n".to_owned()),
        },
        _ => {
            let found = text::run(environment, program, arguments, input);
            return found.or_else(|| tools::run(environment, program, arguments, input));
        }
    };
    Some(outcome)
}

/// `which`: the path of each program.
fn which(names: &[String]) -> Outcome {
    let known =
        |name: &&String| run(&Environment::default(), &[(*name).clone()], b"").is_some() || is_shell(name);
    let found: Vec<&String> = names.iter().filter(known).collect();
    let code = u8::from(found.len() < names.len());
    Outcome { code, ..Outcome::text(found.iter().map(|name| format!("/bin/{name}\n")).collect::<String>()) }
}

/// Whether a program is the shell itself.
pub fn is_shell(program: &str) -> bool {
    matches!(name(program), "sh" | "bash" | "ash")
}

fn echo(arguments: &[String]) -> Outcome {
    let (newline, words) = match arguments.split_first() {
        Some((flag, rest)) if flag == "-n" => ("", rest),
        Some((flag, rest)) if flag == "-e" => ("\n", rest),
        _ => ("\n", arguments),
    };
    Outcome::text(format!("{}{newline}", words.join(" ")))
}

fn variables(environment: &Environment, names: &[String]) -> Outcome {
    if names.is_empty() {
        let lines: String =
            environment.variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        return Outcome::text(lines);
    }
    let value = |name: &String| {
        environment.work.spend(8 * environment.variables.len());
        environment.variables.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    };
    let (mut out, mut code) = (Buffer::new(&environment.bounds()), 0);
    for name in names {
        match value(name) {
            Some(value) if !(out.push(value.as_bytes()) && out.push(b"\n")) => break,
            Some(_) => {}
            None => code = 1,
        }
    }
    Outcome { code, ..Outcome::reserved(out) }
}

/// The line of `uptime`. A simulated machine has no load, and has just been started.
fn uptime(environment: &Environment) -> Outcome {
    let now = jiff::Timestamp::from_second(environment.now).unwrap_or_default();
    let clock = now.strftime("%H:%M:%S");
    Outcome::text(format!(" {clock} up 1 min,  0 users,  load average: 0.00, 0.00, 0.00\n"))
}

/// `date [-u] [+FORMAT]`.
fn date(environment: &Environment, arguments: &[String]) -> Outcome {
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !matches!(*word, "-u" | "--utc")).collect();
    let format = match words.as_slice() {
        [] => "%a %b %e %H:%M:%S UTC %Y",
        [word] => match word.strip_prefix('+') {
            Some(format) => format,
            None => return Outcome::fail(1, format!("date: invalid date '{word}'\n")),
        },
        [_, word, ..] => return Outcome::fail(1, format!("date: extra operand '{word}'\n")),
    };
    let now = jiff::Timestamp::from_second(environment.now).unwrap_or_default();
    match jiff::fmt::strtime::format(format, now) {
        Ok(text) => Outcome::text(format!("{text}\n")),
        Err(error) => Outcome::fail(1, format!("date: {error}\n")),
    }
}

fn sleep(arguments: &[String]) -> Outcome {
    let seconds = |text: &String| -> Option<Duration> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return None,
        };
        Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
    };
    match arguments.iter().map(seconds).collect::<Option<Vec<_>>>() {
        Some(all) if !all.is_empty() => {
            let sum = all.into_iter().fold(Duration::ZERO, |sum, one| sum.saturating_add(one));
            // `sleep infinity` and very long times.
            Outcome { then: vec![ShellStep::Sleep(sum.min(LONGEST_SLEEP))], ..Outcome::default() }
        }
        Some(_) => Outcome::fail(1, "sleep: missing operand\n".to_owned()),
        None => Outcome::fail(1, format!("sleep: invalid number '{}'\n", arguments.join(" "))),
    }
}

fn cat(environment: &Environment, arguments: &[String], input: &[u8]) -> Outcome {
    if arguments.is_empty() {
        return Outcome::text(input);
    }
    let (mut out, mut err, mut code) = (Buffer::new(&environment.bounds()), String::new(), 0);
    for argument in arguments {
        let fits = match environment.read(&environment.path(argument)) {
            _ if argument == "-" => out.push(input),
            Ok(content) => out.push(&content),
            Err(why) => {
                err.push_str(&format!("cat: can't open '{argument}': {why}\n"));
                code = 1;
                environment.runs()
            }
        };
        if !fits {
            break;
        }
    }
    Outcome { err, code, ..Outcome::reserved(out) }
}

fn list(environment: &Environment, arguments: &[String]) -> Outcome {
    let (flags, paths): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let flag = |letter: char| flags.iter().any(|flag| flag.contains(letter));
    let mut outcome = Outcome::default();
    let mut out = Buffer::new(&environment.bounds());
    let here = environment.workdir.clone();
    let paths = if paths.is_empty() { vec![&here] } else { paths };
    for given in paths.iter().take_while(|_| environment.runs()) {
        let path = environment.path(given);
        let Some(found) = environment.entry(&path) else {
            outcome.err.push_str(&format!("ls: {given}: No such file or directory\n"));
            outcome.code = 1;
            continue;
        };
        let inside = !flag('d') && environment.is_folder(&path);
        let names: Vec<String> = match (inside, found.content) {
            (true, Content::Folder | Content::Link(_)) => {
                let shown = |name: &String| flag('a') || flag('A') || !name.starts_with('.');
                environment.children(&environment.resolved(&path)).into_iter().filter(shown).collect()
            }
            (_, _) => vec![(*given).clone()],
        };
        if paths.len() > 1 && inside {
            out.push(format!("{given}:\n").as_bytes());
        }
        let folder = if inside { path.as_str() } else { environment.workdir.as_str() };
        for name in names {
            if !out.push(line(environment, folder, &name, flag('l')).as_bytes()) {
                break;
            }
        }
    }
    outcome.out = Output::Reserved(out);
    outcome
}

fn line(environment: &Environment, folder: &str, name: &str, long: bool) -> String {
    let Some(entry) = environment.entry(&environment.path_in(folder, name)).filter(|_| long) else {
        return format!("{name}\n");
    };
    let (kind, size, to) = match &entry.content {
        Content::Folder => ('d', 4096, String::new()),
        Content::File(bytes) => ('-', bytes.len(), String::new()),
        Content::Link(to) => ('l', to.len(), format!(" -> {to}")),
    };
    let bits = (0..9).rev().map(|bit| match (entry.mode >> bit & 1, bit % 3) {
        (0, _) => '-',
        (_, 2) => 'r',
        (_, 1) => 'w',
        (_, _) => 'x',
    });
    let mode: String = bits.collect();
    format!("{kind}{mode}    1 root     root     {size:>9} {name}{to}\n")
}

fn test(environment: &Environment, arguments: &[String]) -> Outcome {
    let negations = arguments.iter().take_while(|word| *word == "!").count();
    let words: Vec<&str> = arguments[negations..].iter().map(String::as_str).collect();
    let holds = match words.as_slice() {
        ["-f", path] => environment.is_file(&environment.path(path)),
        ["-d", path] => environment.is_folder(&environment.path(path)),
        ["-e" | "-r" | "-w", path] => {
            environment.entry(&environment.resolved(&environment.path(path))).is_some()
        }
        ["-s", path] => environment.read(&environment.path(path)).is_ok_and(|bytes| !bytes.is_empty()),
        ["-x", path] => {
            let entry = environment.entry(&environment.resolved(&environment.path(path)));
            entry.is_some_and(|entry| entry.mode & 0o111 != 0)
        }
        ["-L" | "-h", path] => environment
            .entry(&environment.path(path))
            .is_some_and(|entry| matches!(entry.content, Content::Link(_))),
        ["-n", text] | [text] => !text.is_empty(),
        ["-z", text] => text.is_empty(),
        [one, "=" | "==", other] => one == other,
        [one, "!=", other] => one != other,
        [one, relation @ ("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"), other] => {
            let (Ok(one), Ok(other)) = (one.parse::<i64>(), other.parse::<i64>()) else {
                return Outcome::fail(2, format!("sh: {}: bad number\n", words.join(" ")));
            };
            match *relation {
                "-eq" => one == other,
                "-ne" => one != other,
                "-lt" => one < other,
                "-le" => one <= other,
                "-gt" => one > other,
                _ => one >= other,
            }
        }
        [] => false,
        _ => return Outcome::fail(2, format!("sh: {}: unknown operand\n", words.join(" "))),
    };
    Outcome::code(u8::from(holds == (negations % 2 == 1)))
}

/// The absolute form of `path`, seen from `workdir`, without `.` and `..`. Links are not followed.
pub(super) fn absolute(workdir: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{workdir}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
