//! The bytes of a stream of the tunnel, copied to and from a connection with a simulated server.

use super::network::served;
use crate::limits::NETWORK_BUFFER;
use bytes::Bytes;
use kstore_client::{StreamReader, StreamWriter};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Copies in both directions between a stream of the tunnel and `connection`, until the client leaves or the connection's other end sends
/// no more. `serving` serves the other end meanwhile; it may return before the client has all bytes.
pub(super) async fn pipe(
    mut reader: StreamReader,
    writer: &StreamWriter,
    connection: impl AsyncRead + AsyncWrite,
    serving: Option<impl Future<Output = ()>>,
) {
    let (mut from_server, mut to_server) = tokio::io::split(connection);
    let incoming = async {
        while let Some(piece) = reader.next().await {
            if to_server.write_all(&piece.data).await.is_err() || piece.end {
                break;
            }
        }
        // The server may have gone; what it has sent is copied all the same.
        let _ = to_server.shutdown().await;
        std::future::pending::<()>().await;
    };
    let outgoing = async {
        let mut buffer = vec![0; NETWORK_BUFFER];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            if !writer.send(1, Bytes::copy_from_slice(&buffer[..length])).await {
                break;
            }
        }
    };
    tokio::select! {
        biased;
        () = writer.ended() => {}
        () = outgoing => {}
        () = incoming => {}
        () = served(serving) => {}
    }
}
