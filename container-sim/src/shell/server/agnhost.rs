//! The servers of `agnhost`, the image of Kubernetes' own tests.

use super::files::{error, serve};
use super::{Kind, Server, ServerAction, ServerPeer, conversion, guestbook, logged, nettest, review, upload};
use crate::http::{HttpRequest, HttpResponse, ReceivedResponse};
use crate::limits::{DIAL_BYTES, DIAL_REQUEST_BYTES, DIAL_TRIES};
use crate::shell::env::Env;
use crate::shell::network::{NetworkCall, NetworkEnd, NetworkFailure, NetworkReply, ReceivedEnd, host};
use crate::shell::tools::flag_value as value;
use std::time::Duration;

/// How long `netexec` waits for an answer, and how long `liveness` is well.
const DIAL_TIME: Duration = Duration::from_secs(5);
const LIVENESS_TIME: Duration = Duration::from_secs(10);

/// `grpc-health-checking`: whether it is healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    /// The port of health checks; another one speaks HTTP.
    pub(super) port: u16,
    /// The service that it knows.
    pub(super) service: String,
    /// How long it is healthy; `None`: always.
    unhealthy_after: Option<Duration>,
}

impl Health {
    fn of(arguments: &[String], port: u16) -> Self {
        let seconds = value(arguments, &["delay-unhealthy-sec"]).and_then(|text| text.parse::<i64>().ok());
        let unhealthy_after =
            seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let service = value(arguments, &["service"]).unwrap_or_default().to_owned();
        Self { port, service, unhealthy_after }
    }

    pub(super) fn is_serving(&self, uptime: Duration) -> bool {
        self.unhealthy_after.is_none_or(|healthy| uptime <= healthy)
    }
}

/// The server that a subcommand is.
pub(super) fn server(arguments: &[String], variables: &[(String, String)]) -> Option<Server> {
    let at = arguments.iter().position(|word| !word.starts_with('-'))?;
    let rest = &arguments[at + 1..];
    let port = |names: &[&str], usual: u16| match value(rest, names) {
        Some(text) => text.parse().ok(),
        None => Some(usual),
    };
    let is_set = |name: &str, usual: bool| match value(rest, &[name]) {
        Some("" | "true") => true,
        Some("false") => false,
        Some(next) if next.starts_with('-') => true,
        Some(_) | None => usual,
    };
    let (ports, kind) = match arguments[at].as_str() {
        "netexec" => (vec![port(&["http-port"], 8080)?], Kind::Netexec),
        "serve-hostname" if is_set("tcp", false) => {
            (vec![port(&["port"], 9376)?], Kind::TcpHostname(is_set("close", false)))
        }
        "serve-hostname" if is_set("http", true) => (vec![port(&["port"], 9376)?], Kind::ServeHostname),
        "test-webserver" => (vec![port(&["port"], 80)?], Kind::TestWebserver),
        "liveness" => (vec![8080], Kind::Liveness),
        "guestbook" => (vec![port(&["http-port"], 80)?], Kind::Guestbook(port(&["backend-port"], 6379)?)),
        "nettest" => (vec![port(&["port"], 8080)?], Kind::Nettest),
        "tcp-reset" => (vec![port(&["port"], 8080)?], Kind::Reset),
        "no-snat-test" => (vec![port(&["port"], 8080)?], Kind::Whoami),
        "fakegitserver" => (vec![8000], Kind::Fixed("I am a fake git server".to_owned())),
        "webhook" => {
            let sidecar = value(rest, &["sidecar-image"]).unwrap_or_default().to_owned();
            (vec![port(&["port"], 443)?], Kind::Webhook(sidecar))
        }
        "crd-conversion-webhook" => (vec![port(&["port"], 443)?], Kind::Conversion),
        "grpc-health-checking" => {
            let checks = port(&["port"], 5000)?;
            (vec![checks, port(&["http-port"], 8080)?], Kind::Health(Health::of(rest, checks)))
        }
        "porter" => {
            let served = variables.iter().filter_map(|(name, body)| {
                let tls = name.strip_prefix("SERVE_TLS_PORT_");
                let port = tls.or_else(|| name.strip_prefix("SERVE_PORT_"))?;
                Some((port.parse::<u16>().ok()?, tls.is_some(), body.clone()))
            });
            let bodies: Vec<(u16, bool, String)> = served.collect();
            let ports = bodies.iter().map(|(port, ..)| *port).collect();
            (ports, Kind::Porter(bodies, is_set("json-response", false)))
        }
        _ => return None,
    };
    let tls = match kind {
        Kind::Netexec | Kind::Webhook(_) | Kind::Conversion => certificate_files(rest),
        Kind::Porter(..) => Some(certificate_of_porter(variables)),
        _ => None,
    };
    let datagrams = match kind {
        // A negative port is none.
        Kind::Netexec => match value(rest, &["udp-port"]) {
            Some(text) => text.parse().ok(),
            None => Some(8081),
        },
        Kind::ServeHostname | Kind::TcpHostname(_) if is_set("udp", false) => ports.first().copied(),
        _ => None,
    };
    Some(Server { ports, datagrams, kind, tls })
}

/// The files of a certificate and its key that the flags name.
pub(in crate::shell) fn certificate_files(arguments: &[String]) -> Option<(String, String)> {
    let file = |name: &str| value(arguments, &[name]).filter(|path| !path.is_empty()).map(str::to_owned);
    file("tls-cert-file").zip(file("tls-private-key-file"))
}

/// The files of the certificate and the key of `porter`: those of the image, unless variables name others.
fn certificate_of_porter(variables: &[(String, String)]) -> (String, String) {
    let file = |name: &str, usual: &str| {
        let named = variables.iter().find(|(own, _)| own == name).map(|(_, path)| path.clone());
        named.unwrap_or_else(|| usual.to_owned())
    };
    (file("CERT_FILE", "/localhost.crt"), file("KEY_FILE", "/localhost.key"))
}

/// The answer to a request.
pub(super) fn respond(
    kind: &Kind,
    env: &Env,
    request: &HttpRequest,
    peer: &ServerPeer,
) -> (ServerAction, Option<String>) {
    let plain = |text: String| ServerAction::Answer(HttpResponse::sniffed(200, &text));
    let (path, _) = request.path();
    match kind {
        Kind::Netexec => (netexec(env, request, peer), Some(logged(env, &format!("GET {}", request.target)))),
        Kind::ServeHostname => {
            (plain(env.hostname.clone()), Some(logged(env, &format!("HTTP request from {}", peer.remote))))
        }
        Kind::TestWebserver => (ServerAction::Answer(serve(env, &path)), None),
        Kind::Liveness => (liveness(request, peer), None),
        Kind::Guestbook(primary) => (guestbook::respond(env, request, *primary), None),
        Kind::Nettest => (nettest::respond(env, request), None),
        Kind::Porter(bodies, is_json) => {
            let body =
                bodies.iter().find(|(port, ..)| *port == peer.local.port()).map(|(.., body)| body.as_str());
            let body = body.unwrap_or_default();
            let response = match is_json {
                true => {
                    let text = format!("{{\"Method\":{},\"Body\":{}}}", json(&request.method), json(body));
                    HttpResponse::new(200, "application/json", text.into_bytes())
                }
                false => HttpResponse::sniffed(200, body),
            };
            (ServerAction::Answer(response), None)
        }
        Kind::Whoami if path != "/whoami" => (ServerAction::Answer(error(404, "404 page not found")), None),
        Kind::Whoami => (plain(peer.remote.ip().to_string()), None),
        Kind::Fixed(text) => (plain(text.clone()), None),
        Kind::Webhook(sidecar) => (review::respond(&path, request, sidecar), None),
        Kind::Conversion => (conversion::respond(&path, request), None),
        _ => (ServerAction::Answer(error(404, "404 page not found")), None),
    }
}

fn liveness(request: &HttpRequest, peer: &ServerPeer) -> ServerAction {
    let (path, _) = request.path();
    let nanoseconds = i64::try_from(peer.uptime.as_nanos()).unwrap_or(i64::MAX);
    let response = match path.as_str() {
        "/started" => HttpResponse::sniffed(200, &kstore_go_duration::format(nanoseconds)),
        "/healthz" if peer.uptime > LIVENESS_TIME => {
            HttpResponse::sniffed(500, &format!("error: {}", peer.uptime.as_secs_f64()))
        }
        "/healthz" => HttpResponse::sniffed(200, "ok"),
        "/redirect" => redirect(302, &request.value("loc").unwrap_or_default()),
        _ => error(404, "404 page not found"),
    };
    ServerAction::Answer(response)
}

/// A redirect as Go's server makes it.
fn redirect(code: u16, to: &str) -> HttpResponse {
    let to = to.replace(['\r', '\n'], "");
    let text = if code == 302 { "Found" } else { "Redirect" };
    let link = to.replace('&', "&amp;").replace('"', "&#34;").replace('<', "&lt;");
    HttpResponse::new(
        code,
        "text/html; charset=utf-8",
        format!("<a href=\"{link}\">{text}</a>.\n\n").into_bytes(),
    )
    .with("Location", &to)
}

/// A code of a query: three digits that a status may have.
fn code(text: Option<String>, usual: u16) -> u16 {
    text.and_then(|text| text.parse().ok()).filter(|code| (200..600).contains(code)).unwrap_or(usual)
}

fn netexec(env: &Env, request: &HttpRequest, peer: &ServerPeer) -> ServerAction {
    let (path, _) = request.path();
    let text = |text: String| HttpResponse::sniffed(200, &text);
    let response = match path.as_str() {
        "/echo" => {
            let (code, message) =
                (code(request.value("code"), 200), request.value("msg").unwrap_or_default());
            HttpResponse::sniffed(code, &message)
        }
        "/clientip" => text(peer.remote.to_string()),
        "/serverport" => text(peer.local.port().to_string()),
        "/hostname" | "/hostName" => text(env.hostname.clone()),
        "/header" => match request.value("key").filter(|key| !key.is_empty()) {
            Some(key) => text(request.header(&key).unwrap_or_default().to_owned()),
            None => {
                let all =
                    request.headers.iter().map(|(name, value)| format!("{}:[{}]", json(name), json(value)));
                text(format!("{{{}}}", all.collect::<Vec<_>>().join(",")))
            }
        },
        "/healthz" => text(String::new()),
        "/readyz" if peer.is_stopping => HttpResponse::empty(503),
        "/readyz" => text(String::new()),
        "/redirect" => {
            redirect(code(request.value("code"), 302), &request.value("location").unwrap_or_default())
        }
        "/dial" => return dial(env, request),
        "/exit" | "/shutdown" => {
            let code = request.value("code").and_then(|text| text.parse().ok()).unwrap_or(0);
            return ServerAction::Exit(text(String::new()), code);
        }
        "/shell" | "/shellCommand" => return command(request),
        "/upload" => upload::respond(env, request),
        _ => {
            let now = jiff::Timestamp::from_second(env.now).unwrap_or_default();
            text(format!("NOW: {}", now.strftime("%Y-%m-%d %H:%M:%S.000000000 +0000 UTC")))
        }
    };
    ServerAction::Answer(response)
}

/// `/shell`: runs a command in the container.
fn command(request: &HttpRequest) -> ServerAction {
    let text = ["cmd", "shellCommand"].iter().find_map(|name| request.value(name));
    ServerAction::Command(["/bin/sh", "-c", &text.unwrap_or_default()].map(str::to_owned).into())
}

/// The answer of `/shell`.
pub(super) fn ran(output: &[u8], code: u8) -> HttpResponse {
    let error = if code == 0 { String::new() } else { format!("\"error\":\"exit status {code}\",") };
    let output = json(&String::from_utf8_lossy(output));
    HttpResponse::sniffed(200, &format!("{{{error}\"output\":{output}}}"))
}

/// The answer of `netexec` to a datagram.
pub(super) fn netexec_datagram(datagram: &[u8], hostname: &str, peer: &ServerPeer) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(datagram);
    let text = text.trim();
    let (command, rest) = text.split_once(' ').unwrap_or((text, ""));
    let answer = match command.to_ascii_lowercase().as_str() {
        "hostname" => hostname.to_owned(),
        "echo" => rest.to_owned(),
        "clientip" => peer.remote.to_string(),
        "serverport" => peer.local.port().to_string(),
        _ => return None,
    };
    Some(answer.into_bytes())
}

/// `/dial`: asks another `netexec`, each time over a new connection.
fn dial(env: &Env, request: &HttpRequest) -> ServerAction {
    let refused = |text: String| ServerAction::Answer(error(400, &text));
    let name = request.value("host").unwrap_or_default();
    let Some(port) = request.value("port").and_then(|text| text.parse::<u16>().ok()) else {
        return refused("port parameter is invalid".to_owned());
    };
    let wanted = request.value("request").unwrap_or_default();
    let protocol =
        request.value("protocol").filter(|text| !text.is_empty()).unwrap_or_else(|| "http".to_owned());
    let tries = request.value("tries").map_or(Some(1), |text| text.parse::<usize>().ok());
    let Some(tries) = tries.filter(|tries| (1..=DIAL_TRIES).contains(tries)) else {
        return refused("tries parameter is invalid".to_owned());
    };
    if name.is_empty()
        || wanted.is_empty()
        || [&name, &wanted].iter().any(|text| text.contains(['\r', '\n', ' ']))
    {
        return refused("host and request parameters must be set".to_owned());
    }
    if name.len() + wanted.len() > DIAL_REQUEST_BYTES {
        return refused("host and request parameters are too long".to_owned());
    }
    if protocol == "udp" {
        let end = NetworkEnd::Datagram(host(env, &name), port);
        return ServerAction::Dial(vec![call_of_dial(end, wanted.into_bytes()); tries]);
    }
    if protocol != "http" {
        return refused(format!("unsupported protocol: {protocol}"));
    }
    let text = format!(
        "GET /{wanted} HTTP/1.1\r\nHost: {name}:{port}\r\nUser-Agent: Go-http-client/1.1\r\nConnection: close\r\n\r\n"
    );
    let end = NetworkEnd::Connect(host(env, &name), port);
    ServerAction::Dial(vec![call_of_dial(end, text.into_bytes()); tries])
}

/// A call of a server, with its time limit.
pub(super) fn call_of_dial(end: NetworkEnd, send: Vec<u8>) -> NetworkCall {
    let limit = Some(DIAL_TIME);
    NetworkCall { end, send, connect_within: limit, idle: None, within: limit, most: DIAL_BYTES, tls: None }
}

/// The answer of `/dial`.
pub(super) fn dialed(calls: &[NetworkCall], replies: &[NetworkReply]) -> HttpResponse {
    let (mut responses, mut errors) = (Vec::new(), Vec::new());
    for (call, reply) in calls.iter().zip(replies) {
        match &reply.result {
            Ok(received) if matches!(call.end, NetworkEnd::Datagram(..)) => match received.end {
                ReceivedEnd::Done => responses.push(json(&String::from_utf8_lossy(&received.bytes))),
                _ => errors.push(json("i/o timeout")),
            },
            Ok(received) => match ReceivedResponse::parse(&received.bytes, "GET") {
                Some(response) => responses.push(json(&String::from_utf8_lossy(&response.body))),
                None => errors.push(json("no response")),
            },
            Err(NetworkFailure::UnknownName) => errors.push(json("no such host")),
            Err(NetworkFailure::TimedOut(_)) => errors.push(json("i/o timeout")),
            Err(why) => errors.push(json(&format!("connect: {}", why.text().to_lowercase()))),
        }
    }
    let part =
        |name: &str, all: &[String]| (!all.is_empty()).then(|| format!("\"{name}\":[{}]", all.join(",")));
    let parts: Vec<String> =
        [part("errors", &errors), part("responses", &responses)].into_iter().flatten().collect();
    HttpResponse::sniffed(200, &format!("{{{}}}", parts.join(",")))
}

/// A text as JSON.
pub(super) fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
