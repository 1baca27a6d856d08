//! Connection upgrades that clients request: to a WebSocket, or to SPDY/3.1 for older clients.

use super::websocket::Handshake;
use crate::rest::header;
use axum::body::Body;
use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use kstore_api::status::{Reason, Status};

/// The header of the client's and the chosen SPDY subprotocols.
const PROTOCOL: &str = "x-stream-protocol-version";

/// The protocol that a connection is upgraded to.
pub(super) enum Upgrade {
    WebSocket(Handshake),
    Spdy(SpdyHandshake),
}

impl Upgrade {
    /// The upgrade that a request asks for; `None` if it asks for none that is known.
    ///
    /// # Errors
    /// 400 for an invalid handshake.
    pub(super) fn of(parts: &mut Parts) -> Result<Option<Self>, Status> {
        if let Some(handshake) = Handshake::of(parts)? {
            return Ok(Some(Self::WebSocket(handshake)));
        }
        if !header(&parts.headers, UPGRADE.as_str()).eq_ignore_ascii_case("SPDY/3.1") {
            return Ok(None);
        }
        let values = parts.headers.get_all(PROTOCOL).iter().filter_map(|value| value.to_str().ok());
        let offered = values.flat_map(|list| list.split(',')).map(|name| name.trim().to_owned()).collect();
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade =
            upgrade.ok_or_else(|| Status::bad_request("this connection cannot become SPDY: use HTTP/1.1"))?;
        Ok(Some(Self::Spdy(SpdyHandshake { upgrade, offered })))
    }
}

/// A request to upgrade to SPDY.
pub(super) struct SpdyHandshake {
    upgrade: OnUpgrade,
    offered: Vec<String>,
}

impl SpdyHandshake {
    /// The client's first protocol that is in `served`. A client that offers none gets the oldest, which is
    /// last.
    ///
    /// # Errors
    /// 403 if client and server have no protocol in common.
    pub(super) fn choose(&self, served: &[&'static str]) -> Result<&'static str, Status> {
        if let ([], Some(oldest)) = (self.offered.as_slice(), served.last()) {
            return Ok(*oldest);
        }
        let mut known = self.offered.iter().filter_map(|name| served.iter().find(|served| *served == name));
        known.next().copied().ok_or_else(|| {
            let text = format!(
                "unable to upgrade: unable to negotiate protocol: client supports {:?}, server accepts {served:?}",
                self.offered
            );
            let mut status = Status::bad_request(text);
            (status.code, status.reason) = (403, Reason::Forbidden);
            status
        })
    }

    /// The response to the handshake, and the connection that follows it.
    pub(super) fn accept(self, protocol: &'static str) -> (Response<Body>, OnUpgrade) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        headers.insert(PROTOCOL, HeaderValue::from_static(protocol));
        (response, self.upgrade)
    }
}
