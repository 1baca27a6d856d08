//! `curl`, for HTTP with and without TLS.

use super::fetch::{Patience, Url, call, replace_headers};
use super::{Effect, Networked, Outcome, Parsed, Runner, Tool, ToolCall};
use crate::http::{HttpRequest, ReceivedResponse};
use crate::limits::REDIRECTS;
use crate::shell::env::Env;
use crate::shell::escape::{Escapes, replaced};
use crate::shell::network::{NetworkFailure, NetworkReply, Received, ReceivedEnd, TlsFailure, TlsTrust};
use std::sync::Arc;
use std::time::Duration;

pub(super) const TOOLS: &[Tool] = &[Tool { name: "curl", reads, run: Runner::Whole(run), check }];

/// Flags of one letter; those in capitals without a short form are only long ones here.
const FLAGS: &str = "qgsSfkiILvOG#46NX:d:H:o:w:m:u:A:e:b:Z:R:B:C:E:K:P:n:J:V";
const LONG: [(&str, char); 43] = [
    ("disable", 'q'),
    ("globoff", 'g'),
    ("silent", 's'),
    ("show-error", 'S'),
    ("fail", 'f'),
    ("fail-with-body", 'f'),
    ("insecure", 'k'),
    ("include", 'i'),
    ("head", 'I'),
    ("location", 'L'),
    ("verbose", 'v'),
    ("remote-name", 'O'),
    ("get", 'G'),
    ("progress-bar", '#'),
    ("no-progress-meter", 'N'),
    ("no-buffer", 'N'),
    ("compressed", 'N'),
    ("http1.1", 'N'),
    ("ipv4", '4'),
    ("ipv6", '6'),
    ("request", 'X'),
    ("data", 'd'),
    ("data-ascii", 'd'),
    ("data-raw", 'B'),
    ("data-binary", 'd'),
    ("json", 'C'),
    ("header", 'H'),
    ("output", 'o'),
    ("write-out", 'w'),
    ("max-time", 'm'),
    ("user", 'u'),
    ("user-agent", 'A'),
    ("referer", 'e'),
    ("cookie", 'b'),
    ("connect-timeout", 'Z'),
    ("retry", 'R'),
    ("retry-delay", 'E'),
    ("retry-max-time", 'K'),
    ("cacert", 'P'),
    ("interface", 'J'),
    ("noproxy", 'n'),
    ("max-redirs", 'n'),
    ("retry-connrefused", 'V'),
];

fn check(arguments: &[String]) -> Result<(), String> {
    super::parse(arguments, FLAGS, &LONG).map(|_| ())
}

fn reads(arguments: &[String]) -> bool {
    let is_input = |(flag, value): &(char, String)| matches!(flag, 'd') && value == "@-";
    super::parse(arguments, FLAGS, &LONG).is_ok_and(|parsed| parsed.flags.iter().any(is_input))
}

/// One transfer.
#[derive(Clone, Debug)]
struct Transfer {
    url: Url,
    request: HttpRequest,
    patience: Patience,
    is_silent: bool,
    fails: bool,
    shows_head: bool,
    follows: bool,
    is_verbose: bool,
    output: Option<String>,
    format: Option<String>,
    redirects: usize,
    retries: u32,
    retries_refused: bool,
    pause: Duration,
    trust: TlsTrust,
}

/// Which servers are trusted: all with `-k`, else those of the authorities in a file.
fn trust(call: &ToolCall<'_>, parsed: &Parsed) -> Result<TlsTrust, String> {
    if parsed.has('k') {
        return Ok(TlsTrust::Anything);
    }
    let Some(file) = parsed.value('P') else { return Ok(TlsTrust::Authorities(Arc::default())) };
    let bytes = call.env.read(&call.env.path(file));
    bytes
        .map(TlsTrust::Authorities)
        .map_err(|_| format!("curl: (77) error setting certificate file: {file}\n"))
}

fn seconds(parsed: &Parsed, flag: char) -> Option<Duration> {
    parsed.value(flag)?.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok())
}

/// The body that the flags say, and its media type.
fn body(call: &ToolCall<'_>, parsed: &Parsed) -> Result<Option<(Vec<u8>, &'static str)>, String> {
    let (mut parts, mut media) = (Vec::new(), "application/x-www-form-urlencoded");
    for (flag, value) in parsed.flags.iter().filter(|(flag, _)| matches!(flag, 'd' | 'B' | 'C')) {
        if *flag == 'C' {
            media = "application/json";
        }
        parts.push(match value.strip_prefix('@').filter(|_| *flag == 'd') {
            Some("-") => call.input.to_vec(),
            Some(file) => call.env.read(&call.env.path(file)).map(|bytes| bytes.to_vec()).map_err(|_| {
                format!(
                    "curl: option -d: error encountered when reading a file\ncurl: failed to open {file}\n"
                )
            })?,
            None => value.as_bytes().to_vec(),
        });
    }
    Ok((!parts.is_empty()).then(|| (parts.join(&b'&'), media)))
}

fn run(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), FLAGS, &LONG) {
        Ok(parsed) => parsed,
        Err(why) => {
            return Outcome::fail(2, format!("curl: {why}\ncurl: try 'curl --help' for more information\n"));
        }
    };
    let Some(address) = parsed.operands.first() else {
        return Outcome::fail(2, "curl: (2) no URL specified\n".to_owned());
    };
    let Some(mut url) = Url::parse(address) else {
        return Outcome::fail(
            3,
            format!("curl: (3) URL rejected: Malformed input to a URL function: {address}\n"),
        );
    };
    let body = match body(call, &parsed) {
        Ok(body) => body,
        Err(text) => return Outcome::fail(26, text),
    };
    let trust = match trust(call, &parsed) {
        Ok(trust) => trust,
        Err(text) => return Outcome::fail(77, text),
    };
    let body = match body {
        Some((bytes, _)) if parsed.has('G') => {
            let separator = if url.path.contains('?') { '&' } else { '?' };
            url.path = format!("{}{separator}{}", url.path, String::from_utf8_lossy(&bytes));
            None
        }
        body => body,
    };
    let method = match (parsed.value('X'), &body, parsed.has('I')) {
        (Some(method), ..) => method,
        (None, _, true) => "HEAD",
        (None, Some(_), false) => "POST",
        (None, None, false) => "GET",
    };
    let agent = parsed.value('A').unwrap_or("curl/8.12.1");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut headers = vec![pair("Host", &url.authority()), pair("User-Agent", agent), pair("Accept", "*/*")];
    for (flag, name) in [('e', "Referer"), ('b', "Cookie")] {
        headers.extend(parsed.value(flag).map(|value| pair(name, value)));
    }
    if let Some(user) = parsed.value('u').map(str::to_owned).or_else(|| url.user.clone()) {
        headers.push(pair("Authorization", &format!("Basic {}", base64(user.as_bytes()))));
    }
    if let Some((bytes, media)) = &body {
        headers.push(pair("Content-Length", &bytes.len().to_string()));
        headers.push(pair("Content-Type", media));
    }
    let wanted = parsed.flags.iter().filter(|(flag, _)| *flag == 'H').map(|(_, line)| line.as_str());
    replace_headers(&mut headers, wanted);
    let within = seconds(&parsed, 'm');
    let named = parsed.has('O').then(|| url.file_name());
    let transfer = Transfer {
        request: HttpRequest {
            method: method.to_owned(),
            target: url.path.clone(),
            headers,
            body: body.map(|(bytes, _)| bytes).unwrap_or_default(),
            ..HttpRequest::default()
        },
        patience: Patience { connect_within: seconds(&parsed, 'Z').or(within), idle: None, within },
        is_silent: parsed.has('s') && !parsed.has('S'),
        fails: parsed.has('f'),
        shows_head: parsed.has('i') || parsed.has('I'),
        follows: parsed.has('L'),
        is_verbose: parsed.has('v'),
        output: parsed.value('o').map(str::to_owned).or(named),
        format: parsed.value('w').map(str::to_owned),
        redirects: 0,
        retries: parsed.value('R').and_then(|text| text.parse().ok()).unwrap_or(0),
        retries_refused: parsed.has('V'),
        pause: seconds(&parsed, 'E').unwrap_or(Duration::from_secs(1)),
        trust,
        url,
    };
    Outcome { then: transfer.begin(call.env), ..Outcome::default() }
}

/// The text of bytes in base64.
pub(in crate::shell) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let group =
            three.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

impl Transfer {
    fn begin(self, env: &Env) -> Vec<Effect> {
        let wish = call(env, &self.url, &self.request, self.patience, &self.trust);
        vec![Effect::Network(wish, Box::new(self))]
    }

    fn fail(&self, code: u8, text: &str) -> Vec<Effect> {
        let said = (!self.is_silent).then(|| Effect::Error(format!("curl: ({code}) {text}\n").into_bytes()));
        let written = self.written(None);
        written.into_iter().chain(said).chain([Effect::Code(code)]).collect()
    }

    /// Tries again after a pause.
    fn again(mut self, env: &Env) -> Vec<Effect> {
        self.retries -= 1;
        let pause = Effect::Sleep(self.pause);
        self.pause = self.pause.saturating_mul(2);
        std::iter::once(pause).chain(self.begin(env)).collect()
    }

    fn failed(self, env: &Env, why: &NetworkFailure) -> Vec<Effect> {
        let is_passing = match why {
            NetworkFailure::TimedOut(_) => true,
            NetworkFailure::Refused(_) => self.retries_refused,
            _ => false,
        };
        if is_passing && self.retries > 0 {
            return self.again(env);
        }
        let Url { host, port, .. } = &self.url;
        match why {
            NetworkFailure::UnknownName => self.fail(6, &format!("Could not resolve host: {host}")),
            NetworkFailure::TimedOut(_) => {
                let time = self.patience.connect_within.unwrap_or(Duration::from_secs(127)).as_millis();
                self.fail(28, &format!("Connection timed out after {time} milliseconds"))
            }
            NetworkFailure::Tls(why) => self.untrusted(why),
            _ => self.fail(
                7,
                &format!("Failed to connect to {host} port {port} after 0 ms: Could not connect to server"),
            ),
        }
    }

    fn untrusted(&self, why: &TlsFailure) -> Vec<Effect> {
        let problem = |why: &str| format!("SSL certificate problem: {why}");
        match why {
            TlsFailure::NotTls => {
                self.fail(35, "TLS connect error: error:0A00010B:SSL routines::wrong version number")
            }
            TlsFailure::UnknownAuthority => self.fail(60, &problem("unable to get local issuer certificate")),
            TlsFailure::Expired => self.fail(60, &problem("certificate has expired")),
            TlsFailure::WrongName => {
                let name = self.url.host.trim_matches(['[', ']']);
                let text =
                    format!("SSL: no alternative certificate subject name matches target host name '{name}'");
                self.fail(60, &text)
            }
            TlsFailure::Other(text) => self.fail(35, &format!("TLS connect error: {text}")),
        }
    }

    /// What `-w` prints.
    fn written(&self, response: Option<(&ReceivedResponse, &Received)>) -> Option<Effect> {
        let format = self.format.as_ref()?;
        let code = response.map_or(0, |(response, _)| response.code);
        let size = response.map_or(0, |(response, _)| response.body.len());
        let peer = response.map(|(_, received)| received.peer);
        let media = response.and_then(|(response, _)| response.header("content-type")).unwrap_or_default();
        let values = [
            ("%{http_code}", format!("{code:03}")),
            ("%{response_code}", format!("{code:03}")),
            ("%{size_download}", size.to_string()),
            ("%{remote_ip}", peer.map_or_else(String::new, |peer| peer.ip().to_string())),
            ("%{remote_port}", peer.map_or_else(|| "0".to_owned(), |peer| peer.port().to_string())),
            ("%{content_type}", media.to_owned()),
            ("%{num_redirects}", self.redirects.to_string()),
            (
                "%{url_effective}",
                format!("{}://{}{}", self.url.scheme(), self.url.authority(), self.url.path),
            ),
            ("%{time_total}", "0.000000".to_owned()),
        ];
        let text = values.iter().fold(format.clone(), |text, (name, value)| text.replace(name, value));
        Some(Effect::Print(replaced(&text, Escapes::Format).0))
    }

    fn verbose(&self, received: &Received, response: Option<&ReceivedResponse>) -> Option<Effect> {
        if !self.is_verbose {
            return None;
        }
        let mut text = format!(
            "*   Trying {}...\n* Connected to {} ({}) port {}\n",
            received.peer,
            self.url.host,
            received.peer.ip(),
            received.peer.port()
        );
        text.push_str(&format!("> {} {} HTTP/1.1\n", self.request.method, self.request.target));
        for (name, value) in &self.request.headers {
            text.push_str(&format!("> {name}: {value}\n"));
        }
        text.push_str(">\n");
        let head = response.map(|response| String::from_utf8_lossy(&response.head).into_owned());
        for line in head.iter().flat_map(|head| head.lines()) {
            text.push_str(format!("< {line}").trim_end());
            text.push('\n');
        }
        Some(Effect::Error(text.into_bytes()))
    }

    /// Prints or stores a response.
    fn store(&self, env: &Env, response: &ReceivedResponse, received: &Received) -> Vec<Effect> {
        let mut all = Vec::new();
        let head: &[u8] = if self.shows_head { &response.head } else { b"" };
        match self.output.as_deref().filter(|path| *path != "-") {
            None => all.push(Effect::Print([head, &response.body].concat())),
            Some(path) => {
                if let Err(why) = env.write(&env.path(path), &[head, &response.body].concat()) {
                    all.push(Effect::Error(
                        format!("curl: (23) client returned ERROR on write: {why}\n").into_bytes(),
                    ));
                    all.push(Effect::Code(23));
                    return all;
                }
            }
        }
        all.extend(self.written(Some((response, received))));
        if response.is_cut {
            all.extend(self.fail(18, "transfer closed with outstanding read data remaining"));
        }
        all
    }
}

impl Networked for Transfer {
    fn reply(self: Box<Self>, env: &Env, reply: NetworkReply) -> Vec<Effect> {
        let received = match reply.result {
            Ok(received) => received,
            Err(why) => return self.failed(env, &why),
        };
        let response = ReceivedResponse::parse(&received.bytes, &self.request.method);
        let mut all: Vec<Effect> = self.verbose(&received, response.as_ref()).into_iter().collect();
        let response = match (response, received.end) {
            (_, ReceivedEnd::TimedOut) => {
                let time = self.patience.within.unwrap_or_default().as_millis();
                let count = received.bytes.len();
                all.extend(self.fail(
                    28,
                    &format!("Operation timed out after {time} milliseconds with {count} bytes received"),
                ));
                return all;
            }
            (None, ReceivedEnd::Reset) => {
                all.extend(self.fail(56, "Recv failure: Connection reset by peer"));
                return all;
            }
            (None, _) if received.bytes.is_empty() => {
                all.extend(self.fail(52, "Empty reply from server"));
                return all;
            }
            (None, _) => {
                all.extend(self.fail(1, "Received HTTP/0.9 when not allowed"));
                return all;
            }
            (Some(response), _) => response,
        };
        let to = response.header("location").and_then(|location| self.url.redirected(location));
        match to.filter(|_| self.follows && matches!(response.code, 301..=303 | 307 | 308)) {
            Some(_) if self.redirects >= REDIRECTS => {
                all.extend(self.fail(47, &format!("Maximum ({REDIRECTS}) redirects followed")));
            }
            Some(url) => {
                let mut next = Self { redirects: self.redirects + 1, url, ..*self };
                next.request.target = next.url.path.clone();
                if response.code < 304 && next.request.method == "POST" {
                    next.request.method = "GET".to_owned();
                    next.request.body.clear();
                    let body = ["Content-Length:", "Content-Type:"];
                    replace_headers(&mut next.request.headers, body.into_iter());
                }
                let line = format!("Host: {}", next.url.authority());
                replace_headers(&mut next.request.headers, std::iter::once(line.as_str()));
                if next.shows_head {
                    all.push(Effect::Print(response.head));
                }
                all.extend(next.begin(env));
            }
            None if self.retries > 0 && matches!(response.code, 408 | 429 | 500 | 502..=504) => {
                all.extend(self.again(env));
            }
            None if self.fails && response.code >= 400 => {
                let text = format!("The requested URL returned error: {}", response.code);
                let code = response.code;
                let written = self
                    .written(Some((&ReceivedResponse { code, ..ReceivedResponse::default() }, &received)));
                all.extend(written);
                let silent = Self { format: None, ..*self };
                all.extend(silent.fail(22, &text));
            }
            None => all.extend(self.store(env, &response, &received)),
        }
        all
    }
}
