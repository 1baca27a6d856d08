//! The subcommands of `agnhost` that are servers, as processes: what they print, and how they end. What they answer is in
//! `shell::server`. And `connect`, its client.

use super::value;
use crate::limits::DATAGRAM_BYTES;
use crate::shell::env::Env;
use crate::shell::network::{
    NetworkCall, NetworkEnd, NetworkFailure, NetworkReply, Received, ReceivedEnd, host,
};
use crate::shell::server::{certificate_files, logged};
use crate::shell::tools::{Effect, Networked, Outcome, ToolCall};
use std::time::Duration;

/// The subcommands that are servers.
pub(super) const NAMES: [&str; 13] = [
    "crd-conversion-webhook",
    "fakegitserver",
    "grpc-health-checking",
    "guestbook",
    "liveness",
    "netexec",
    "nettest",
    "no-snat-test",
    "porter",
    "serve-hostname",
    "tcp-reset",
    "test-webserver",
    "webhook",
];

/// How long `serve-hostname` waits after SIGTERM.
const LINGERS: Duration = Duration::from_secs(60);

/// Why a server is not simulated with these arguments.
pub(super) fn check(name: &str, arguments: &[String]) -> Result<(), String> {
    let refused: &[&str] = match name {
        "netexec" => &["http-override"],
        "grpc-health-checking" => &["tls-cert-file", "tls-private-key-file"],
        _ => &[],
    };
    match refused.iter().find(|flag| value(arguments, &[flag]).is_some_and(|text| text != "false")) {
        Some(flag) => Err(format!("{name} with --{flag} is not simulated")),
        None => Ok(()),
    }
}

pub(super) fn run(env: &Env, name: &str, arguments: &[String]) -> Outcome {
    let logged = |text: &str| logged(env, text);
    let files = certificate_files(arguments);
    // A program of Go's ends with this code when it logs a fatal error.
    let missing = files.iter().flat_map(|(chain, key)| [chain, key]).find_map(|path| {
        let why = env.read(&env.path(path)).err()?.to_string().to_lowercase();
        Some(Outcome::fail(255, logged(&format!("open {path}: {why}"))))
    });
    if let Some(missing) = missing {
        return missing;
    }
    let port = |name: &str, usual: &'static str| value(arguments, &[name]).unwrap_or(usual).to_owned();
    let scheme = if files.is_some() { "HTTPS" } else { "HTTP" };
    let err = match name {
        "netexec" => logged(&format!("Started {scheme} server on port {}", port("http-port", "8080"))),
        "serve-hostname" => logged(&format!("Serving on port {}.", port("port", "9376"))),
        _ => String::new(),
    };
    let end = match name {
        "netexec" => {
            let delay = value(arguments, &["delay-shutdown"]).and_then(|text| text.parse().ok()).unwrap_or(0);
            vec![Effect::Sleep(Duration::from_secs(delay)), Effect::Code(0)]
        }
        "serve-hostname" => vec![
            Effect::Error(logged("Shutting down after receiving signal: terminated.").into_bytes()),
            Effect::Error(logged("Awaiting pod deletion.").into_bytes()),
            Effect::Sleep(LINGERS),
            Effect::Code(0),
        ],
        // A program of Go's that handles no signals, and is the first of its container.
        _ => vec![Effect::Code(2)],
    };
    Outcome { err, then: vec![Effect::AwaitSignal(vec![(15, end)])], ..Outcome::default() }
}

/// `connect`: whether something listens.
#[derive(Debug)]
struct Connect;

pub(super) fn connect(call: &ToolCall<'_>, arguments: &[String]) -> Outcome {
    let target = arguments.iter().find(|word| !word.starts_with('-') && word.contains(':'));
    let target = target.and_then(|text| text.rsplit_once(':'));
    let Some((name, port)) = target.and_then(|(name, port)| Some((name, port.parse::<u16>().ok()?))) else {
        return Outcome::fail(1, "OTHER: missing or invalid address\n".to_owned());
    };
    let limit =
        value(arguments, &["timeout"]).and_then(|text| kstore_go_duration::parse_non_negative(text).ok());
    let limit = limit.filter(|limit| !limit.is_zero());
    let (host, data) = (host(call.env, name), value(arguments, &["udp-data"]).unwrap_or("hello"));
    let wish = match value(arguments, &["protocol"]).unwrap_or("tcp") {
        "tcp" => NetworkCall {
            end: NetworkEnd::Connect(host, port),
            send: Vec::new(),
            connect_within: limit,
            idle: None,
            within: None,
            most: 0,
            tls: None,
        },
        "udp" => NetworkCall {
            end: NetworkEnd::Datagram(host, port),
            send: data.as_bytes().to_vec(),
            connect_within: None,
            idle: None,
            within: limit,
            most: DATAGRAM_BYTES,
            tls: None,
        },
        _ => return Outcome::fail(1, "OTHER: this protocol is not simulated\n".to_owned()),
    };
    Outcome { then: vec![Effect::Network(Box::new(wish), Box::new(Connect))], ..Outcome::default() }
}

impl Networked for Connect {
    fn reply(self: Box<Self>, _env: &Env, reply: NetworkReply) -> Vec<Effect> {
        let text = match reply.result {
            Ok(Received { end: ReceivedEnd::TimedOut, .. }) => "TIMEOUT\n".to_owned(),
            Ok(_) => return Vec::new(),
            Err(NetworkFailure::Refused(_)) => "REFUSED\n".to_owned(),
            Err(NetworkFailure::TimedOut(_)) => "TIMEOUT\n".to_owned(),
            Err(NetworkFailure::UnknownName) => "DNS: no such host\n".to_owned(),
            Err(why) => format!("OTHER: {}\n", why.text()),
        };
        vec![Effect::Error(text.into_bytes()), Effect::Code(1)]
    }
}
