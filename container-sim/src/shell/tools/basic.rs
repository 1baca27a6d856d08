//! Small programs: the environment, the container, dates and waits, `cat`-like output and `ls`.

use super::stat::{mode_text, size_of_entry};
use super::users::name_of;
use super::{Effect, Outcome, Output, Tool, conditions, plain, printf};
use crate::limits::LONGEST_SLEEP;
use crate::shell::disk::Content;
use crate::shell::env::Env;
use crate::shell::escape::{Escapes, replaced};
use crate::shell::memory::Buffer;
use std::time::Duration;

pub(super) const TOOLS: &[Tool] = &[
    plain("true", |_| Outcome::default()),
    plain("false", |_| Outcome::code(1)),
    plain("echo", |call| Outcome::text(echo(call.arguments()))),
    plain("printenv", |call| variables(call.env, call.arguments())),
    plain("hostname", |call| Outcome::text(format!("{}\n", call.env.hostname))),
    plain("pwd", |call| Outcome::text(format!("{}\n", call.env.workdir))),
    plain("arch", |_| Outcome::text("x86_64\n")),
    plain("nproc", |_| Outcome::text("1\n")),
    plain("uname", |call| system(call.env, call.arguments())),
    plain("date", |call| date(call.env, call.arguments())),
    plain("uptime", |call| uptime(call.env)),
    plain("sleep", |call| sleep(call.arguments())),
    plain("tty", |_| Outcome::fail(1, "not a tty\n".to_owned())),
    plain("stty", |call| match call.env.terminal {
        Some((rows, columns)) => Outcome::text(format!("{rows} {columns}\n")),
        None => Outcome::fail(1, "stty: standard input: the size of the terminal is not known\n".to_owned()),
    }),
    plain("clear", |_| Outcome::default()),
    plain("reset", |_| Outcome::default()),
    plain("ls", |call| list(call.env, call.arguments())),
    plain("test", conditions::run),
    plain("[", conditions::run),
    plain("printf", |call| printf::run(call.env, &call.argv[0], call.arguments())),
    plain("kill", |_| Outcome::fail(1, "kill: No such process\n".to_owned())),
    plain("which", |call| which(call.arguments())),
];

/// `which`: the path of each program.
fn which(names: &[String]) -> Outcome {
    let known = |name: &&String| super::find(name).is_some() || crate::shell::is_shell(name);
    let found: Vec<&String> = names.iter().filter(known).collect();
    let code = u8::from(found.len() < names.len());
    Outcome { code, ..Outcome::text(found.iter().map(|name| format!("/bin/{name}\n")).collect::<String>()) }
}

/// `uname`.
fn system(env: &Env, arguments: &[String]) -> Outcome {
    let release = "6.1.0";
    let parts = [
        ('s', "Linux"),
        ('n', env.hostname.as_str()),
        ('r', release),
        ('v', "#1 SMP"),
        ('m', "x86_64"),
        ('o', "GNU/Linux"),
    ];
    let all = super::flag(arguments, 'a');
    let any = all || !arguments.is_empty();
    let chosen =
        parts.iter().filter(|(letter, _)| all || super::flag(arguments, *letter) || (!any && *letter == 's'));
    Outcome::text(format!("{}\n", chosen.map(|(_, text)| *text).collect::<Vec<_>>().join(" ")))
}

/// The output of `echo`.
pub(in crate::shell) fn echo(arguments: &[String]) -> Vec<u8> {
    let is_flags = |word: &&String| {
        word.len() > 1 && word.starts_with('-') && word[1..].chars().all(|c| matches!(c, 'n' | 'e' | 'E'))
    };
    let flags: Vec<&String> = arguments.iter().take_while(is_flags).collect();
    let newline = !flags.iter().any(|flags| flags.contains('n'));
    let escapes = flags.iter().flat_map(|flags| flags.chars()).rfind(|c| matches!(c, 'e' | 'E')) == Some('e');
    let text = arguments[flags.len()..].join(" ");
    let (mut out, ended) = if escapes { replaced(&text, Escapes::Echo) } else { (text.into_bytes(), false) };
    if newline && !ended {
        out.push(b'\n');
    }
    out
}

/// The environment, or the values of some of its variables.
pub(super) fn variables(env: &Env, names: &[String]) -> Outcome {
    if names.is_empty() {
        let all = env.variables.environment();
        return Outcome::text(
            all.iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>(),
        );
    }
    let value = |name: &String| {
        env.variables.get(name).filter(|variable| variable.exported).and_then(|_| env.variables.text(name))
    };
    let (mut out, mut code) = (Buffer::new(&env.bounds()), 0);
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
fn uptime(env: &Env) -> Outcome {
    let now = jiff::Timestamp::from_second(env.now).unwrap_or_default();
    let clock = now.strftime("%H:%M:%S");
    Outcome::text(format!(" {clock} up 1 min,  0 users,  load average: 0.00, 0.00, 0.00\n"))
}

/// `date [-u] [+FORMAT]`.
fn date(env: &Env, arguments: &[String]) -> Outcome {
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
    let now = jiff::Timestamp::from_second(env.now).unwrap_or_default();
    match jiff::fmt::strtime::format(format, now) {
        Ok(text) => Outcome::text(format!("{text}\n")),
        Err(error) => Outcome::fail(1, format!("date: {error}\n")),
    }
}

/// `sleep`: the sum of its times.
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
            Outcome { then: vec![Effect::Sleep(sum.min(LONGEST_SLEEP))], ..Outcome::default() }
        }
        Some(_) => Outcome::fail(1, "sleep: missing operand\n".to_owned()),
        None => Outcome::fail(1, format!("sleep: invalid number '{}'\n", arguments.join(" "))),
    }
}

fn list(env: &Env, arguments: &[String]) -> Outcome {
    let (flags, paths): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let flag = |letter: char| flags.iter().any(|flag| flag.contains(letter));
    let mut outcome = Outcome::default();
    let mut out = Buffer::new(&env.bounds());
    let here = env.workdir.clone();
    let paths = if paths.is_empty() { vec![&here] } else { paths };
    for given in paths.iter().take_while(|_| env.runs()) {
        let path = env.path(given);
        let Some(found) = env.entry(&path) else {
            outcome.err.push_str(&format!("ls: {given}: No such file or directory\n"));
            outcome.code = 1;
            continue;
        };
        let inside = !flag('d') && env.is_folder(&path);
        let names: Vec<String> = match (inside, found.content) {
            (true, Content::Folder | Content::Link(_)) => {
                let shown = |name: &String| flag('a') || flag('A') || !name.starts_with('.');
                let own = [".", ".."].into_iter().filter(|_| flag('a')).map(str::to_owned);
                own.chain(env.children(&env.resolved(&path)).into_iter().filter(shown)).collect()
            }
            (_, _) => vec![(*given).clone()],
        };
        if paths.len() > 1 && inside {
            out.push(format!("{given}:\n").as_bytes());
        }
        let folder = if inside { path.as_str() } else { env.workdir.as_str() };
        if inside && flag('l') {
            let entries = names.iter().filter_map(|name| env.entry(&env.path_in(folder, name)));
            let kilobytes: usize =
                entries.map(|entry| size_of_entry(&entry.content).div_ceil(BLOCK) * BLOCK / 1024).sum();
            out.push(format!("total {kilobytes}\n").as_bytes());
        }
        for name in names {
            if !out.push(line(env, folder, &name, flag('l')).as_bytes()) {
                break;
            }
        }
    }
    outcome.out = Output::Reserved(out);
    outcome
}

/// Bytes of a block of a disk.
const BLOCK: usize = 4096;
/// Seconds since the change of a file for which `ls` shows the time and not the year.
const HALF_A_YEAR: i64 = 60 * 60 * 24 * 365 / 2;

fn line(env: &Env, folder: &str, name: &str, long: bool) -> String {
    let Some(entry) = env.entry(&env.path_in(folder, name)).filter(|_| long) else {
        return format!("{name}\n");
    };
    let to = match &entry.content {
        Content::Link(to) => format!(" -> {to}"),
        Content::Folder | Content::File(_) => String::new(),
    };
    let (mode, size) = (mode_text(&entry), size_of_entry(&entry.content));
    let user = name_of(env, entry.user, "/etc/passwd").unwrap_or_else(|| entry.user.to_string());
    let group = name_of(env, entry.group, "/etc/group").unwrap_or_else(|| entry.group.to_string());
    let time = jiff::Timestamp::from_second(entry.modified).unwrap_or_default();
    let is_recent = (0..=HALF_A_YEAR).contains(&(env.now - entry.modified));
    let time = time.strftime(if is_recent { "%b %e %H:%M" } else { "%b %e  %Y" });
    format!("{mode}    1 {user:<8} {group:<8} {size:>9} {time} {name}{to}\n")
}
