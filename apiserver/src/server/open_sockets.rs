//! [`OpenSockets`]: the addresses of a listener's connections, for embedders that ask the kernel what their sockets hold.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

/// The open connections of a listener, from the moment at which it accepts them until their sockets are closed, also as another protocol
/// after an upgrade. A connection that the kernel has made and the listener has not accepted is none of them.
#[derive(Debug, Default)]
pub struct OpenSockets(Mutex<OpenState>);

#[derive(Debug, Default)]
struct OpenState {
    addresses: BTreeMap<u64, (SocketAddr, SocketAddr)>,
    next: u64,
}

impl OpenSockets {
    /// The local and the remote address of each open connection, with IPv4 addresses of sockets for both families as such.
    pub fn addresses(&self) -> Vec<(SocketAddr, SocketAddr)> {
        self.0.lock().addresses.values().copied().collect()
    }

    /// Accepts a connection, which is open until the [`OpenSocket`] is dropped. At each moment it waits to be accepted or is open: it is
    /// never missing between the two.
    ///
    /// # Errors
    /// As [`TcpListener::accept`].
    pub async fn accept(
        self: &Arc<Self>,
        listener: &TcpListener,
    ) -> io::Result<(TcpStream, SocketAddr, OpenSocket)> {
        poll_fn(|context| {
            let mut open = self.0.lock();
            let accepted = listener.poll_accept(context);
            accepted.map_ok(|(socket, peer)| {
                let id = open.next;
                open.next += 1;
                if let Ok(local) = socket.local_addr() {
                    let canonical =
                        |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
                    open.addresses.insert(id, (canonical(local), canonical(peer)));
                }
                (socket, peer, OpenSocket { open: self.clone(), id })
            })
        })
        .await
    }
}

/// An open connection of [`OpenSockets`].
#[derive(Debug)]
pub struct OpenSocket {
    open: Arc<OpenSockets>,
    id: u64,
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.open.0.lock().addresses.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_open_from_its_acceptance_to_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (open, address) = (Arc::new(OpenSockets::default()), listener.local_addr().unwrap());
        let client = TcpStream::connect(address).await.unwrap();
        assert_eq!(open.addresses(), [], "it is not accepted");
        let (_socket, peer, known) = open.accept(&listener).await.unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert_eq!(open.addresses(), [(address, peer)]);
        let _second = TcpStream::connect(address).await.unwrap();
        let (_socket, second, _known) = open.accept(&listener).await.unwrap();
        drop(known);
        assert_eq!(open.addresses(), [(address, second)]);
    }
}
