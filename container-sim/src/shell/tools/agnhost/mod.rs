//! `agnhost`, the image of Kubernetes' own tests: its subcommands.

mod discovery;
mod logs;
mod mounttest;
mod servers;

use super::{Effect, Outcome, Runner, Steps, Tool, ToolCall, never};
use crate::shell::env::Env;

pub(super) const TOOLS: &[Tool] =
    &[Tool { name: "agnhost", reads: never, run: Runner::Whole(agnhost), check }];

/// A subcommand: its name, and what it does with the arguments behind it.
type Subcommand = (&'static str, fn(&ToolCall<'_>, &[String]) -> Outcome);

const SUBCOMMANDS: [Subcommand; 9] = [
    ("connect", servers::connect),
    ("pause", |call, _| pause(call.env)),
    ("entrypoint-tester", |call, _| Outcome::text(format!("[{}]\n", call.argv.join(" ")))),
    ("mounttest", mounttest::run),
    ("logs-generator", logs::run),
    ("dns-suffix", |call, _| Outcome::text(resolver(call.env, "search"))),
    ("dns-server-list", |call, _| Outcome::text(resolver(call.env, "nameserver"))),
    ("test-service-account-issuer-discovery", discovery::run),
    ("etc-hosts", |call, _| Outcome::text(call.env.read("/etc/hosts").unwrap_or_default().to_vec())),
];

/// The subcommands of the real program that are not simulated.
const OTHERS: [&str; 16] = [
    "audit-proxy",
    "external-metrics",
    "fake-registry-server",
    "inclusterclient",
    "mtlsclient",
    "mtlsserver",
    "net",
    "no-snat-test-proxy",
    "openidmetadata",
    "podcertificatesigner",
    "port-forward-tester",
    "resource-consumer-controller",
    "stress",
    "completion",
    "help",
    "version",
];

fn check(arguments: &[String]) -> Result<(), String> {
    match arguments.iter().find(|word| !word.starts_with('-')) {
        Some(name) if servers::NAMES.contains(&name.as_str()) => servers::check(name, arguments),
        Some(name) if OTHERS.contains(&name.as_str()) => {
            Err(format!("its subcommand {name} is not simulated"))
        }
        Some(_) | None => Ok(()),
    }
}

fn agnhost(call: &ToolCall<'_>) -> Outcome {
    let arguments = call.arguments();
    let Some(at) = arguments.iter().position(|word| !word.starts_with('-')) else { return pause(call.env) };
    let name = arguments[at].as_str();
    match SUBCOMMANDS.iter().find(|(own, _)| *own == name) {
        Some((_, subcommand)) => subcommand(call, &arguments[at + 1..]),
        None if servers::NAMES.contains(&name) => servers::run(call.env, name, &arguments[at + 1..]),
        None if OTHERS.contains(&name) => {
            Outcome::fail(1, format!("agnhost: the subcommand {name} is not simulated\n"))
        }
        None => {
            let text = "unknown command";
            Outcome::fail(1, format!("Error: {text} \"{name}\" for \"app\"\nRun 'app --help' for usage.\n"))
        }
    }
}

/// Waits for a signal, and says at its end which one it was.
fn pause(env: &Env) -> Outcome {
    let path = env.variables.text("TERMINATION_MESSAGE_PATH").unwrap_or("/dev/termination-log").to_owned();
    let end = |signal: u8, name: &str, code: u8| {
        let text = format!("exiting because of signal \"{name}\"\n").into_bytes();
        (signal, vec![Effect::Write(path.clone(), text.clone()), Effect::Print(text), Effect::Code(code)])
    };
    let handlers = vec![end(15, "terminated", 2), end(2, "interrupt", 1)];
    Outcome { then: vec![Effect::AwaitSignal(handlers)], ..Outcome::text("Paused\nSignals registered\n") }
}

/// The values of the lines of `/etc/resolv.conf` that begin with a keyword, as the last such line has them for `search`.
fn resolver(env: &Env, keyword: &str) -> String {
    let bytes = env.read("/etc/resolv.conf").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().filter_map(|line| line.strip_prefix(keyword)?.strip_prefix([' ', '\t']));
    let all: Vec<Vec<&str>> = lines.map(|rest| rest.split_whitespace().collect()).collect();
    let values = match (keyword, all.last()) {
        ("search", Some(last)) => last.join(","),
        _ => all.concat().join(","),
    };
    format!("{values}\n")
}

/// The value of a flag of Go's: `--name value`, `--name=value`, or with one dash.
pub(in crate::shell) fn value<'a>(arguments: &'a [String], names: &[&str]) -> Option<&'a str> {
    let of = |(at, word): (usize, &'a String)| {
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
        match name.split_once('=') {
            Some((name, value)) => names.contains(&name).then_some(value),
            None => names.contains(&name).then(|| arguments.get(at + 1).map_or("", String::as_str)),
        }
    };
    arguments.iter().enumerate().filter_map(of).next_back()
}
