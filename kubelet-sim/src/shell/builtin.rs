//! The programs of a simulated container. What they know is in the [`World`]; none of them looks at the host.

use super::{Step, World};
use std::collections::BTreeSet;
use std::time::Duration;

/// Directories that every container has.
const DIRECTORIES: [&str; 14] = [
    "/bin", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root", "/run", "/sys", "/tmp", "/usr",
    "/usr/bin", "/var",
];

/// What a program did.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) out: Vec<u8>,
    pub(super) err: String,
    pub(super) code: u8,
    /// What takes time or input, after the output.
    pub(super) then: Vec<Step>,
}

impl Outcome {
    fn text(out: impl Into<Vec<u8>>) -> Self {
        Self { out: out.into(), ..Self::default() }
    }

    fn code(code: u8) -> Self {
        Self { code, ..Self::default() }
    }

    fn fail(code: u8, err: String) -> Self {
        Self { err, code, ..Self::default() }
    }
}

/// The name of a program without its folder.
pub(super) fn name(program: &str) -> &str {
    let folders = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/"];
    folders.iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program)
}

/// Runs a program; `None` if there is none of this name.
pub(super) fn run(world: &World, words: &[String]) -> Option<Outcome> {
    let arguments = &words[1..];
    let outcome = match name(&words[0]) {
        "true" => Outcome::default(),
        "false" => Outcome::code(1),
        "echo" => echo(arguments),
        "env" | "printenv" => environment(world, arguments),
        "hostname" => Outcome::text(format!("{}\n", world.hostname)),
        "pwd" => Outcome::text(format!("{}\n", world.workdir)),
        "whoami" => Outcome::text("root\n"),
        "id" => Outcome::text("uid=0(root) gid=0(root) groups=0(root)\n"),
        "uname" if arguments.first().is_some_and(|flag| flag == "-n") => {
            Outcome::text(format!("{}\n", world.hostname))
        }
        "uname" => Outcome::text("Linux\n"),
        "date" => Outcome::text(format!("{}\n", world.date)),
        "sleep" => sleep(arguments),
        "cat" => cat(world, arguments),
        "ls" => list(world, arguments),
        "test" => test(world, arguments),
        "[" => match arguments.split_last() {
            Some((last, rest)) if last == "]" => test(world, rest),
            _ => Outcome::fail(2, "sh: [: missing ]\n".to_owned()),
        },
        _ => return None,
    };
    Some(outcome)
}

fn echo(arguments: &[String]) -> Outcome {
    let (newline, words) = match arguments.split_first() {
        Some((flag, rest)) if flag == "-n" => ("", rest),
        Some((flag, rest)) if flag == "-e" => ("\n", rest),
        _ => ("\n", arguments),
    };
    Outcome::text(format!("{}{newline}", words.join(" ")))
}

fn environment(world: &World, names: &[String]) -> Outcome {
    if names.is_empty() {
        let lines: String = world.env.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        return Outcome::text(lines);
    }
    let value = |name: &String| world.env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value);
    let found: Vec<_> = names.iter().map(value).collect();
    let code = u8::from(found.iter().any(Option::is_none));
    let lines: String = found.into_iter().flatten().map(|value| format!("{value}\n")).collect();
    Outcome { code, ..Outcome::text(lines) }
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
    let longest = Duration::from_secs(10 * 365 * 86400);
    match arguments.iter().map(seconds).collect::<Option<Vec<_>>>() {
        Some(all) if !all.is_empty() => {
            let sum = all.into_iter().fold(Duration::ZERO, |sum, one| sum.saturating_add(one));
            // "infinity" in tokio's eyes is shorter than in a shell's.
            Outcome { then: vec![Step::Sleep(sum.min(longest))], ..Outcome::default() }
        }
        Some(_) => Outcome::fail(1, "sleep: missing operand\n".to_owned()),
        None => Outcome::fail(1, format!("sleep: invalid number '{}'\n", arguments.join(" "))),
    }
}

fn cat(world: &World, arguments: &[String]) -> Outcome {
    let mut outcome = Outcome::default();
    if arguments.is_empty() || arguments == ["-"] {
        outcome.then.push(Step::Copy);
        return outcome;
    }
    for argument in arguments {
        let path = absolute(&world.workdir, argument);
        let why = match world.files.get(&path) {
            Some(content) => {
                outcome.out.extend_from_slice(content);
                continue;
            }
            None if path == "/dev/null" => continue,
            None if is_directory(world, &path) => "Is a directory",
            None => "No such file or directory",
        };
        outcome.err.push_str(&format!("cat: can't open '{argument}': {why}\n"));
        outcome.code = 1;
    }
    outcome
}

fn list(world: &World, arguments: &[String]) -> Outcome {
    let (flags, paths): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let long = flags.iter().any(|flag| flag.contains('l'));
    let mut outcome = Outcome::default();
    let here = world.workdir.clone();
    let paths = if paths.is_empty() { vec![&here] } else { paths };
    for given in &paths {
        let path = absolute(&world.workdir, given);
        let names: Vec<String> = if world.files.contains_key(&path) {
            vec![(*given).clone()]
        } else if is_directory(world, &path) {
            children(world, &path).into_iter().collect()
        } else {
            outcome.err.push_str(&format!("ls: {given}: No such file or directory\n"));
            outcome.code = 1;
            continue;
        };
        if paths.len() > 1 {
            outcome.out.extend(format!("{given}:\n").into_bytes());
        }
        for name in names {
            outcome.out.extend(entry(world, &path, &name, long).into_bytes());
        }
    }
    outcome
}

fn entry(world: &World, folder: &str, name: &str, long: bool) -> String {
    if !long {
        return format!("{name}\n");
    }
    let path = absolute(folder, name);
    match world.files.get(&path).or_else(|| world.files.get(folder)) {
        Some(content) => format!("-rw-r--r--    1 root     root     {:>9} {name}\n", content.len()),
        None => format!("drwxr-xr-x    2 root     root          4096 {name}\n"),
    }
}

fn test(world: &World, arguments: &[String]) -> Outcome {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let holds = match words.as_slice() {
        ["!", rest @ ..] => {
            let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
            test(world, &rest).code == 1
        }
        ["-f", path] => world.files.contains_key(&absolute(&world.workdir, path)),
        ["-d", path] => is_directory(world, &absolute(&world.workdir, path)),
        ["-e", path] => {
            let path = absolute(&world.workdir, path);
            world.files.contains_key(&path) || is_directory(world, &path)
        }
        ["-n", text] | [text] => !text.is_empty(),
        ["-z", text] => text.is_empty(),
        [one, "=" | "==", other] => one == other,
        [one, "!=", other] => one != other,
        [] => false,
        _ => return Outcome::fail(2, format!("sh: {}: unknown operand\n", words.join(" "))),
    };
    Outcome::code(u8::from(!holds))
}

/// A path from the root, without `.` and `..`.
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

/// Whether there is such a folder.
pub(super) fn is_directory(world: &World, path: &str) -> bool {
    let inside = format!("{}/", path.trim_end_matches('/'));
    path == "/"
        || DIRECTORIES.contains(&path)
        || world.workdir == path
        || world.files.keys().any(|file| file.starts_with(&inside))
}

fn children(world: &World, path: &str) -> BTreeSet<String> {
    let inside = format!("{}/", path.trim_end_matches('/'));
    let all = world.files.keys().map(String::as_str).chain(DIRECTORIES);
    all.filter_map(|file| file.strip_prefix(&inside)?.split('/').next()).map(str::to_owned).collect()
}
