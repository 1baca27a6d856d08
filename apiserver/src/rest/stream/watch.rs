//! Watches on a WebSocket: sends the events of the HTTP response as messages. The watch itself bounds its
//! backlog; a slow WebSocket client slows down the watch.

use super::websocket::{self, Handshake, Outgoing};
use super::{Expiry, Streams};
use crate::rest::header;
use axum::body::Body;
use bytes::{Buf as _, Bytes};
use futures::{SinkExt as _, StreamExt as _};
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use kstore_access::authn::service_account::is_token;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

impl Streams {
    /// Sends the events of `response` on a WebSocket. A refusal is returned unchanged.
    pub(in crate::rest) fn watch(&self, handshake: Handshake, response: Response<Body>) -> Response<Body> {
        if response.status() != StatusCode::OK {
            return response;
        }
        let binary = header(response.headers(), CONTENT_TYPE.as_str()).contains("protobuf");
        let mut events = response.into_body().into_data_stream();
        // The protocol has no effect on a watch, but a client that offers some expects one of them in the
        // response.
        let offered = handshake.offered.clone();
        let mut protocols = offered.split(',').map(str::trim).filter(|name| !is_token(name));
        let (response, opening) = handshake.accept(protocols.next().unwrap_or_default());
        // The response ends by itself when the credentials expire.
        self.spawn_stream(Expiry::NEVER, async move {
            let Some(socket) = opening.socket().await else { return };
            let (mut outgoing, mut incoming) = socket.split();
            let sending = async {
                while let Some(Ok(chunk)) = events.next().await {
                    if send(&mut outgoing, chunk, binary).await.is_err() {
                        return false;
                    }
                }
                true
            };
            // The only input from the client is its end.
            let gone = async { while let Some(Ok(_)) = incoming.next().await {} };
            let ended = tokio::select! {
                biased;
                ended = sending => ended,
                () = gone => false,
            };
            if ended {
                websocket::close(outgoing, incoming).await;
            }
        });
        response
    }
}

async fn send(outgoing: &mut Outgoing, chunk: Bytes, binary: bool) -> Result<(), Error> {
    for message in messages(chunk, binary) {
        outgoing.feed(message).await?;
    }
    outgoing.flush().await
}

/// Splits a chunk into its whole events: lines of JSON, or protobuf messages, whose length prefixes HTTP
/// needs and messages do not.
fn messages(mut chunk: Bytes, binary: bool) -> impl Iterator<Item = Message> {
    std::iter::from_fn(move || {
        if binary {
            let length = chunk.try_get_u32().ok()? as usize;
            return Some(Message::Binary(chunk.split_to(length.min(chunk.len()))));
        }
        let length = chunk.iter().position(|byte| *byte == b'\n').map_or(chunk.len(), |end| end + 1);
        let line = Some(chunk.split_to(length)).filter(|line| !line.is_empty())?;
        Some(Message::Text(Utf8Bytes::try_from(line).expect("events are JSON")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_a_message() {
        let all =
            |bytes: &'static [u8], binary| messages(Bytes::from_static(bytes), binary).collect::<Vec<_>>();
        let texts = [Message::text("{\"a\":1}\n"), Message::text("{}\n")];
        assert_eq!(all(b"{\"a\":1}\n{}\n", false), texts);
        let binaries = [Message::binary(&b"ab"[..]), Message::binary(&b""[..]), Message::binary(&b"c"[..])];
        assert_eq!(all(b"\0\0\0\x02ab\0\0\0\0\0\0\0\x01c", true), binaries);
        assert_eq!(all(b"", true), []);
    }
}
