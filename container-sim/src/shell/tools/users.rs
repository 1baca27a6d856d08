//! The user of a command: `id`, `whoami`, `groups` and `logname`; and the processes of its container: `ps`.

use super::{Outcome, Tool, ToolCall, plain};
use crate::shell::env::Env;

pub(super) const TOOLS: &[Tool] = &[
    plain("id", identity),
    plain("whoami", |call| match name_of(call.env, call.env.user.user, "/etc/passwd") {
        Some(name) => Outcome::text(format!("{name}\n")),
        None => Outcome::fail(1, format!("whoami: unknown uid {}\n", call.env.user.user)),
    }),
    plain("groups", |call| {
        let names: Vec<String> = call.env.user.groups().map(|group| group_name(call.env, group)).collect();
        Outcome::text(format!("{}\n", names.join(" ")))
    }),
    Tool { check: check_processes, ..plain("ps", processes) },
    plain("logname", |call| match name_of(call.env, call.env.user.user, "/etc/passwd") {
        Some(name) => Outcome::text(format!("{name}\n")),
        None => Outcome::fail(1, "logname: getlogin: No such file or directory\n".to_owned()),
    }),
];

/// The words that change nothing about what `ps` shows here, or only its columns.
fn check_processes(arguments: &[String]) -> Result<(), String> {
    let is_known = |word: &String| {
        let letters = word.trim_start_matches('-');
        !letters.is_empty() && letters.chars().all(|c| "auxefwlTA".contains(c))
    };
    match arguments.iter().find(|word| !is_known(word)) {
        Some(word) => Err(format!("its argument {word} is not simulated")),
        None => Ok(()),
    }
}

/// The first process of the container, and the program itself; others are not listed.
fn processes(call: &ToolCall<'_>) -> Outcome {
    let env = call.env;
    let user = name_of(env, env.user.user, "/etc/passwd").unwrap_or_else(|| env.user.user.to_string());
    let own = call.argv.join(" ");
    let first = (!env.first_process.is_empty()).then_some((1, env.first_process.as_str()));
    let rows = first.into_iter().chain([(7, own.as_str())]);
    let rows: String =
        rows.map(|(number, command)| format!("{number:>5} {user:<8}  0:00 {command}\n")).collect();
    Outcome::text(format!("PID   USER     TIME  COMMAND\n{rows}"))
}

/// The names that every image has, for users and groups alike.
const NAMES: [(&str, u32); 2] = [("root", 0), ("nobody", 65534)];

/// The lines of a file such as `/etc/passwd`: the name, and the number in the third column.
fn listed(env: &Env, file: &str) -> Vec<(String, u32, Option<u32>)> {
    let bytes = env.read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let entry = |line: &str| {
        let mut columns = line.split(':');
        let name = columns.next()?.to_owned();
        let number = columns.nth(1)?.parse().ok()?;
        Some((name, number, columns.next().and_then(|group| group.parse().ok())))
    };
    text.lines().filter_map(entry).collect()
}

/// The name of a user (in `/etc/passwd`) or group (in `/etc/group`).
pub(super) fn name_of(env: &Env, number: u32, file: &str) -> Option<String> {
    let own = listed(env, file).into_iter().find(|(_, own, _)| *own == number).map(|(name, ..)| name);
    own.or_else(|| {
        let common = NAMES.iter().find(|(_, own)| *own == number);
        common.map(|(name, _)| if file == "/etc/group" && number != 0 { "nogroup" } else { name }.to_owned())
    })
}

/// The number of a user or group, given as a name or a number.
pub(super) fn number_of(env: &Env, text: &str, file: &str) -> Option<u32> {
    let own = listed(env, file).into_iter().find(|(name, ..)| name == text).map(|(_, number, _)| number);
    own.or_else(|| NAMES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number))
        .or_else(|| text.parse().ok())
}

fn group_name(env: &Env, group: u32) -> String {
    name_of(env, group, "/etc/group").unwrap_or_else(|| group.to_string())
}

fn identity(call: &ToolCall<'_>) -> Outcome {
    let env = call.env;
    let parsed = match super::parse(call.arguments(), "ugGnr", &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("id: {why}\n")),
    };
    let mut user = env.user.clone();
    if let Some(name) = parsed.operands.first() {
        let known = name_of(env, number_of(env, name, "/etc/passwd").unwrap_or(u32::MAX), "/etc/passwd");
        let (Some(number), Some(_)) = (number_of(env, name, "/etc/passwd"), known) else {
            return Outcome::fail(1, format!("id: unknown user {name}\n"));
        };
        let group = listed(env, "/etc/passwd").into_iter().find(|(_, own, _)| *own == number);
        user.user = number;
        user.group = group.and_then(|(_, _, group)| group).unwrap_or(number);
        user.more_groups.clear();
    }
    let named = |name: Option<String>, number: u32| match name.filter(|_| parsed.has('n')) {
        Some(name) => name,
        None => number.to_string(),
    };
    let user_name = name_of(env, user.user, "/etc/passwd");
    let one = match () {
        () if parsed.has('u') => named(user_name, user.user),
        () if parsed.has('g') => named(name_of(env, user.group, "/etc/group"), user.group),
        () if parsed.has('G') => {
            let all = user.groups().map(|group| named(name_of(env, group, "/etc/group"), group));
            all.collect::<Vec<_>>().join(" ")
        }
        () => {
            let shown = |number: u32, file: &str| match name_of(env, number, file) {
                Some(name) => format!("{number}({name})"),
                None => number.to_string(),
            };
            let groups: Vec<String> = user.groups().map(|group| shown(group, "/etc/group")).collect();
            let (number, group) = (shown(user.user, "/etc/passwd"), shown(user.group, "/etc/group"));
            format!("uid={number} gid={group} groups={}", groups.join(","))
        }
    };
    Outcome::text(format!("{one}\n"))
}
