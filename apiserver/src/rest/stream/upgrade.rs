//! What a client asks a connection to become: a WebSocket, or SPDY/3.1 as older clients do.

use super::websocket::Handshake;
use crate::rest::header;
use axum::body::Body;
use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use kstore_api::status::{Reason, Status};

/// In which clients say what they speak over SPDY, and servers what is spoken.
const PROTOCOL: &str = "x-stream-protocol-version";

/// What a connection is to become.
pub(super) enum Upgrade {
    WebSocket(Handshake),
    Spdy(SpdyHandshake),
}

impl Upgrade {
    /// What `parts` ask for; `None` if they ask for nothing that is known.
    ///
    /// # Errors
    /// 400 for a handshake that cannot be answered.
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

/// A client that asks for SPDY.
pub(super) struct SpdyHandshake {
    upgrade: OnUpgrade,
    offered: Vec<String>,
}

impl SpdyHandshake {
    /// The first protocol of the client's that is one of `served`. Who offers none gets the oldest, the last.
    ///
    /// # Errors
    /// 403 when both have none in common.
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

    /// The answer, and the connection that follows it.
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
