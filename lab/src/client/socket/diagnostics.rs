//! [`Diagnostics`]: single TCP sockets by their addresses, over netlink (`sock_diag(7)`). A question is a look-up in the kernel's table and
//! costs microseconds; to read `/proc/net/tcp` is a walk through a table of often hundreds of thousands of places, which costs milliseconds
//! and was half of the work of a search for bugs.

use super::{ANY, SocketAddresses, SocketCounts, SocketQueues, SocketState};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

/// `SOCK_DIAG_BY_FAMILY`, a question and its answer.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`, without `NLM_F_DUMP`: one socket.
const REQUEST: u16 = 1;
/// `AF_INET`.
const INET: u8 = 2;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// Bytes of a message's header.
const HEADER: usize = 16;
/// Bytes of a question: the header, `inet_diag_req_v2` before its socket, and `inet_diag_sockid`.
const QUESTION: usize = HEADER + 8 + 48;
/// `TCP_LISTEN`.
const LISTEN: u8 = 10;
/// `INET_DIAG_INFO`: the attribute with a connection's `tcp_info`, and the bit of a question that asks for it.
const INFO: u16 = 2;
const ASK_INFO: u8 = 1 << (INFO - 1);
/// Where the members of `tcp_info` begin: `tcpi_bytes_received`, `tcpi_notsent_bytes`, `tcpi_bytes_sent`, `tcpi_bytes_retrans`.
const BYTES_RECEIVED: usize = 128;
const BYTES_UNSENT: usize = 144;
const BYTES_SENT: usize = 200;
const BYTES_SENT_AGAIN: usize = 208;
/// Where the members of `inet_diag_msg` begin in an answer.
const STATE: usize = HEADER + 1;
const UNREAD: usize = HEADER + 56;
const UNACKNOWLEDGED: usize = HEADER + 60;
const INODE: usize = HEADER + 68;
/// Where the attributes of an answer begin.
const ATTRIBUTES: usize = HEADER + 72;

/// A socket to the kernel.
pub(super) struct Diagnostics {
    socket: Mutex<OwnedFd>,
}

impl Diagnostics {
    /// The one of this process. `None` if the kernel lacks the interface: some containers do.
    pub(super) fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<Diagnostics>> = LazyLock::new(Diagnostics::open);
        SHARED.as_ref()
    }

    /// A kernel that lacks a part of the interface says of each socket that there is none, so it is asked for one that there is.
    fn open() -> Option<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok()?;
        let asked = Self { socket: Mutex::new(socket) };
        let sample = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).ok()?;
        let SocketAddr::V4(address) = sample.local_addr().ok()? else { return None };
        let found = asked.states(&[(address, ANY)])?;
        found.contains_key(&(address, ANY)).then_some(asked)
    }

    /// As [`states`](super::states). `None` if the kernel does not answer.
    pub(super) fn states(
        &self,
        wanted: &[SocketAddresses],
    ) -> Option<BTreeMap<SocketAddresses, SocketState>> {
        let socket = self.socket.lock();
        let ask = |addresses: &SocketAddresses| {
            send(&*socket, &question(*addresses), SendFlags::empty())?;
            // Longer than an answer with the one extension that was asked for.
            let mut answer = [0; 1024];
            // The kernel has answered before `send` returns.
            let (_, length) = recv(&*socket, &mut answer[..], RecvFlags::empty())?;
            state(answer.get(..length).unwrap_or_default())
        };
        let mut found = BTreeMap::new();
        for addresses in wanted {
            if let Some(state) = ask(addresses).ok()? {
                found.insert(*addresses, state);
            }
        }
        Some(found)
    }
}

/// The question for the socket with a local and a remote address.
fn question((local, remote): SocketAddresses) -> [u8; QUESTION] {
    let mut bytes = Vec::with_capacity(QUESTION);
    bytes.extend(u32::try_from(QUESTION).unwrap_or_default().to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    // Sequence number and port id: one question is under way, and the kernel fills in the id.
    bytes.extend([0; 8]);
    // Family, protocol, extensions, and all states, which a question for one socket does not look at.
    bytes.extend([INET, TCP, ASK_INFO, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        bytes.extend(address.ip().octets());
        bytes.extend([0; 12]);
    }
    // Any interface, and no cookie.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([0xff; 8]);
    bytes.try_into().expect("the parts of a question have its length")
}

/// The socket of an answer; `None` if there is none with these addresses.
fn state(answer: &[u8]) -> Result<Option<SocketState>, Errno> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).map(u64::from).ok_or(Errno::BADMSG)
    };
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(BY_FAMILY) => {
            // Of a listener the kernel tells there how many connections may wait.
            let is_listener = answer[STATE] == LISTEN;
            let undelivered = if is_listener { 0 } else { number(UNACKNOWLEDGED)? };
            let queues = SocketQueues { undelivered, unread: number(UNREAD)? };
            let counts = if is_listener { None } else { info(answer).and_then(counts) };
            Ok(Some(SocketState { queues, inode: number(INODE)?, counts }))
        }
        Some(ERROR)
            if number(HEADER)? == u64::from(Errno::NOENT.raw_os_error().wrapping_neg().cast_unsigned()) =>
        {
            Ok(None)
        }
        _ => Err(Errno::BADMSG),
    }
}

/// The `tcp_info` of an answer.
fn info(answer: &[u8]) -> Option<&[u8]> {
    let mut attributes = answer.get(ATTRIBUTES..)?;
    loop {
        let half = |at: usize| Some(u16::from_ne_bytes(attributes.get(at..at + 2)?.try_into().ok()?));
        let (length, kind) = (usize::from(half(0)?), half(2)?);
        if kind == INFO {
            return attributes.get(4..length);
        }
        // Attributes begin at multiples of four, and none is shorter than its own head.
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

/// The counts of a `tcp_info`; `None` if the kernel is older than they are.
fn counts(info: &[u8]) -> Option<SocketCounts> {
    let long = |at: usize| Some(u64::from_ne_bytes(info.get(at..at + 8)?.try_into().ok()?));
    let unsent = info.get(BYTES_UNSENT..BYTES_UNSENT + 4)?.try_into().ok()?;
    Some(SocketCounts {
        sent: long(BYTES_SENT)?.saturating_sub(long(BYTES_SENT_AGAIN)?),
        unsent: u64::from(u32::from_ne_bytes(unsent)),
        received: long(BYTES_RECEIVED)?,
    })
}
