//! `pods/exec` and `pods/attach` over SPDY, for clients older than WebSockets: one SPDY stream per channel.

use super::upgrade::SpdyHandshake;
use super::{StreamKind, StreamRequest, Streams};
use crate::tunnel::{FromNode, Reader, Writer};
use axum::body::Body;
use http::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kstore_api::status::{Outcome, Status};
use kstore_spdy::{Connection, Event, Sender};
use kstore_storage::limits::STREAM_BEGIN;

/// Protocol versions, the newest first.
const PROTOCOLS: [&str; 4] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// The SPDY stream of each channel.
#[derive(Default)]
struct ChannelStreams {
    error: Option<u32>,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

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
        let flag = |name| usize::from(request.query.flag(name));
        let tty = flag("tty");
        // A terminal has no stderr, and since version 3 a stream of its sizes.
        let sizes = usize::from(matches!(protocol, "v4.channel.k8s.io" | "v3.channel.k8s.io")) * tty;
        let expected = 1 + flag("stdin") + flag("stdout") + flag("stderr") * (1 - tty) + sizes;
        let (response, upgrade) = handshake.accept(protocol);
        self.spawn_stream(
            request.expiry,
            copy_both_ways(upgrade, expected, protocol == PROTOCOLS[0], reader, writer),
        );
        Ok(response)
    }
}

/// Copies data in both directions until the node reports the result or the client leaves. `json`: the result
/// is sent as a Status.
async fn copy_both_ways(upgrade: OnUpgrade, expected: usize, json: bool, mut reader: Reader, writer: Writer) {
    let Ok(upgraded) = upgrade.await else { return };
    let (mut connection, writing) = Connection::raw(TokioIo::new(upgraded));
    let talking = async {
        let opened = tokio::time::timeout(STREAM_BEGIN, streams(&mut connection, expected)).await;
        let Ok(Some(ids)) = opened else { return };
        let sender = connection.sender();
        tokio::select! {
            biased;
            status = from_node(&mut reader, &sender, &ids) => end(&sender, &ids, &status, json).await,
            () = from_client(&mut connection, &writer, &ids) => {}
        }
        drop(connection);
    };
    tokio::join!(writing, talking);
}

/// Waits until the client has opened all its streams; `None` if it leaves before, or opens an unknown one.
async fn streams(connection: &mut Connection, expected: usize) -> Option<ChannelStreams> {
    let mut ids = ChannelStreams::default();
    let mut count = 0;
    while count < expected {
        let Event::Opened(id, headers) = connection.next().await? else { continue };
        let slot = match headers.get("streamtype").map(String::as_str) {
            Some("error") => &mut ids.error,
            Some("stdin") => &mut ids.stdin,
            Some("stdout") => &mut ids.stdout,
            Some("stderr") => &mut ids.stderr,
            Some("resize") => &mut ids.resize,
            Some(_) | None => return None,
        };
        *slot = Some(id);
        count += 1;
    }
    Some(ids)
}

/// Sends the node's data to the client. Returns the result of the stream.
async fn from_node(reader: &mut Reader, sender: &Sender, ids: &ChannelStreams) -> Status {
    loop {
        match reader.next().await {
            Some(FromNode::Data { channel, data, .. }) => {
                let id = if channel == 2 { ids.stderr } else { ids.stdout };
                if let Some(id) = id {
                    sender.data(id, &data).await;
                }
            }
            Some(FromNode::Begun) => {}
            Some(FromNode::Closed(status)) => return *status,
            None => return Status::internal("the tunnel to the node ended"),
        }
    }
}

async fn end(sender: &Sender, ids: &ChannelStreams, status: &Status, json: bool) {
    let text = match (json, status.status) {
        (true, _) => status.to_json(),
        (false, Outcome::Failure) => status.message.clone().into_bytes(),
        (false, Outcome::Success) => Vec::new(),
    };
    if let Some(error) = ids.error {
        sender.data(error, &text).await;
    }
    for id in [ids.stdout, ids.stderr, ids.error].into_iter().flatten() {
        sender.end(id).await;
    }
}

/// Sends the client's data to the node. Returns when the client has left.
async fn from_client(connection: &mut Connection, writer: &Writer, ids: &ChannelStreams) {
    while let Some(event) = connection.next().await {
        match event {
            Event::Data(id, data) if Some(id) == ids.stdin => drop(writer.send(0, data).await),
            Event::Data(id, data) if Some(id) == ids.resize => drop(writer.send(4, data).await),
            Event::Ended(id) if Some(id) == ids.stdin => drop(writer.end(0).await),
            Event::Data(..) | Event::Ended(_) | Event::Opened(..) => {}
        }
    }
}
