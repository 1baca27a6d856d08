//! What commands want of the network: a [`NetworkCall`], which the caller of the shell carries out, and its [`NetworkReply`]. The shell
//! itself has no socket.

use super::env::Env;
use super::memory::Reservation;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A wish of a program: one connection with what is sent and received over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCall {
    /// Where the other end comes from.
    pub end: NetworkEnd,
    /// What is sent, after which the sending direction ends.
    pub send: Vec<u8>,
    /// The longest time until there is a connection.
    pub connect_within: Option<Duration>,
    /// The longest time without a byte.
    pub idle: Option<Duration>,
    /// The longest time of all.
    pub within: Option<Duration>,
    /// Bytes that are received at most; zero only connects.
    pub most: usize,
    /// How the connection is encrypted; `None`: it is not.
    pub tls: Option<TlsClient>,
}

/// TLS of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClient {
    /// The name or address that the server's certificate must have.
    pub name: String,
    /// Which certificates are trusted.
    pub trust: TlsTrust,
}

/// Which certificates of servers a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsTrust {
    /// All.
    Anything,
    /// Those of the authorities in this PEM. Images have none of their own.
    Authorities(Arc<[u8]>),
}

/// Why a client and a server do not agree on TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The server does not speak TLS.
    NotTls,
    /// No trusted authority signed the certificate.
    UnknownAuthority,
    /// The certificate is for other names.
    WrongName,
    /// The certificate is not valid now.
    Expired,
    /// Something else, as this text says.
    Other(String),
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEnd {
    /// Connects to this host, an address or a name, and port.
    Connect(String, u16),
    /// Sends a datagram to this host, an address or a name, and port, and receives the first one that comes back.
    Datagram(String, u16),
    /// Waits at this port for one connection.
    Accept(u16),
    /// Makes no connection, and asks the cluster's DNS.
    Lookup(DnsQuestion),
}

/// A question to a name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsQuestion {
    /// The whole name, in small letters and without a dot at its end.
    pub name: String,
    /// The wanted records.
    pub kind: RecordKind,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// The name that another one stands for.
    Cname,
    /// The name of an address.
    Ptr,
    /// Priority, weight, port and host of a service.
    Srv,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::A, Self::Aaaa, Self::Cname, Self::Ptr, Self::Srv];

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Ptr => "PTR",
            Self::Srv => "SRV",
        }
    }
}

/// The answer of a name server. By default the name does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsAnswer {
    /// Whether there is the name, with whatever records.
    pub exists: bool,
    /// The records of the wanted kind, after those of the names that it stands for.
    pub records: Vec<DnsRecord>,
}

/// A record of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsRecord {
    /// The name, without a dot at its end.
    pub name: String,
    /// What the value is.
    pub kind: RecordKind,
    /// The value as `dig` prints it.
    pub value: String,
    /// How many seconds it may be kept.
    pub ttl: u32,
}

/// What came of a [`NetworkCall`].
#[derive(Clone, Debug)]
pub struct NetworkReply {
    /// The received bytes, or why there was no connection.
    pub result: Result<Received, NetworkFailure>,
    /// The memory of the received bytes.
    pub room: Option<Arc<Reservation>>,
    /// The answer to a question.
    pub answer: Option<DnsAnswer>,
}

impl NetworkReply {
    /// The reply without a connection.
    pub fn failed(why: NetworkFailure) -> Self {
        Self { result: Err(why), room: None, answer: None }
    }
}

/// What a connection brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The address of the other end.
    pub peer: SocketAddr,
    /// All bytes.
    pub bytes: Vec<u8>,
    /// How it ended.
    pub end: ReceivedEnd,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedEnd {
    /// The other end sent no more, or enough bytes came.
    Done,
    /// The other end reset it.
    Reset,
    /// Its time was over.
    TimedOut,
    /// More came than there is memory for.
    NoMemory,
}

/// Why there was no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkFailure {
    /// The name has no address.
    UnknownName,
    /// The host with this address refused it.
    Refused(IpAddr),
    /// No answer came from this address.
    TimedOut(IpAddr),
    /// There is no way to this address.
    NoRoute(IpAddr),
    /// Too many connections, or no network.
    Exhausted,
    /// Another program listens at the port.
    InUse,
    /// There is a connection, and no TLS over it.
    Tls(TlsFailure),
}

impl NetworkFailure {
    /// The text of the error as the C library has it.
    pub(super) fn text(&self) -> &'static str {
        match self {
            Self::UnknownName => "Name does not resolve",
            Self::Refused(_) => "Connection refused",
            Self::TimedOut(_) => "Connection timed out",
            Self::NoRoute(_) => "Host is unreachable",
            Self::Exhausted => "Cannot assign requested address",
            Self::InUse => "Address in use",
            Self::Tls(_) => "TLS handshake failure",
        }
    }

    /// The address that was asked.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Refused(ip) | Self::TimedOut(ip) | Self::NoRoute(ip) => Some(*ip),
            Self::UnknownName | Self::Exhausted | Self::InUse | Self::Tls(_) => None,
        }
    }
}

/// The host to connect to: an address, what `/etc/hosts` says of a name, or the name.
pub(super) fn host(env: &Env, name: &str) -> String {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() {
        return bare.to_owned();
    }
    let hosts = env.read("/etc/hosts").unwrap_or_default();
    let text = String::from_utf8_lossy(&hosts).into_owned();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let addresses: Vec<IpAddr> = lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?.parse().ok()?;
            words.any(|word| word.eq_ignore_ascii_case(bare)).then_some(address)
        })
        .collect();
    // Programs try IPv4 first where a name has both.
    let first = addresses.iter().find(|ip| ip.is_ipv4()).or(addresses.first());
    first.map_or_else(|| bare.to_owned(), IpAddr::to_string)
}
