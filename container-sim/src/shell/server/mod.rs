//! Servers of known images: which ports a command listens at, and what it answers to a request. Each is a function of the words of the
//! command and of the files of its container, so a server without a connection costs nothing.

mod agnhost;
mod conversion;
mod files;
mod guestbook;
mod image;
mod nettest;
mod review;
mod upload;

use super::env::Env;
use super::network::{NetworkCall, NetworkReply};
use super::{Environment, ImagePrograms};
use crate::http::{HttpRequest, HttpResponse};
pub(super) use agnhost::certificate_files;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The server that a command is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    ports: Vec<u16>,
    /// The ports of datagrams.
    datagrams: Vec<u16>,
    kind: Kind,
    /// The paths of its certificate and key, if it speaks TLS.
    tls: Option<(String, String)>,
}

/// The certificate and the key of a server, both as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The certificate, and those that signed it.
    pub chain: Arc<[u8]>,
    /// The key.
    pub key: Arc<[u8]>,
}

/// Whether a server speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEncryption {
    /// It does not.
    Plain,
    /// With this certificate.
    Tls(ServerCertificate),
    /// It would, and a file cannot be read: why.
    Broken(String),
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// `netexec`; with the path that it answers whatever is asked, or an empty text.
    Netexec(String),
    ServeHostname,
    /// `serve-hostname --tcp`: sends the name, and then closes or not.
    TcpHostname(bool),
    /// Go's file server of `/`.
    TestWebserver,
    Liveness,
    /// `guestbook`, with the port of its primary.
    Guestbook(u16),
    /// `nettest`: counts who writes to it; with the number of peers that its test needs.
    Nettest(usize),
    /// `porter`: its ports with their transports and bodies; whether it answers JSON.
    Porter(Vec<(u16, agnhost::PorterTransport, String)>, bool),
    /// One body for all requests.
    Fixed(String),
    /// `no-snat-test`, with the addresses of its pod and of its node.
    Whoami(String, String),
    /// `tcp-reset`: resets each connection.
    Reset,
    /// `webhook`, with the image of the sidecar that it adds.
    Webhook(String),
    /// `crd-conversion-webhook`.
    Conversion,
    /// `grpc-health-checking`.
    Health(agnhost::Health),
    /// With its version.
    Nginx(String),
    Httpd(String),
    HttpEcho(String),
}

/// What a server sees of a connection, and of its own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPeer {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address that the client has connected to.
    pub local: SocketAddr,
    /// How long the server runs.
    pub uptime: Duration,
    /// Whether the server has got SIGTERM.
    pub is_stopping: bool,
}

/// What a server does for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAction {
    /// It answers.
    Answer(HttpResponse),
    /// It makes these calls, one after the other, and answers with what [`Server::dialed`] makes of their replies.
    Dial(Vec<NetworkCall>),
    /// It runs this command in its container, and answers with what [`Server::ran`] makes of its output.
    Command(Vec<String>),
    /// It answers, and ends with this exit code.
    Exit(HttpResponse, u8),
    /// It answers after this time.
    Later(Duration, HttpResponse),
    /// It never answers, and keeps the connection.
    Silence,
}

/// What a server does with a connection before a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerGreeting {
    /// It speaks HTTP.
    Http,
    /// It answers gRPC health checks with [`Server::health`].
    Health,
    /// It sends these bytes, and closes if the flag says so.
    Bytes(Vec<u8>, bool),
    /// It resets the connection.
    Reset,
}

impl Server {
    /// The server that a command of a container is; `None` if it is none. `programs` are those of the image, `version` is that of its tag.
    pub fn of(
        programs: &ImagePrograms,
        argv: &[String],
        variables: &[(String, String)],
        version: Option<&str>,
    ) -> Option<Self> {
        let (first, arguments) = argv.split_first()?;
        match programs.get(first)?.as_str() {
            "agnhost" => agnhost::server(arguments, variables),
            program => image::server(program, arguments, version),
        }
    }

    /// A server that answers one text to all requests at a port.
    pub fn fixed(port: u16, text: String) -> Self {
        Self { ports: vec![port], datagrams: Vec::new(), kind: Kind::Fixed(text), tls: None }
    }

    /// Whether it speaks TLS at a port, and with which certificate: its files are read anew, because a volume may have got new ones.
    pub fn encryption(&self, environment: &Arc<Environment>, port: u16) -> ServerEncryption {
        if let Kind::Porter(served, _) = &self.kind
            && !served.iter().any(|(own, by, _)| *own == port && *by == agnhost::PorterTransport::Tls)
        {
            return ServerEncryption::Plain;
        }
        let Some((chain, key)) = &self.tls else { return ServerEncryption::Plain };
        let env = Env::new(environment);
        match (env.read(&env.path(chain)), env.read(&env.path(key))) {
            (Ok(chain), Ok(key)) => ServerEncryption::Tls(ServerCertificate { chain, key }),
            (Err(why), _) => ServerEncryption::Broken(format!("open {chain}: {why}")),
            (_, Err(why)) => ServerEncryption::Broken(format!("open {key}: {why}")),
        }
    }

    /// Whether it listens at a port.
    pub fn listens(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// Whether it receives datagrams at a port.
    pub fn receives(&self, port: u16) -> bool {
        self.datagrams.contains(&port)
    }

    /// The answer to a datagram; `None`: there is none.
    pub fn answer(&self, datagram: &[u8], hostname: &str, peer: &ServerPeer) -> Option<Vec<u8>> {
        match &self.kind {
            Kind::Netexec(_) => agnhost::netexec_datagram(datagram, hostname, peer),
            Kind::Porter(served, _) => agnhost::porter_datagram(served, peer),
            Kind::ServeHostname | Kind::TcpHostname(_) => Some(hostname.as_bytes().to_vec()),
            _ => None,
        }
    }

    /// What it does with a new connection to one of its ports.
    pub fn greeting(&self, hostname: &str, port: u16) -> ServerGreeting {
        match &self.kind {
            Kind::Health(health) if health.port == port => ServerGreeting::Health,
            Kind::TcpHostname(closes) => ServerGreeting::Bytes(hostname.as_bytes().to_vec(), *closes),
            Kind::Reset => ServerGreeting::Reset,
            _ => ServerGreeting::Http,
        }
    }

    /// The answer to a request, and the line of the server's log about it.
    pub fn respond(
        &self,
        environment: &Arc<Environment>,
        request: &HttpRequest,
        peer: &ServerPeer,
    ) -> (ServerAction, Option<String>) {
        let env = Env::new(environment);
        match &self.kind {
            Kind::Nginx(version) => image::nginx(&env, version, request, peer),
            Kind::Httpd(version) => image::httpd(&env, version, request, peer),
            Kind::HttpEcho(text) => image::http_echo(text, request, peer),
            kind => agnhost::respond(kind, &env, request, peer),
        }
    }

    /// Whether lines of its log go to standard error.
    pub fn logs_to_stderr(&self) -> bool {
        !matches!(self.kind, Kind::Nginx(_) | Kind::Httpd(_) | Kind::HttpEcho(_))
    }

    /// Whether a service is healthy, as gRPC health checks ask; `None`: the server does not know the service.
    pub fn health(&self, service: &str, uptime: Duration) -> Option<bool> {
        match &self.kind {
            Kind::Health(health) if health.service == service => Some(health.is_serving(uptime)),
            _ => None,
        }
    }

    /// The answer after the command of [`ServerAction::Command`] has ended with this output and exit code.
    pub fn ran(&self, output: &[u8], code: u8) -> HttpResponse {
        agnhost::ran(output, code)
    }

    /// The answer after the calls of [`ServerAction::Dial`].
    pub fn dialed(&self, calls: &[NetworkCall], replies: &[NetworkReply]) -> HttpResponse {
        match &self.kind {
            Kind::Guestbook(_) => guestbook::dialed(replies),
            Kind::Whoami(pod, node) => agnhost::checked(calls, replies, (pod, node)),
            _ => agnhost::dialed(calls, replies),
        }
    }

    /// The status code of its answer to a GET of this path, if this depends neither on the container's files and variables nor on the
    /// time: then a probe need not be made.
    pub fn constant_answer(&self, path: &str) -> Option<u16> {
        match self.kind {
            Kind::Nginx(_) | Kind::Httpd(_) => Some(if image::is_welcome(path) { 200 } else { 404 }),
            Kind::HttpEcho(_) => Some(200),
            _ => None,
        }
    }
}

/// A text as Go's `log` prints it.
pub(super) fn logged(env: &Env, text: &str) -> String {
    let time = jiff::Timestamp::from_second(env.now).unwrap_or_default();
    format!("{} {text}\n", time.strftime("%Y/%m/%d %H:%M:%S"))
}
