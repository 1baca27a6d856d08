//! Messages of rtnetlink that configure the interfaces of a new network namespace: as bytes, and sent to the kernel.

use super::supervisor::cannot;
use rustix_namespaces::io::Errno;
use rustix_namespaces::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use std::io::{Error, Result};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Types of messages.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const ERROR: u16 = 2;
/// `NLM_F_REQUEST` and `NLM_F_ACK`.
const ANSWERED: u16 = 1 | 4;
/// `NLM_F_EXCL` and `NLM_F_CREATE`.
const CREATE: u16 = 0x200 | 0x400;
/// `IFF_UP`.
const UP: u32 = 1;
/// Attributes of links, addresses and routes.
const LINK_MTU: u16 = 4;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const OUTPUT: u16 = 4;
/// `IFLA_AF_SPEC` has attributes of a family, `IFLA_INET_CONF` its settings by their numbers, and `IPV4_DEVCONF_ROUTE_LOCALNET` is one.
const FAMILIES: u16 = 26;
const SETTINGS: u16 = 1;
const ROUTE_LOCALNET: u16 = 26;
/// `IFA_F_NODAD`: no other host has the address.
const UNIQUE: u8 = 2;
/// The families of addresses.
const INET: u8 = 2;
const INET6: u8 = 10;
/// The bytes of a message's header.
const HEADER: usize = 16;

/// A message to the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((ANSWERED | flags).to_ne_bytes());
        // Sequence number and port id are zero: the socket has one request under way, and the kernel fills in the id.
        bytes.extend([0; 8]);
        Self(bytes)
    }

    fn with(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn attribute(self, kind: u16, value: &[u8]) -> Self {
        self.with(&attribute(kind, value))
    }

    /// The message with its length.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        let length = u32::try_from(bytes.len()).expect("messages are short");
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }
}

/// An attribute of a message, padded.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).expect("values are short");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Lets packets to and from 127.0.0.0/8 pass an interface, so that its other end reaches what listens on the loopback interface alone.
pub(super) fn route_loopback(index: u32) -> Message {
    let setting = attribute(SETTINGS, &attribute(ROUTE_LOCALNET, &1_u32.to_ne_bytes()));
    let message = Message::new(NEW_LINK, 0).with(&[0; 4]).with(&index.to_ne_bytes()).with(&[0; 8]);
    message.attribute(FAMILIES, &attribute(INET.into(), &setting))
}

/// Sets an interface up, with the most bytes of its packets if that is given.
pub(super) fn up(index: u32, mtu: Option<u32>) -> Message {
    let mut message = Message::new(NEW_LINK, 0).with(&[0; 4]).with(&index.to_ne_bytes());
    message = message.with(&UP.to_ne_bytes()).with(&UP.to_ne_bytes());
    match mtu {
        Some(mtu) => message.attribute(LINK_MTU, &mtu.to_ne_bytes()),
        None => message,
    }
}

/// Gives an interface an address that is alone in its network.
pub(super) fn address(index: u32, address: IpAddr) -> Message {
    let (family, prefix, bytes) = match address {
        IpAddr::V4(ip) => (INET, 32, ip.octets().to_vec()),
        IpAddr::V6(ip) => (INET6, 128, ip.octets().to_vec()),
    };
    let message = Message::new(NEW_ADDRESS, CREATE).with(&[family, prefix, UNIQUE, 0]);
    message.with(&index.to_ne_bytes()).attribute(LOCAL, &bytes).attribute(ADDRESS, &bytes)
}

/// Leads all packets of the family of an address to an interface.
pub(super) fn default_route(index: u32, address: IpAddr) -> Message {
    let family = if address.is_ipv4() { INET } else { INET6 };
    // The main table, set at boot, on the link, to one host each.
    let message = Message::new(NEW_ROUTE, CREATE).with(&[family, 0, 0, 0, 254, 3, 253, 1]).with(&[0; 4]);
    message.attribute(OUTPUT, &index.to_ne_bytes())
}

/// A socket over which the kernel gets messages.
#[derive(Debug)]
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    /// Opens a socket to the kernel, about this process's network namespace.
    pub(super) fn open() -> Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None);
        socket.map(Self).map_err(cannot("a socket of netlink"))
    }

    /// Sends a message, and waits for the kernel's answer.
    pub(super) fn request(&self, message: &Message) -> Result<()> {
        send(self.0.as_fd(), &message.bytes(), SendFlags::empty())?;
        let mut answer = [0; 4096];
        let length = recv(self.0.as_fd(), &mut answer, RecvFlags::empty())?;
        outcome(&answer[..length.min(answer.len())])
    }
}

/// What the kernel answers.
fn outcome(answer: &[u8]) -> Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    let code =
        answer.get(HEADER..HEADER + 4).and_then(|bytes| Some(i32::from_ne_bytes(bytes.try_into().ok()?)));
    match (kind, code) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(code)) => Err(Errno::from_raw_os_error(-code).into()),
        (_, _) => Err(Error::other("an answer of netlink that is none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_lengths_and_attributes_are_aligned() {
        let bytes = address(2, "10.1.2.3".parse().unwrap()).bytes();
        assert_eq!(bytes.len(), 16 + 8 + 8 + 8);
        assert_eq!(bytes[..4], 40_u32.to_ne_bytes());
        assert_eq!(bytes[16..20], [INET, 32, UNIQUE, 0]);
        assert_eq!(bytes[28..32], [10, 1, 2, 3]);
        let route = default_route(3, "fd00::1".parse().unwrap()).bytes();
        assert_eq!((route.len(), route[16]), (16 + 12 + 8, INET6));
        assert_eq!(up(1, None).bytes().len(), 32);
        let settings = route_loopback(2).bytes();
        let nested = [(20_u16, FAMILIES), (16, INET.into()), (12, SETTINGS), (8, ROUTE_LOCALNET)];
        let heads: Vec<u8> = nested
            .iter()
            .flat_map(|(length, kind)| [length.to_ne_bytes(), kind.to_ne_bytes()].concat())
            .collect();
        assert_eq!(settings[32..], [heads, 1_u32.to_ne_bytes().to_vec()].concat());
        assert_eq!(up(1, Some(9000)).bytes()[36..], 9000_u32.to_ne_bytes());
    }

    #[test]
    fn the_kernels_answer_is_success_or_its_error() {
        let answer = |code: i32| {
            let mut bytes = Message::new(ERROR, 0).bytes();
            bytes.extend(code.to_ne_bytes());
            outcome(&bytes)
        };
        assert!(answer(0).is_ok());
        assert_eq!(answer(-17).unwrap_err().raw_os_error(), Some(17));
        assert!(outcome(&[]).is_err());
    }
}
