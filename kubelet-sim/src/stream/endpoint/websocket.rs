//! Streams of clients over WebSockets: the first byte of a message is its channel, and ports are forwarded over SPDY inside.

use super::Endpoint;
use super::session::lost;
use super::tokens::Ticket;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use kstore_api::status::Status;
use kstore_client::{LocalEvent, LocalReceiver, LocalSender};
use kstore_spdy::websocket::tunnelled;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// The protocols of commands and attached clients, the preferred first.
pub(super) const CHANNELS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// The protocol of forwarded ports.
pub(super) const PORTS: [&str; 1] = ["SPDY/3.1+portforward.k8s.io"];
/// The channel of the result.
const RESULT: u8 = 3;
/// The channel of messages by which a client closes another channel, since version 5.
const CLOSE: u8 = 255;

impl Endpoint {
    /// Serves a command or an attached client. `closes`: the client closes its input by a message.
    pub(super) async fn serve_websocket<S>(&self, ticket: Ticket, socket: WebSocketStream<S>, closes: bool)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let mut opened = self.open(ticket.request, ticket.is_of_simulation);
        let to_node = &opened.sender;
        let (mut outgoing, mut incoming) = socket.split();
        let from_client = async {
            while let Some(Ok(message)) = incoming.next().await {
                let data = match message {
                    Message::Binary(data) => data,
                    Message::Text(text) => Bytes::from(text),
                    Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => continue,
                };
                pass(to_node, data, closes).await;
            }
        };
        tokio::select! {
            biased;
            () = self.tasks.stop().cancelled() => {}
            status = to_client(&mut opened.receiver, &mut outgoing) => {
                let _ = outgoing.send(encoded(RESULT, &status.to_json())).await;
                // The client may have left.
                let _ = outgoing.close().await;
            }
            () = from_client => {}
        }
    }

    /// Serves the connections to ports of a pod over SPDY inside of a WebSocket.
    pub(super) async fn serve_websocket_ports<S>(&self, ticket: Ticket, socket: WebSocketStream<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (connection, writing) = tunnelled(socket);
        tokio::join!(writing, self.serve_ports(ticket, connection));
    }
}

/// Sends a message of a client to the container.
async fn pass(to_node: &LocalSender, data: Bytes, closes: bool) {
    let Some((&channel, _)) = data.split_first() else { return };
    let rest = data.slice(1..);
    match (channel, rest.first()) {
        (CLOSE, Some(&closed)) if closes => drop(to_node.end(closed.into()).await),
        // What the client has sent to a command that has ended is lost.
        _ => drop(to_node.send(channel.into(), rest).await),
    }
}

fn encoded(channel: u8, data: &[u8]) -> Message {
    let mut message = BytesMut::with_capacity(data.len() + 1);
    message.put_u8(channel);
    message.put_slice(data);
    Message::Binary(message.freeze())
}

/// Sends what a container prints to the client. Returns the result of the stream.
async fn to_client<S>(
    receiver: &mut LocalReceiver,
    outgoing: &mut SplitSink<WebSocketStream<S>, Message>,
) -> Status
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match receiver.next().await {
            Some(LocalEvent::Data(channel, data)) => {
                let channel = u8::try_from(channel).unwrap_or(1);
                if outgoing.send(encoded(channel, &data)).await.is_err() {
                    return lost();
                }
            }
            Some(LocalEvent::Begun) => {}
            Some(LocalEvent::Closed(status)) => return *status,
            None => return lost(),
        }
    }
}
