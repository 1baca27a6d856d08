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
    /// Sent and not acknowledged.
    pub unacknowledged: u64,
    /// Received and not read by the program; of a listener, the connections that it has not accepted.
    pub unread: u64,
}

/// What the kernel tells of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketState {
    pub(crate) queues: SocketQueues,
    /// The number of its file; 0: no program has it.
    pub(crate) inode: u64,
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
    found.into_iter().map(|(addresses, state)| (addresses, state.queues)).collect()
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
            assert_eq!(asked, table::states(&wanted));
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
        drop(listener);
        assert_eq!(unread()[0], None);
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
        assert_eq!(asked, table::states(&wanted));
        assert_eq!(asked[&(ours, peer)].inode, inode(&accepted));
        assert_eq!(asked[&(ours, peer)].queues.unread, 5);
    }
}
