//! `nc`: sends its input over a connection and prints what comes back.

use super::{Effect, Networked, Outcome, Parsed, Runner, Tool, ToolCall};
use crate::limits::{DATAGRAM_BYTES, RECEIVED_BYTES};
use crate::shell::env::Env;
use crate::shell::network::{NetworkCall, NetworkEnd, NetworkReply, host};
use std::time::Duration;

pub(super) const TOOLS: &[Tool] = &[
    Tool { name: "nc", reads, run: Runner::Whole(run), check },
    Tool { name: "netcat", reads, run: Runner::Whole(run), check },
];

const FLAGS: &str = "uvztnNlk46w:p:q:i:s:";

fn check(arguments: &[String]) -> Result<(), String> {
    let parsed = super::parse(arguments, FLAGS, &[])?;
    match (parsed.has('k'), parsed.has('l') && parsed.has('u')) {
        (true, _) => Err("listening for several connections is not simulated".to_owned()),
        (false, true) => Err("listening for datagrams is not simulated".to_owned()),
        (false, false) => Ok(()),
    }
}

fn reads(arguments: &[String]) -> bool {
    !super::parse(arguments, FLAGS, &[]).is_ok_and(|parsed| parsed.has('z'))
}

/// A connection that is under way.
#[derive(Debug)]
struct Connection {
    host: String,
    port: u16,
    is_verbose: bool,
    is_datagram: bool,
    scans: bool,
    /// Whether messages are those of OpenBSD's program, which `agnhost` has, and not busybox'.
    is_openbsd: bool,
}

fn run(call: &ToolCall<'_>) -> Outcome {
    let name = &call.argv[0];
    let parsed = match super::parse(call.arguments(), FLAGS, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("{name}: {why}\n")),
    };
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u16>().ok());
    let seconds = |flag| parsed.value(flag).and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let (end, host) = match end(call.env, &parsed, number) {
        Some(end) => end,
        None => {
            return Outcome::fail(
                1,
                format!("{name}: usage: nc [-lvz] [-w SECONDS] [-p PORT] [HOST] [PORT]\n"),
            );
        }
    };
    let port = match &end {
        NetworkEnd::Connect(_, port) | NetworkEnd::Datagram(_, port) | NetworkEnd::Accept(port) => *port,
        NetworkEnd::Lookup(_) => 0,
    };
    let scans = parsed.has('z');
    let most = if parsed.has('u') { DATAGRAM_BYTES } else { usize::MAX };
    let wait = seconds('w');
    let connection = Connection {
        host,
        port,
        is_verbose: parsed.has('v'),
        is_datagram: parsed.has('u'),
        scans,
        is_openbsd: call.env.programs.values().any(|program| program == "agnhost"),
    };
    let wish = NetworkCall {
        end,
        send: call.input[..call.input.len().min(most)].to_vec(),
        connect_within: wait,
        idle: wait,
        within: None,
        most: if scans { 0 } else { RECEIVED_BYTES },
        tls: None,
    };
    Outcome { then: vec![Effect::Network(Box::new(wish), Box::new(connection))], ..Outcome::default() }
}

/// The other end that the arguments name, and its name.
fn end(
    env: &Env,
    parsed: &Parsed,
    number: impl Fn(Option<&str>) -> Option<u16>,
) -> Option<(NetworkEnd, String)> {
    let operands: Vec<&str> = parsed.operands.iter().map(String::as_str).collect();
    if parsed.has('l') {
        let port = number(parsed.value('p')).or_else(|| number(operands.last().copied()))?;
        return Some((NetworkEnd::Accept(port), String::new()));
    }
    let [name, port] = operands[..] else { return None };
    let (target, port) = (host(env, name), number(Some(port))?);
    let end = match parsed.has('u') {
        true => NetworkEnd::Datagram(target, port),
        false => NetworkEnd::Connect(target, port),
    };
    Some((end, name.to_owned()))
}

impl Networked for Connection {
    fn reply(self: Box<Self>, _env: &Env, reply: NetworkReply) -> Vec<Effect> {
        let Self { host, port, is_verbose, is_openbsd, is_datagram, .. } = *self;
        let protocol = if is_datagram { "udp" } else { "tcp" };
        let error = |text: String| Effect::Error(text.into_bytes());
        match reply.result {
            Ok(received) => {
                let said = match is_openbsd {
                    true => format!("Connection to {host} {port} port [{protocol}/*] succeeded!\n"),
                    false => format!("{host} ({}) open\n", received.peer),
                };
                let mut all = Vec::new();
                if is_verbose && !host.is_empty() {
                    all.push(error(said));
                }
                all.push(Effect::Print(received.bytes));
                all
            }
            Err(why) => {
                let address = why.address().map_or_else(|| host.clone(), |ip| ip.to_string());
                let text = match (is_openbsd, why.address()) {
                    (_, None) if host.is_empty() => format!("nc: bind: {}\n", why.text()),
                    (true, Some(_)) if !is_verbose => String::new(),
                    (true, Some(_)) => {
                        format!("nc: connect to {host} port {port} ({protocol}) failed: {}\n", why.text())
                    }
                    (true, None) => {
                        format!("nc: getaddrinfo for host \"{host}\" port {port}: {}\n", why.text())
                    }
                    (false, None) => format!("nc: bad address '{host}'\n"),
                    (false, Some(_)) if self.scans && !is_verbose => String::new(),
                    (false, Some(_)) => {
                        format!("nc: can't connect to remote host ({address}): {}\n", why.text())
                    }
                };
                vec![error(text), Effect::Code(1)]
            }
        }
    }
}
