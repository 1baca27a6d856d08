//! WebSockets: the handshake, and the task that goes on with a connection once it is one.

use super::protocol::Protocol;
use super::{Expiry, Streams};
use crate::audit;
use crate::limits;
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
use kstore_api::status::Status;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message};

/// The connection.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Its two halves.
pub(super) type Outgoing = SplitSink<Socket, Message>;
pub(super) type Incoming = SplitStream<Socket>;

/// A client that asks for a WebSocket.
pub(in crate::rest) struct Handshake {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    /// What it offers to speak.
    pub(super) offered: String,
}

impl Handshake {
    /// What `parts` ask for; `None` if it is no WebSocket.
    ///
    /// # Errors
    /// 400 for a handshake that cannot be answered.
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
        if !has(CONNECTION.as_str(), "upgrade") || key.is_empty() {
            return Err(Status::bad_request("the request is no complete WebSocket handshake"));
        }
        if header(headers, SEC_WEBSOCKET_VERSION.as_str()) != "13" {
            return Err(Status::bad_request("only version 13 of the WebSocket protocol is served"));
        }
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("base64 is a header");
        let offered: Vec<_> = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().collect();
        let offered: Vec<_> = offered.into_iter().filter_map(|value| value.to_str().ok()).collect();
        let offered = offered.join(",");
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade
            .ok_or_else(|| Status::bad_request("this connection cannot become a WebSocket: use HTTP/1.1"))?;
        Ok(Some(Self { upgrade, accept, offered }))
    }

    /// The answer, in the protocol of this name, and the connection that follows it.
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

/// 403: the client speaks nothing that is served here, in the words of the library that Kubernetes uses.
pub(super) fn no_protocol(offered: &str) -> Status {
    let mut status = Status::bad_request(format!(
        "unable to upgrade: unable to negotiate protocol: client supports {offered:?}"
    ));
    status.code = 403;
    status.reason = kstore_api::status::Reason::Forbidden;
    status
}

/// A connection that is about to be a WebSocket.
pub(super) struct Opening(OnUpgrade);

impl Opening {
    /// Waits until the answer has been sent. `None` if the connection ended before.
    pub(super) async fn socket(self) -> Option<Socket> {
        let upgraded = self.0.await.ok()?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits::WEBSOCKET_MESSAGE))
            .max_frame_size(Some(limits::WEBSOCKET_MESSAGE));
        Some(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await)
    }
}

impl Streams {
    /// Goes on with a connection after its answer, at most until its caller's credentials expire: it is cut then. When the server
    /// stops, the tunnels end first, and with them what comes through them.
    pub(super) fn go_on(&self, expiry: Expiry, task: impl Future<Output = ()> + Send + 'static) {
        // In the audit log the request ends with its stream.
        let end = audit::stream_end();
        self.tunnels.tasks().spawn(async move {
            let _end = end;
            tokio::select! {
                biased;
                () = expiry.reached() => tracing::debug!("a stream ends with the credentials of its caller"),
                () = task => {}
            }
        });
    }
}

/// Says goodbye and waits a little for the client to do so too, so that it has read everything.
pub(super) async fn close(mut outgoing: Outgoing, mut incoming: Incoming) {
    let farewell = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    if outgoing.send(Message::Close(Some(farewell))).await.is_err() {
        return;
    }
    let drained = async { while let Some(Ok(_)) = incoming.next().await {} };
    let _ = tokio::time::timeout(limits::WEBSOCKET_FAREWELL, drained).await;
}

/// Sends a message; an error means that the client has gone.
pub(super) async fn send(outgoing: &mut Outgoing, message: Message) -> Result<(), Error> {
    outgoing.send(message).await
}

/// The client's next message that carries something; `None` when it has gone or speaks nonsense.
pub(super) async fn next(incoming: &mut Incoming, protocol: Protocol) -> Option<super::protocol::Frame> {
    loop {
        let message = incoming.next().await?.ok()?;
        match protocol.decode(message) {
            Ok(Some(frame)) => return Some(frame),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "a WebSocket client sent what cannot be read");
                return None;
            }
        }
    }
}
