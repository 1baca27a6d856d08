//! WebSockets: handshake, and the task that serves the connection after it.

use super::protocol::Protocol;
use super::{Expiry, Streams};
use crate::rest::header;
use axum::body::Body;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use kstore_access::audit;
use kstore_api::status::Status;
use kstore_spdy::websocket::{accepted_key, server_socket};
use kstore_storage::limits;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

/// A WebSocket connection on the server.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The sending and the receiving half of a connection.
pub(super) type Outgoing = SplitSink<Socket, Message>;
pub(super) type Incoming = SplitStream<Socket>;

/// A request to upgrade to a WebSocket.
pub(in crate::rest) struct Handshake {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    /// The subprotocols that the client offers, separated by commas.
    pub(super) offered: String,
}

impl Handshake {
    /// The handshake in a request; `None` if the request does not ask for a WebSocket.
    ///
    /// # Errors
    /// 400 for an invalid handshake.
    pub(in crate::rest) fn of(parts: &mut Parts) -> Result<Option<Self>, Status> {
        let headers = &parts.headers;
        let has = |name, word: &str| {
            let words = header(headers, name).split(',').map(str::trim);
            words.into_iter().any(|given| given.eq_ignore_ascii_case(word))
        };
        if parts.method != Method::GET || !has(UPGRADE.as_str(), "websocket") {
            return Ok(None);
        }
        let key = header(headers, SEC_WEBSOCKET_KEY.as_str());
        let key = if has(CONNECTION.as_str(), "upgrade") { key } else { "" };
        let accept = accepted_key(key, header(headers, SEC_WEBSOCKET_VERSION.as_str()));
        let accept = accept.map_err(|error| Status::bad_request(error.to_string()))?;
        let accept = HeaderValue::try_from(accept).expect("base64 is a header");
        let offered: Vec<_> = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().collect();
        let offered: Vec<_> = offered.into_iter().filter_map(|value| value.to_str().ok()).collect();
        let offered = offered.join(",");
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade
            .ok_or_else(|| Status::bad_request("this connection cannot become a WebSocket: use HTTP/1.1"))?;
        Ok(Some(Self { upgrade, accept, offered }))
    }

    /// The response with the chosen subprotocol, and the connection that follows it.
    pub(super) fn accept(self, protocol: &str) -> (Response<Body>, Opening) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = HeaderValue::from_str(protocol).ok().filter(|protocol| !protocol.is_empty()) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        (response, Opening(self.upgrade))
    }
}

/// 403: no offered subprotocol is served, in the text of the library that Kubernetes uses.
pub(super) fn no_protocol(offered: &str) -> Status {
    let mut status = Status::bad_request(format!(
        "unable to upgrade: unable to negotiate protocol: client supports {offered:?}"
    ));
    status.code = 403;
    status.reason = kstore_api::status::Reason::Forbidden;
    status
}

/// A connection that becomes a WebSocket when the response was sent.
pub(super) struct Opening(OnUpgrade);

impl Opening {
    /// Waits until the response was sent. `None` if the connection ended before.
    pub(super) async fn socket(self) -> Option<Socket> {
        let upgraded = self.0.await.ok()?;
        Some(server_socket(TokioIo::new(upgraded), Vec::new(), limits::WEBSOCKET_MESSAGE).await)
    }
}

impl Streams {
    /// Serves a connection after its response, until `task` ends or the caller's credentials expire. When the
    /// server stops, its tunnels end first, and with them their streams.
    pub(super) fn spawn_stream(&self, expiry: Expiry, task: impl Future<Output = ()> + Send + 'static) {
        // In the audit log, the request ends with its stream.
        let end = audit::stream_end();
        self.tunnels.tasks().spawn(async move {
            let _end = end;
            tokio::select! {
                biased;
               () = expiry.reached() => tracing::debug!("the credentials of a stream's caller expired"),
                () = task => {}
            }
        });
    }
}

/// Sends a close message and waits briefly for the client's, so that the client has read everything.
pub(super) async fn close(mut outgoing: Outgoing, mut incoming: Incoming) {
    let farewell = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    if outgoing.send(Message::Close(Some(farewell))).await.is_err() {
        return;
    }
    let drained = async { while let Some(Ok(_)) = incoming.next().await {} };
    let _ = tokio::time::timeout(limits::WEBSOCKET_FAREWELL, drained).await;
}

/// Sends a message; an error means that the client has left.
pub(super) async fn send(outgoing: &mut Outgoing, message: Message) -> Result<(), Error> {
    outgoing.send(message).await
}

/// The client's next message with data; `None` if the client has left or violates the protocol.
pub(super) async fn next(incoming: &mut Incoming, protocol: Protocol) -> Option<super::protocol::Frame> {
    loop {
        let message = incoming.next().await?.ok()?;
        match protocol.decode(message) {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "a WebSocket client sent an invalid message");
                return None;
            }
        }
    }
}
