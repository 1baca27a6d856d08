//! `pods/exec` and `pods/attach` over SPDY, for clients older than WebSockets: one SPDY stream per channel.

use super::upgrade::SpdyHandshake;
use super::{StreamKind, StreamRequest, Streams};
use crate::tunnel::{FromNode, Reader, Writer};
use axum::body::Body;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kstore_api::status::{Outcome, Status};
use kstore_spdy::{ChannelStreams, Connection, Sender, WantedChannels};
use kstore_storage::limits::STREAM_BEGIN;

/// Protocol versions, the newest first.
const PROTOCOLS: [&str; 4] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

impl Streams {
    /// Serves an `exec` or `attach` on SPDY.
    pub(super) async fn remote_spdy(
        &self,
        which: StreamKind,
        request: &StreamRequest<'_>,
        handshake: SpdyHandshake,
    ) -> Result<Response<Body>, Status> {
        let protocol = handshake.choose(&PROTOCOLS)?;
        let (reader, writer) = self.open_remote(which, request).await?;
        let flag = |name| request.query.flag(name);
        let wanted = WantedChannels {
            stdin: flag("stdin"),
            stdout: flag("stdout"),
            stderr: flag("stderr"),
            tty: flag("tty"),
            has_sizes: matches!(protocol, "v4.channel.k8s.io" | "v3.channel.k8s.io"),
        };
        let (response, upgrade) = handshake.accept(protocol);
        self.spawn_stream(
            request.expiry,
            copy_both_ways(upgrade, wanted, protocol == PROTOCOLS[0], reader, writer),
        );
        Ok(response)
    }
}

/// Copies data in both directions until the node reports the result or the client leaves. `json`: the result
/// is sent as a Status.
async fn copy_both_ways(
    upgrade: OnUpgrade,
    wanted: WantedChannels,
    json: bool,
    mut reader: Reader,
    writer: Writer,
) {
    let Ok(upgraded) = upgrade.await else { return };
    let (mut connection, writing) = Connection::raw(TokioIo::new(upgraded));
    let talking = async {
        let opened = ChannelStreams::opened(&mut connection, wanted);
        let opened = tokio::time::timeout(STREAM_BEGIN, opened).await;
        let Ok(Some(ids)) = opened else { return };
        let sender = connection.sender();
        tokio::select! {
            biased;
            status = from_node(&mut reader, &sender, &ids) => ids.end(&sender, &result(&status, json)).await,
            () = from_client(&mut connection, &writer, &ids) => {}
        }
        drop(connection);
    };
    tokio::join!(writing, talking);
}

/// Sends the node's data to the client. Returns the result of the stream.
async fn from_node(reader: &mut Reader, sender: &Sender, ids: &ChannelStreams) -> Status {
    loop {
        match reader.next().await {
            Some(FromNode::Data { channel, data, .. }) => {
                ids.output(sender, channel, &data).await;
            }
            Some(FromNode::Begun) => {}
            Some(FromNode::Closed(status)) => return *status,
            None => return Status::internal("the tunnel to the node ended"),
        }
    }
}

/// The result as the client reads it: a Status since version 4, and the text of a failure before.
fn result(status: &Status, json: bool) -> Vec<u8> {
    match (json, status.status) {
        (true, _) => status.to_json(),
        (false, Outcome::Failure) => status.message.clone().into_bytes(),
        (false, Outcome::Success) => Vec::new(),
    }
}

/// Sends the client's data to the node. Returns when the client has left.
async fn from_client(connection: &mut Connection, writer: &Writer, ids: &ChannelStreams) {
    while let Some(event) = connection.next().await {
        // What a client sends to a command that has ended is lost.
        match ids.input(event) {
            Some((channel, Some(data))) => drop(writer.send(channel, data).await),
            Some((channel, None)) => drop(writer.end(channel).await),
            None => {}
        }
    }
}
