//! WebSockets as servers of Kubernetes' streams begin them, and SPDY inside of one.

use crate::Connection;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// A client's handshake is not one of version 13 of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// It has no key.
    #[error("the WebSocket handshake is incomplete")]
    NoKey,
    /// It is of another version.
    #[error("only version 13 of the WebSocket protocol is served")]
    Version,
}

/// The value of `Sec-WebSocket-Accept` for those of the client's `Sec-WebSocket-Key` and `Sec-WebSocket-Version`.
///
/// # Errors
/// The handshake is incomplete or of another version.
pub fn accepted_key(key: &str, version: &str) -> Result<String, HandshakeError> {
    if key.is_empty() {
        return Err(HandshakeError::NoKey);
    }
    if version != "13" {
        return Err(HandshakeError::Version);
    }
    Ok(derive_accept_key(key.as_bytes()))
}

/// Makes the server's WebSocket from a connection whose handshake is done. `rest` are bytes after the handshake that the caller has read
/// already. A message of more than `most` bytes ends the connection.
pub async fn server_socket<S>(connection: S, rest: Vec<u8>, most: usize) -> WebSocketStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most));
    WebSocketStream::from_partially_read(connection, rest, Role::Server, Some(config)).await
}

/// A SPDY connection in the binary messages of a WebSocket, and the future that writes its bytes: run both concurrently.
pub fn tunnelled<S>(socket: WebSocketStream<S>) -> (Connection, impl Future<Output = ()> + Send)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut outgoing, incoming) = socket.split();
    let incoming = incoming.take_while(|message| std::future::ready(message.is_ok()));
    let incoming = incoming.filter_map(async |message| match message {
        Ok(Message::Binary(data)) => Some(data),
        _ => None,
    });
    let (connection, mut outbox) = Connection::inside(incoming);
    let writing = async move {
        while let Some(bytes) = outbox.recv().await {
            if outgoing.send(Message::Binary(bytes)).await.is_err() {
                return;
            }
        }
        let _ = outgoing.close().await;
    };
    (connection, writing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_specification_is_accepted() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        assert_eq!(accepted_key(key, "13").as_deref(), Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(accepted_key("", "13"), Err(HandshakeError::NoKey));
        assert_eq!(accepted_key(key, "8"), Err(HandshakeError::Version));
    }
}
