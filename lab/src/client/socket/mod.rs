//! What the kernel holds of TCP connections over IPv4: bytes that it has not delivered, and whose a socket is. Linux only; elsewhere
//! nothing is known, and the window of real time decides.

#[cfg(target_os = "linux")]
mod diagnostics;
mod table;

#[cfg(target_os = "linux")]
use diagnostics::Diagnostics;
use kstore_apiserver::OpenSockets;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// The local and the remote address of a socket. Those of a listener are its own and `0.0.0.0:0`.
pub type SocketAddresses = (SocketAddrV4, SocketAddrV4);

/// The remote address of a listener.
const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// Bytes of one end of a connection that its other side has not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketQueues {
    /// Sent and not received by the other end; not acknowledged by it, if this machine does not know what it has received.
    pub undelivered: u64,
    /// Received and not read by the program; of a listener, the connections that it has not accepted.
    pub unread: u64,
}

/// What the kernel tells of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketState {
    /// `undelivered` is what is not acknowledged.
    pub(crate) queues: SocketQueues,
    /// The number of its file; 0: no program has it.
    pub(crate) inode: u64,
    /// `None`: the kernel does not tell them.
    pub(crate) counts: Option<SocketCounts>,
}

/// Bytes of a connection since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketCounts {
    /// Sent, each byte once.
    pub(crate) sent: u64,
    /// Written by the program and not sent.
    pub(crate) unsent: u64,
    /// Received.
    pub(crate) received: u64,
}

impl SocketState {
    /// The queues, where `other` is the other end if this machine has it. A kernel acknowledges what it has received up to 40 ms later, and
    /// a client that has read all would count as busy until then.
    fn queues(&self, other: Option<&Self>) -> SocketQueues {
        let counts = self.counts.zip(other.and_then(|other| other.counts));
        let is_delivered =
            |(here, there): (SocketCounts, SocketCounts)| here.unsent == 0 && there.received >= here.sent;
        match counts.is_some_and(is_delivered) {
            true => SocketQueues { undelivered: 0, ..self.queues },
            false => self.queues,
        }
    }
}

/// The sockets with these addresses, without those that this machine does not have.
pub(crate) fn states(wanted: &[SocketAddresses]) -> BTreeMap<SocketAddresses, SocketState> {
    #[cfg(target_os = "linux")]
    if let Some(found) = Diagnostics::shared().and_then(|asked| asked.states(wanted)) {
        return found;
    }
    table::states(wanted)
}

/// The queues of the listener at a port of this machine, of its open connections, and of the other ends of those that this machine has.
pub fn queues(port: u16, open: &OpenSockets) -> BTreeMap<SocketAddresses, SocketQueues> {
    // The listener comes first: a connection that it accepts meanwhile is open afterwards.
    let mut found = states(&[(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), ANY)]);
    let v4 = |address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    };
    let open = open.addresses().into_iter().filter_map(|(ours, peer)| Some((v4(ours)?, v4(peer)?)));
    let ends: Vec<SocketAddresses> = open.flat_map(|(ours, peer)| [(ours, peer), (peer, ours)]).collect();
    found.extend(states(&ends));
    let queues = |(&(local, remote), state): (&SocketAddresses, &SocketState)| {
        ((local, remote), state.queues(found.get(&(remote, local))))
    };
    found.iter().map(queues).collect()
}

/// Whether the listener at a port has not accepted all connections, or not read all that clients sent.
pub fn has_unread(queues: &BTreeMap<SocketAddresses, SocketQueues>, port: u16) -> bool {
    queues.iter().any(|((local, _), queues)| local.port() == port && queues.unread > 0)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt as _;

    fn v4(address: std::io::Result<SocketAddr>) -> SocketAddrV4 {
        match address.unwrap() {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(address) => panic!("{address}"),
        }
    }

    fn inode(socket: &TcpStream) -> u64 {
        use std::os::fd::AsRawFd as _;
        std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino()
    }

    /// Both ways to ask say the same of a listener and of a connection from its beginning to its end.
    #[test]
    fn single_questions_and_the_table_say_the_same() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = v4(listener.local_addr());
        let mut client = TcpStream::connect(ours).unwrap();
        let peer = v4(client.local_addr());
        let wanted = [(ours, ANY), (ours, peer), (peer, ours), (peer, peer)];
        let unread = || {
            let asked = Diagnostics::shared().expect("this kernel answers").states(&wanted).unwrap();
            let uncounted = |state: SocketState| SocketState { counts: None, ..state };
            let same: BTreeMap<_, _> = asked.iter().map(|(of, state)| (*of, uncounted(*state))).collect();
            assert_eq!(same, table::states(&wanted));
            [(ours, ANY), (ours, peer), (peer, ours)]
                .map(|of| asked.get(&of).map(|state| state.queues.unread))
        };
        assert_eq!(unread(), [Some(1), Some(0), Some(0)], "it is not accepted");
        let mut accepted = listener.accept().unwrap().0;
        client.write_all(b"hello").unwrap();
        assert_eq!(unread(), [Some(0), Some(5), Some(0)]);
        accepted.read_exact(&mut [0; 5]).unwrap();
        accepted.write_all(b"hi").unwrap();
        assert_eq!(unread(), [Some(0), Some(0), Some(2)]);
        let states = states(&wanted);
        assert_eq!(states[&(peer, ours)].inode, inode(&client));
        assert_eq!(states[&(ours, peer)].inode, inode(&accepted));
        assert!(!states.contains_key(&(peer, peer)));
        let counts = |of: SocketAddresses| states[&of].counts.map(|counts| (counts.sent, counts.received));
        assert_eq!([counts((ours, peer)), counts((peer, ours))], [Some((2, 5)), Some((5, 2))]);
        drop(listener);
        assert_eq!(unread()[0], None);
    }

    /// Regression: a client that had read an event counted as busy for the 40 ms by which its kernel delays an acknowledgement.
    #[test]
    fn what_the_other_end_has_received_is_delivered_before_it_is_acknowledged() {
        let state = |undelivered, counts: Option<(u64, u64, u64)>| SocketState {
            queues: SocketQueues { undelivered, unread: 3 },
            inode: 1,
            counts: counts.map(|(sent, unsent, received)| SocketCounts { sent, unsent, received }),
        };
        let here = state(10, Some((50, 0, 7)));
        let rows = [
            (state(0, Some((7, 0, 50))), 0),
            (state(0, Some((7, 0, 49))), 10),
            // Its end of the stream counts as a byte.
            (state(0, Some((7, 0, 51))), 0),
            (state(0, None), 10),
        ];
        for (other, undelivered) in rows {
            assert_eq!(here.queues(Some(&other)), SocketQueues { undelivered, unread: 3 }, "{other:?}");
        }
        assert_eq!(here.queues(None).undelivered, 10, "on another machine");
        let unsent = state(10, Some((50, 5, 7)));
        assert_eq!(unsent.queues(Some(&state(0, Some((7, 0, 50))))).undelivered, 10);
    }

    /// A socket for both families has an IPv4 connection, too.
    #[test]
    fn sockets_for_both_families_are_found_by_their_addresses() {
        // A machine without IPv6 has no such socket.
        let Ok(listener) = TcpListener::bind("[::]:0") else { return };
        let ours = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let mut client = TcpStream::connect(ours).unwrap();
        let peer = v4(client.local_addr());
        let accepted = listener.accept().unwrap().0;
        client.write_all(b"hello").unwrap();
        let wanted = [(ours, peer)];
        let asked = Diagnostics::shared().expect("this kernel answers").states(&wanted).unwrap();
        assert_eq!(asked.keys().collect::<Vec<_>>(), table::states(&wanted).keys().collect::<Vec<_>>());
        assert_eq!(asked[&(ours, peer)].inode, inode(&accepted));
        assert_eq!(asked[&(ours, peer)].queues.unread, 5);
    }
}
