//! The streams of a runtime: a call returns a URL, at which its streaming server runs a command, attaches a client or forwards a port, by
//! SPDY/3.1. Kubernetes' servers speak WebSocket, too, but older ones have no way to end a command's input there.

mod connection;
mod port;
mod remote;

pub use connection::StreamError;
pub use port::forward;
pub use remote::{RemoteEnd, RemoteInput, RemoteOutput, RemotePiece, open};
