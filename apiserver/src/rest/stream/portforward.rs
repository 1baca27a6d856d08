//! `pods/portforward`: connections of the client to ports of the pod, each a stream to the node. Over SPDY,
//! plain or inside a WebSocket, clients open any number of connections; over a plain WebSocket there is one
//! per port in the query.

use super::protocol::{self, Frame, Protocol};
use super::upgrade::{SpdyHandshake, Upgrade};
use super::websocket::{self, Handshake, Outgoing, Socket};
use super::{StreamRequest, Streams, no_upgrade};
use crate::tunnel::{FromNode, Reader, Tunnels, Writer};
use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use http::Response;
use hyper_util::rt::TokioIo;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_spdy::websocket::tunnelled;
use kstore_spdy::{Connection, PortPairs, PortStreams, Sender};
use kstore_storage::limits::{FORWARD_PIECES, FORWARDED, STREAM_BEGIN};
use pb::stream_open::What;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The WebSocket subprotocol of SPDY inside a WebSocket.
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";

/// Opens connections to the ports of one pod.
#[derive(Clone)]
struct Ports {
    tunnels: Arc<Tunnels>,
    /// The user that forwards.
    user: Arc<str>,
    open: pb::StreamOpen,
}

impl Streams {
    pub(super) fn port_forward(
        &self,
        request: &StreamRequest<'_>,
        upgrade: Option<Upgrade>,
    ) -> Result<Response<Body>, Status> {
        let location = self.pipeline.connected_bound_pod(&request.target)?;
        let (namespace, pod) = (request.target.namespace.clone(), request.target.name.clone());
        let uid = location.uid().to_owned();
        let open = pb::StreamOpen { node: location.node, namespace, pod, uid, ..Default::default() };
        let ports = Ports { tunnels: self.tunnels.clone(), user: request.user.into(), open };
        match upgrade {
            None => Err(no_upgrade()),
            Some(Upgrade::WebSocket(handshake)) => self.forward_websocket(request, handshake, ports),
            Some(Upgrade::Spdy(handshake)) => self.forward_spdy(request, handshake, ports),
        }
    }

    fn forward_websocket(
        &self,
        request: &StreamRequest<'_>,
        handshake: Handshake,
        ports: Ports,
    ) -> Result<Response<Body>, Status> {
        if handshake.offered.split(',').any(|name| name.trim() == TUNNELLED) {
            let (response, opening) = handshake.accept(TUNNELLED);
            self.spawn_stream(request.expiry, async move {
                let Some(socket) = opening.socket().await else { return };
                let (connection, writing) = tunnelled(socket);
                tokio::join!(writing, forward(connection, ports));
            });
            return Ok(response);
        }
        let protocol =
            protocol::ports(&handshake.offered).ok_or_else(|| websocket::no_protocol(&handshake.offered))?;
        let numbers = request.query.all("ports").flat_map(|list| list.split(','));
        let numbers: Result<Vec<u16>, _> = numbers.map(|port| port.trim().parse::<u16>()).collect();
        let numbers =
            numbers.ok().filter(|ports| !ports.is_empty() && ports.len() < 64 && !ports.contains(&0));
        let text = "query parameter \"ports\" is required: ports between 1 and 65535";
        let numbers = numbers.ok_or_else(|| Status::bad_request(text))?;
        let (response, opening) = handshake.accept(protocol.name);
        self.spawn_stream(request.expiry, async move {
            if let Some(socket) = opening.socket().await {
                forward_channels(socket, protocol, &numbers, ports).await;
            }
        });
        Ok(response)
    }

    fn forward_spdy(
        &self,
        request: &StreamRequest<'_>,
        handshake: SpdyHandshake,
        ports: Ports,
    ) -> Result<Response<Body>, Status> {
        let protocol = handshake.choose(&["portforward.k8s.io"])?;
        let (response, upgrade) = handshake.accept(protocol);
        self.spawn_stream(request.expiry, async move {
            let Ok(upgraded) = upgrade.await else { return };
            let (connection, writing) = Connection::raw(TokioIo::new(upgraded));
            tokio::join!(writing, forward(connection, ports));
        });
        Ok(response)
    }
}

impl Ports {
    /// Opens a connection to a port; the error is a text for the client.
    async fn connect(&self, port: u16) -> Result<(Reader, Writer), String> {
        let what = Some(What::Port(pb::PortStream { port: port.into() }));
        let open = pb::StreamOpen { what, ..self.open.clone() };
        let stream = self.tunnels.open(&*self.user, open).map_err(|error| error.to_string())?;
        match tokio::time::timeout(STREAM_BEGIN, stream.begun()).await {
            Ok(Ok(halves)) => Ok(halves),
            Ok(Err(Some(status))) => Err(status.message),
            Ok(Err(None)) => Err("the tunnel to the node ended".to_owned()),
            Err(_) => Err("the node does not answer".to_owned()),
        }
    }
}

/// Serves the connections of a client until it leaves.
async fn forward(mut connection: Connection, ports: Ports) {
    let mut tasks = JoinSet::new();
    let mut pairs = PortPairs::new(FORWARDED, FORWARD_PIECES);
    while let Some(event) = connection.next().await {
        while tasks.try_join_next().is_some() {}
        let sender = connection.sender();
        if let Some(streams) = pairs.handle(event, &sender, tasks.len()).await {
            tasks.spawn(serve(streams, ports.clone(), sender));
        }
    }
}

/// Serves one connection until it ends.
async fn serve(streams: PortStreams, ports: Ports, sender: Sender) {
    let PortStreams { port, data, error, mut input } = streams;
    match ports.connect(port).await {
        Err(why) => drop(sender.data(error, why.as_bytes()).await),
        Ok((mut reader, writer)) => {
            let to_node = async {
                while let Some(piece) = input.recv().await {
                    if !writer.send(0, piece).await {
                        break;
                    }
                }
                writer.end(0).await;
                std::future::pending::<()>().await;
            };
            let from_node = async {
                while let Some(FromNode::Data { channel, data: bytes, .. }) = reader.next().await {
                    let id = if channel == 2 { error } else { data };
                    if !sender.data(id, &bytes).await {
                        return;
                    }
                }
            };
            tokio::select! {
                biased;
                () = from_node => {}
                () = to_node => {}
            }
        }
    }
    sender.end(data).await;
    sender.end(error).await;
}

/// Serves one connection per port: channel 2n has its data, channel 2n + 1 its errors. Each channel begins
/// with the port's number.
async fn forward_channels(socket: Socket, protocol: Protocol, numbers: &[u16], ports: Ports) {
    let (mut outgoing, mut incoming) = socket.split();
    let (sender, mut outbox) = mpsc::channel(FORWARD_PIECES);
    let (mut tasks, mut inboxes) = (JoinSet::new(), Vec::new());
    for (channel, port) in (0..).step_by(2).zip(numbers) {
        for channel in [channel, channel + 1] {
            let hello = protocol.encode(channel, &port.to_le_bytes());
            if websocket::send(&mut outgoing, hello).await.is_err() {
                return;
            }
        }
        let (inbox, pieces) = mpsc::channel(FORWARD_PIECES);
        inboxes.push(inbox);
        tasks.spawn(serve_channel(channel, *port, pieces, ports.clone(), sender.clone()));
    }
    drop(sender);
    let from_client = async {
        while let Some(frame) = websocket::next(&mut incoming, protocol).await {
            if let Frame::Data(channel, data) = frame
                && let (0, Some(inbox)) = (channel % 2, inboxes.get(usize::from(channel / 2)))
            {
                // A connection that has ended accepts no more data.
                let _ = inbox.send(data).await;
            }
        }
    };
    tokio::select! {
        biased;
        () = to_client(&mut outgoing, &mut outbox, protocol) => {}
        () = from_client => return,
    }
    websocket::close(outgoing, incoming).await;
}

/// Sends data to the client. Returns when every connection has ended or the client has left.
async fn to_client(outgoing: &mut Outgoing, outbox: &mut mpsc::Receiver<(u8, Bytes)>, protocol: Protocol) {
    while let Some((channel, data)) = outbox.recv().await {
        if websocket::send(outgoing, protocol.encode(channel, &data)).await.is_err() {
            return;
        }
    }
}

async fn serve_channel(
    channel: u8,
    port: u16,
    mut pieces: mpsc::Receiver<Bytes>,
    ports: Ports,
    sender: mpsc::Sender<(u8, Bytes)>,
) {
    let (mut reader, writer) = match ports.connect(port).await {
        Ok(halves) => halves,
        Err(why) => return drop(sender.send((channel + 1, why.into())).await),
    };
    let to_node = async {
        while let Some(piece) = pieces.recv().await {
            if !writer.send(0, piece).await {
                break;
            }
        }
        writer.end(0).await;
        std::future::pending::<()>().await;
    };
    let from_node = async {
        while let Some(FromNode::Data { channel: of, data, .. }) = reader.next().await {
            if sender.send((channel + u8::from(of == 2), data)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = from_node => {}
        () = to_node => {}
    }
}
