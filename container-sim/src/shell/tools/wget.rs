//! `wget` of busybox.

use super::fetch::{Patience, Url, call, replace_headers};
use super::{Effect, Networked, Outcome, Tool, ToolCall, plain};
use crate::http::{HttpRequest, ReceivedResponse};
use crate::limits::REDIRECTS;
use crate::shell::env::Env;
use crate::shell::network::{NetworkFailure, NetworkReply, ReceivedEnd, TlsTrust, host};
use std::time::Duration;

pub(super) const TOOLS: &[Tool] = &[Tool { check, ..plain("wget", run) }];

const FLAGS: &str = "qcSsO:T:U:P:Y:t:o:b:h:d:f:";
const LONG: [(&str, char); 15] = [
    ("quiet", 'q'),
    ("continue", 'c'),
    ("server-response", 'S'),
    ("spider", 's'),
    ("output-document", 'O'),
    ("timeout", 'T'),
    ("user-agent", 'U'),
    ("directory-prefix", 'P'),
    ("proxy", 'Y'),
    ("tries", 't'),
    ("output-file", 'o'),
    ("header", 'h'),
    ("post-data", 'd'),
    ("post-file", 'f'),
    ("no-check-certificate", 'q'),
];

const NOTE: &[u8] = b"wget: note: TLS certificate validation not implemented\n";

fn check(arguments: &[String]) -> Result<(), String> {
    super::parse(arguments, FLAGS, &LONG).map(|_| ())
}

/// One download.
#[derive(Clone, Debug)]
struct Download {
    url: Url,
    request: HttpRequest,
    patience: Patience,
    is_quiet: bool,
    shows_head: bool,
    is_spider: bool,
    output: Option<String>,
    folder: Option<String>,
    redirects: usize,
    /// Whether it says that it does not check certificates.
    notes_trust: bool,
}

fn fail(text: &str) -> Vec<Effect> {
    vec![Effect::Error(format!("wget: {text}\n").into_bytes()), Effect::Code(1)]
}

fn run(call: &ToolCall<'_>) -> Outcome {
    // `--no-check-certificate` is the default here, and not quiet.
    let (unchecked, rest): (Vec<String>, Vec<String>) =
        call.arguments().iter().cloned().partition(|word| word == "--no-check-certificate");
    let parsed = match super::parse(&rest, FLAGS, &LONG) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("wget: {why}\n")),
    };
    let Some(address) = parsed.operands.first() else {
        return Outcome::fail(
            1,
            "BusyBox v1.37.0 multi-call binary.\n\nUsage: wget [OPTIONS] URL...\n".to_owned(),
        );
    };
    let Some(url) = Url::parse(address) else {
        return Outcome::fail(1, format!("wget: not an http or ftp url: {address}\n"));
    };
    let body = match (parsed.value('d'), parsed.value('f')) {
        (Some(text), _) => Some(text.as_bytes().to_vec()),
        (None, Some(file)) => match call.env.read(&call.env.path(file)) {
            Ok(bytes) => Some(bytes.to_vec()),
            Err(why) => return Outcome::fail(1, format!("wget: can't open '{file}': {why}\n")),
        },
        (None, None) => None,
    };
    let method = match (&body, parsed.has('s')) {
        (Some(_), _) => "POST",
        (None, true) => "HEAD",
        (None, false) => "GET",
    };
    let agent = parsed.value('U').unwrap_or("Wget");
    let mut headers = vec![("Host".to_owned(), url.authority()), ("User-Agent".to_owned(), agent.to_owned())];
    headers.push(("Connection".to_owned(), "close".to_owned()));
    if let Some(body) = &body {
        headers.push(("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
        headers.push(("Content-Length".to_owned(), body.len().to_string()));
    }
    let wanted = parsed.flags.iter().filter(|(flag, _)| *flag == 'h').map(|(_, line)| line.as_str());
    replace_headers(&mut headers, wanted);
    let seconds = parsed.value('T').and_then(|text| text.parse().ok()).unwrap_or(900);
    let idle = Some(Duration::from_secs(seconds));
    let download = Download {
        request: HttpRequest {
            method: method.to_owned(),
            target: url.path.clone(),
            headers,
            body: body.unwrap_or_default(),
            ..HttpRequest::default()
        },
        patience: Patience { connect_within: idle, idle, within: None },
        is_quiet: parsed.has('q'),
        shows_head: parsed.has('S'),
        is_spider: parsed.has('s'),
        output: parsed.value('O').map(str::to_owned),
        folder: parsed.value('P').map(str::to_owned),
        redirects: 0,
        notes_trust: unchecked.is_empty(),
        url,
    };
    Outcome { then: download.begin(call.env), ..Outcome::default() }
}

impl Download {
    fn begin(mut self, env: &Env) -> Vec<Effect> {
        let is_noted = self.url.is_encrypted && std::mem::take(&mut self.notes_trust);
        let note = is_noted.then(|| Effect::Error(NOTE.into()));
        let wish = call(env, &self.url, &self.request, self.patience, &TlsTrust::Anything);
        note.into_iter().chain([Effect::Network(wish, Box::new(self))]).collect()
    }

    fn said(&self, text: String) -> Option<Effect> {
        (!self.is_quiet).then(|| Effect::Error(text.into_bytes()))
    }

    /// Writes the body where it belongs.
    fn store(self, env: &Env, response: ReceivedResponse) -> Vec<Effect> {
        let length = response.body.len();
        let name = self.output.clone().unwrap_or_else(|| self.url.file_name());
        let mut all = Vec::new();
        let bar = format!("{name:<20.20} 100% |********************************| {length:>5}  0:00:00 ETA\n");
        if name == "-" {
            all.extend(self.said("writing to stdout\n".to_owned()));
            all.push(Effect::Print(response.body));
            all.extend(self.said(format!("{bar}written to stdout\n")));
        } else {
            let path = match &self.folder {
                Some(folder) if self.output.is_none() => format!("{folder}/{name}"),
                Some(_) | None => name,
            };
            let full = env.path(&path);
            if self.output.is_none() && env.entry(&full).is_some() {
                return fail(&format!("can't open '{path}': File exists"));
            }
            all.extend(self.said(format!("saving to '{path}'\n")));
            if let Err(why) = env.write(&full, &response.body) {
                return fail(&format!("can't open '{path}': {why}"));
            }
            all.extend(self.said(format!("{bar}'{path}' saved\n")));
        }
        if response.is_cut {
            all.extend(fail("connection closed prematurely"));
        }
        all
    }
}

impl Networked for Download {
    fn reply(self: Box<Self>, env: &Env, reply: NetworkReply) -> Vec<Effect> {
        let (host, port) = (host(env, &self.url.host), self.url.port);
        let received = match reply.result {
            Ok(received) => received,
            Err(NetworkFailure::UnknownName) => {
                return fail(&format!("bad address '{}'", self.url.authority()));
            }
            Err(NetworkFailure::TimedOut(_)) => return fail("download timed out"),
            Err(NetworkFailure::Tls(_)) => return fail("error getting response: Connection reset by peer"),
            Err(why) => {
                let address = why.address().map_or(host, |ip| ip.to_string());
                let said = self.said(format!("Connecting to {} ({address}:{port})\n", self.url.authority()));
                let text = format!("can't connect to remote host ({address}): {}", why.text());
                return said.into_iter().chain(fail(&text)).collect();
            }
        };
        let said = self.said(format!("Connecting to {} ({})\n", self.url.authority(), received.peer));
        let mut all: Vec<Effect> = said.into_iter().collect();
        let parsed = ReceivedResponse::parse(&received.bytes, &self.request.method);
        let response = match (parsed, received.end) {
            (_, ReceivedEnd::TimedOut) => {
                all.extend(fail("download timed out"));
                return all;
            }
            (None, ReceivedEnd::Reset) => {
                all.extend(fail("error getting response: Connection reset by peer"));
                return all;
            }
            (None, _) => {
                all.extend(fail("error getting response"));
                return all;
            }
            (Some(response), _) => response,
        };
        if self.shows_head {
            let head = String::from_utf8_lossy(&response.head).into_owned();
            let lines = head.lines().filter(|line| !line.is_empty());
            all.push(Effect::Error(lines.map(|line| format!("  {line}\n")).collect::<String>().into_bytes()));
        }
        match response.code {
            300..=399 if response.header("location").is_some() => {
                let location = response.header("location").unwrap_or_default();
                let Some(url) = self.url.redirected(location).filter(|_| self.redirects < REDIRECTS) else {
                    all.extend(fail("too many redirections"));
                    return all;
                };
                let mut next = Self { redirects: self.redirects + 1, url, ..*self };
                next.request.target = next.url.path.clone();
                let line = format!("Host: {}", next.url.authority());
                replace_headers(&mut next.request.headers, std::iter::once(line.as_str()));
                all.extend(next.begin(env));
            }
            200..=299 if self.is_spider => all.extend(self.said("remote file exists\n".to_owned())),
            200..=299 => all.extend(self.store(env, response)),
            _ => all.extend(fail(&format!("server returned error: {}", response.status))),
        }
        all
    }
}
