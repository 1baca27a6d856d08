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

/// The peers that `nettest` needs without a flag.
const PEERS: usize = 8;

/// How a port of `porter` is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PorterTransport {
    Tcp,
    Tls,
    Udp,
}

/// The variables that name the ports of `porter`, up to the number.
const PORTER: [(&str, PorterTransport); 4] = [
    ("SERVE_PORT_", PorterTransport::Tcp),
    ("SERVE_TCP_PORT_", PorterTransport::Tcp),
    ("SERVE_TLS_PORT_", PorterTransport::Tls),
    ("SERVE_UDP_PORT_", PorterTransport::Udp),
];

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
    let text = |name: &str| value(rest, &[name]).unwrap_or_default().to_owned();
    let is_set = |name: &str, usual: bool| match value(rest, &[name]) {
        Some("" | "true") => true,
        Some("false") => false,
        Some(next) if next.starts_with('-') => true,
        Some(_) | None => usual,
    };
    let (ports, kind) = match arguments[at].as_str() {
        "netexec" => (vec![port(&["http-port"], 8080)?], Kind::Netexec(text("http-override"))),
        "serve-hostname" if is_set("tcp", false) => {
            (vec![port(&["port"], 9376)?], Kind::TcpHostname(is_set("close", false)))
        }
        "serve-hostname" if is_set("http", true) => (vec![port(&["port"], 9376)?], Kind::ServeHostname),
        "test-webserver" => (vec![port(&["port"], 80)?], Kind::TestWebserver),
        "liveness" => (vec![8080], Kind::Liveness),
        "guestbook" => (vec![port(&["http-port"], 80)?], Kind::Guestbook(port(&["backend-port"], 6379)?)),
        "nettest" => {
            let peers = value(rest, &["peers"]).and_then(|text| text.parse().ok()).unwrap_or(PEERS);
            (vec![port(&["port"], 8080)?], Kind::Nettest(peers))
        }
        "tcp-reset" => (vec![port(&["port"], 8080)?], Kind::Reset),
        "no-snat-test" => {
            let variable = |name: &str| {
                let named = variables.iter().rev().find(|(own, _)| own == name);
                named.map(|(_, text)| text.clone()).unwrap_or_default()
            };
            (vec![port(&["port"], 8080)?], Kind::Whoami(variable("POD_IP"), variable("NODE_IP")))
        }
        "fakegitserver" => (vec![8000], Kind::Fixed("I am a fake git server".to_owned())),
        "webhook" => (vec![port(&["port"], 443)?], Kind::Webhook(text("sidecar-image"))),
        "crd-conversion-webhook" => (vec![port(&["port"], 443)?], Kind::Conversion),
        "grpc-health-checking" => {
            let checks = port(&["port"], 5000)?;
            (vec![checks, port(&["http-port"], 8080)?], Kind::Health(Health::of(rest, checks)))
        }
        "porter" => {
            let bodies = porter(variables);
            let streams = bodies.iter().filter(|(_, transport, _)| *transport != PorterTransport::Udp);
            let ports = streams.map(|(port, ..)| *port).collect();
            (ports, Kind::Porter(bodies, is_set("json-response", false)))
        }
        _ => return None,
    };
    let tls = match kind {
        Kind::Netexec(_) | Kind::Webhook(_) | Kind::Conversion => certificate_files(rest),
        Kind::Porter(..) => Some(certificate_of_porter(variables)),
        _ => None,
    };
    let datagrams = match &kind {
        // A negative port is none.
        Kind::Netexec(_) => match value(rest, &["udp-port"]) {
            Some(text) => text.parse().ok().into_iter().collect(),
            None => vec![8081],
        },
        Kind::ServeHostname | Kind::TcpHostname(_) if is_set("udp", false) => ports.clone(),
        Kind::Porter(served, _) => datagrams_of(served).map(|(port, _)| port).collect(),
        _ => Vec::new(),
    };
    Some(Server { ports, datagrams, kind, tls })
}

/// The ports of `porter`, by the variables that name them.
fn porter(variables: &[(String, String)]) -> Vec<(u16, PorterTransport, String)> {
    let served = variables.iter().filter_map(|(name, body)| {
        let (port, transport) = PORTER.iter().find_map(|(prefix, transport)| {
            Some((name.strip_prefix(prefix)?.parse::<u16>().ok()?, *transport))
        })?;
        Some((port, transport, body.clone()))
    });
    served.collect()
}

/// The ports of `porter` for datagrams, with their answers.
fn datagrams_of(served: &[(u16, PorterTransport, String)]) -> impl Iterator<Item = (u16, &str)> {
    let udp = served.iter().filter(|(_, transport, _)| *transport == PorterTransport::Udp);
    udp.map(|(port, _, body)| (*port, body.as_str()))
}

/// The answer of `porter` to a datagram.
pub(super) fn porter_datagram(
    served: &[(u16, PorterTransport, String)],
    peer: &ServerPeer,
) -> Option<Vec<u8>> {
    let found = datagrams_of(served).find(|(port, _)| *port == peer.local.port());
    found.map(|(_, body)| body.as_bytes().to_vec())
}

/// `/checknosnat` of `no-snat-test`: asks the others of its kind from which address it has asked them.
fn check(env: &Env, request: &HttpRequest) -> ServerAction {
    let addresses = request.value("ips").unwrap_or_default();
    let all: Vec<&str> = addresses.split(',').collect();
    if all.len() > DIAL_TRIES || addresses.len() > DIAL_REQUEST_BYTES {
        return ServerAction::Answer(error(400, "too many addresses"));
    }
    let call = |address: &str| {
        let (name, port) = address.rsplit_once(':').unwrap_or((address, "80"));
        let text = format!(
            "GET /whoami HTTP/1.1\r\nHost: {address}\r\nUser-Agent: Go-http-client/1.1\r\nConnection: close\r\n\r\n"
        );
        let end = NetworkEnd::Connect(host(env, name), port.parse().unwrap_or(80));
        call_of_dial(end, text.into_bytes())
    };
    if all.iter().any(|address| address.is_empty() || address.contains(char::is_whitespace)) {
        return ServerAction::Answer(error(500, &format!("invalid address in {addresses:?}")));
    }
    ServerAction::Dial(all.into_iter().map(call).collect())
}

/// The answer of `/checknosnat`: whether all have seen the address of the pod.
pub(super) fn checked(
    calls: &[NetworkCall],
    replies: &[NetworkReply],
    (pod, node): (&str, &str),
) -> HttpResponse {
    let problem = |(call, reply): (&NetworkCall, &NetworkReply)| {
        let NetworkEnd::Connect(name, port) = &call.end else { return None };
        let received = match &reply.result {
            Ok(received) => received,
            Err(why) => return Some(format!("Get \"http://{name}:{port}/whoami\": {}", why.text())),
        };
        let response = ReceivedResponse::parse(&received.bytes, "GET");
        let body = response.map(|response| String::from_utf8_lossy(&response.body).into_owned());
        let body = body.unwrap_or_default();
        match body.split(':').next().unwrap_or_default() {
            seen if seen == pod => None,
            seen if seen == node => {
                Some(format!("Returned ip {seen:?} != my Pod ip {pod:?}, == my Node ip {node:?} - SNAT"))
            }
            seen => Some(format!(
                "Returned ip {seen:?} != my Pod ip {pod:?} or my Node ip {node:?} - SNAT to unexpected ip (possible SNAT through \
                 unexpected interface on the way into another node)"
            )),
        }
    };
    let problems: Vec<String> = calls.iter().zip(replies).filter_map(problem).collect();
    HttpResponse::sniffed(if problems.is_empty() { 200 } else { 500 }, &problems.join(", "))
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
        Kind::Netexec(answered) if answered.is_empty() => {
            (netexec(env, request, peer), Some(logged(env, &format!("GET {}", request.target))))
        }
        Kind::Netexec(answered) => {
            let target = answered.clone();
            let asked = HttpRequest { method: "GET".to_owned(), target, ..HttpRequest::default() };
            (netexec(env, &asked, peer), Some(logged(env, &format!("GET {answered}"))))
        }
        Kind::ServeHostname => {
            (plain(env.hostname.clone()), Some(logged(env, &format!("HTTP request from {}", peer.remote))))
        }
        Kind::TestWebserver => (ServerAction::Answer(serve(env, &path)), None),
        Kind::Liveness => (liveness(request, peer), None),
        Kind::Guestbook(primary) => (guestbook::respond(env, request, *primary), None),
        Kind::Nettest(peers) => (nettest::respond(env, request, *peers), None),
        Kind::Porter(bodies, is_json) => {
            let is_meant = |(port, transport, _): &&(u16, PorterTransport, String)| {
                *port == peer.local.port() && *transport != PorterTransport::Udp
            };
            let body = bodies.iter().find(is_meant).map(|(.., body)| body.as_str()).unwrap_or_default();
            let response = match is_json {
                true => {
                    let text = format!("{{\"Method\":{},\"Body\":{}}}", json(&request.method), json(body));
                    HttpResponse::new(200, "application/json", text.into_bytes())
                }
                false => HttpResponse::sniffed(200, body),
            };
            (ServerAction::Answer(response), None)
        }
        Kind::Whoami(..) => match path.as_str() {
            "/whoami" => (plain(peer.remote.to_string()), None),
            "/checknosnat" => (check(env, request), None),
            _ => (ServerAction::Answer(error(404, "404 page not found")), None),
        },
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
