//! `pods/exec` and `pods/attach` over WebSockets: copies between the channels of the client and those of the
//! node.

use super::protocol::{self, Frame, Protocol};
use super::websocket::{self, Handshake, Incoming, Opening, Outgoing};
use super::{StreamKind, StreamRequest, Streams};
use crate::tunnel::{FromNode, Reader, Writer};
use axum::body::Body;
use futures::StreamExt as _;
use http::Response;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_storage::limits::CLIENT_STREAMS;
use pb::stream_open::What;

impl Streams {
    /// Serves an `exec` or `attach` on a WebSocket.
    pub(super) async fn remote(
        &self,
        which: StreamKind,
        request: &StreamRequest<'_>,
        handshake: Handshake,
    ) -> Result<Response<Body>, Status> {
        let protocol = protocol::channels(&handshake.offered)
            .ok_or_else(|| websocket::no_protocol(&handshake.offered))?;
        let (reader, writer) = self.open_remote(which, request).await?;
        let (response, opening) = handshake.accept(protocol.name);
        let out = request.query.flag("stdout");
        self.spawn_stream(request.expiry, copy_both_ways(opening, protocol, out, reader, writer));
        Ok(response)
    }

    /// Opens the stream of an `exec` or `attach` and waits until the node has accepted it.
    pub(super) async fn open_remote(
        &self,
        which: StreamKind,
        request: &StreamRequest<'_>,
    ) -> Result<(Reader, Writer), Status> {
        let open = self.remote_request(which, request)?;
        let verb = which.subresource();
        let url = format!("{verb}/{}/{}/{}", open.namespace, open.pod, open.container);
        self.open(request.user, open, &url).await
    }

    /// The request to the node.
    pub(super) fn remote_request(
        &self,
        which: StreamKind,
        request: &StreamRequest<'_>,
    ) -> Result<pb::StreamOpen, Status> {
        let flag = |name| request.query.flag(name);
        let (stdin, stdout, tty) = (flag("stdin"), flag("stdout"), flag("tty"));
        // A terminal has a single output stream.
        let stderr = flag("stderr") && !tty;
        let container =
            self.pipeline.connected_pod(&request.target)?.container(request.query.get("container"))?;
        let location = self.pipeline.connected_bound_pod(&request.target)?;
        if !(stdin || stdout || stderr) {
            return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        let command: Vec<String> = request.query.all("command").map(str::to_owned).collect();
        let what = match which {
            StreamKind::Exec if command.is_empty() => {
                return Err(Status::bad_request("you must specify at least one command for the container"));
            }
            StreamKind::Exec => What::Exec(pb::ExecStream { command, stdin, stdout, stderr, tty }),
            StreamKind::Attach | StreamKind::Log | StreamKind::PortForward => {
                What::Attach(pb::AttachStream { stdin, stdout, stderr, tty })
            }
        };
        let (namespace, pod) = (request.target.namespace.clone(), request.target.name.clone());
        let uid = location.uid().to_owned();
        Ok(pb::StreamOpen { id: 0, node: location.node, namespace, pod, uid, container, what: Some(what) })
    }
}

/// Copies data in both directions until the node reports the result or the client leaves.
async fn copy_both_ways(opening: Opening, protocol: Protocol, out: bool, mut reader: Reader, writer: Writer) {
    let Some(socket) = opening.socket().await else { return };
    let (mut outgoing, mut incoming) = socket.split();
    if protocol.greets() {
        let channel = if out { 1 } else { 3 };
        if websocket::send(&mut outgoing, protocol.encode(channel, b"")).await.is_err() {
            return;
        }
    }
    // kubectl drops data on a channel that arrives before it has created the channel's stream, and it reads
    // before it has created all of them. Without the pause, a command that fails at once would seem to have
    // succeeded.
    tokio::time::sleep(CLIENT_STREAMS).await;
    let ended = tokio::select! {
        biased;
        ended = from_node(&mut reader, &mut outgoing, protocol) => ended,
        () = from_client(&mut incoming, &writer, protocol) => return,
    };
    let Some(status) = ended else { return };
    if let Some(message) = protocol.encode_end(&status)
        && websocket::send(&mut outgoing, message).await.is_err()
    {
        return;
    }
    websocket::close(outgoing, incoming).await;
}

/// Sends the node's data to the client. Returns the result of the stream; `None` if the client has left.
async fn from_node(reader: &mut Reader, outgoing: &mut Outgoing, protocol: Protocol) -> Option<Status> {
    loop {
        match reader.next().await {
            Some(FromNode::Data { channel, data, .. }) => {
                let message = protocol.encode(u8::try_from(channel).unwrap_or(2), &data);
                websocket::send(outgoing, message).await.ok()?;
            }
            Some(FromNode::Begun) => {}
            Some(FromNode::Closed(status)) => return Some(*status),
            None => return Some(Status::internal("the tunnel to the node ended")),
        }
    }
}

/// Sends the client's data to the node. Returns when the client has left.
async fn from_client(incoming: &mut Incoming, writer: &Writer, protocol: Protocol) {
    while let Some(frame) = websocket::next(incoming, protocol).await {
        let goes_on = match frame {
            Frame::Data(channel @ (0 | 4), data) => writer.send(u32::from(channel), data).await,
            Frame::End(channel) => writer.end(u32::from(channel)).await,
            // Clients send data on no other channel.
            Frame::Data(..) => true,
        };
        if !goes_on {
            // The node has ended the stream; its last data is still being sent.
            return std::future::pending().await;
        }
    }
}
