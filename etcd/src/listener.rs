//! [`Listener`]: accepts connections over TCP or a Unix socket.

use std::io;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A socket that accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// For machines that can reach the address.
    Tcp(TcpListener),
    /// For processes of this machine that may write to the socket file.
    Unix(UnixListener),
}

/// An accepted connection.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Accepts the next connection. Cancel safe.
    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(socket, _)| Socket::Tcp(socket)),
            Self::Unix(listener) => listener.accept().await.map(|(socket, _)| Socket::Unix(socket)),
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}
