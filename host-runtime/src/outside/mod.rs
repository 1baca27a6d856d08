//! The networks beyond a cluster, reached from this machine's own sockets for programs of pods: connections, datagrams and questions about
//! names. Nothing here decides what may be reached: callers have asked their rules before.

mod datagrams;
mod resolver;

pub use datagrams::OutsideFlows;
pub use resolver::ask;

use crate::gateway::{ByteStream, Unreached};
use crate::limits::{OUTSIDE_CONNECT_TIME, RELAY_BUFFER};
use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Whether an address is one of this machine's own. Where the system lets programs use addresses that it does not have
/// (`ip_nonlocal_bind`), every address counts as one.
pub fn is_own_address(address: IpAddr) -> bool {
    // Only an address of this machine can be that of a socket.
    std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// Connects from this machine to an address.
///
/// # Errors
/// Nothing listens there, there is no way, or no answer comes in the time that Linux waits by default.
pub async fn connect(to: SocketAddr) -> std::result::Result<TcpStream, Unreached> {
    match timeout(OUTSIDE_CONNECT_TIME, TcpStream::connect(to)).await {
        Err(_) => Err(Unreached::Vanished),
        Ok(Ok(stream)) => {
            // Each end decides itself what it gathers; a socket that cannot be told so is only slower.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
        Ok(Err(error)) => Err(why(&error)),
    }
}

fn why(error: &Error) -> Unreached {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Unreached::Refused,
        ErrorKind::TimedOut => Unreached::Vanished,
        _ => Unreached::NoRoute,
    }
}

/// Carries bytes between a connection of this machine and a stream until both directions have ended, or one of them fails: then both are
/// reset.
pub async fn relay(socket: TcpStream, stream: Box<dyn ByteStream>) {
    let (mut stream, mut socket) = (stream, socket);
    let result = {
        let (mut from_stream, mut to_stream) = tokio::io::split(&mut stream);
        let (mut from_socket, mut to_socket) = socket.split();
        tokio::try_join!(carry(&mut from_stream, &mut to_socket), carry(&mut from_socket, &mut to_stream))
    };
    if result.is_err() {
        stream.reset();
        // Bytes that were not sent yet are dropped with the connection. A socket that cannot be reset is closed.
        let _ = socket.set_zero_linger();
    }
}

/// Copies until the reader ends, and then ends what is written.
async fn carry(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
    let mut buffer = vec![0; RELAY_BUFFER];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            count => to.write_all(&buffer[..count]).await?,
        }
    }
}
