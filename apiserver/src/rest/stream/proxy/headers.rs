//! Which headers are handed on, and which are only about one of the two connections or about who asks. Pure.

use crate::authn::service_account::is_token;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use std::net::IpAddr;

/// About one connection; and what `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-connection"),
];

/// What backends allow other pages is no word about this server.
const CORS: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// What the connection is asked to become, if it is.
pub(in crate::rest) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = names(headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| asks).cloned()
}

/// What `Connection` names.
fn names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|list| list.split(',')).map(str::trim)
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = names(headers).filter_map(|name| name.parse().ok()).collect();
    named.iter().chain(&HOP_BY_HOP).for_each(|name| drop(headers.remove(name)));
}

/// Makes a client's headers those of the request to the backend: without what proves who asks, with where it came from. `forwarded` is
/// the path that the client knows, where the backend sees another one.
pub(in crate::rest) fn onward(
    headers: &mut HeaderMap,
    upgrade: Option<HeaderValue>,
    peer: Option<IpAddr>,
    forwarded: Option<&str>,
) {
    strip(headers);
    headers.remove(AUTHORIZATION);
    let ours =
        |name: &HeaderName| name.as_str().starts_with("impersonate-") || name.as_str().starts_with("kstore-");
    let ours: Vec<HeaderName> = headers.keys().filter(|name| ours(name)).cloned().collect();
    ours.iter().for_each(|name| drop(headers.remove(name)));
    hide_token(headers);
    if let Some(peer) = peer {
        let before = headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
        let chain = before.map_or_else(|| peer.to_string(), |before| format!("{before}, {peer}"));
        set(headers, "x-forwarded-for", &chain);
    }
    if let Some(forwarded) = forwarded {
        set(headers, "x-forwarded-uri", forwarded);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
}

/// A token may be among the protocols of a WebSocket.
fn hide_token(headers: &mut HeaderMap) {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let spoken: Vec<&str> =
        values.flat_map(|list| list.split(',')).map(str::trim).filter(|name| !is_token(name)).collect();
    let spoken = spoken.join(", ");
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(spoken) = HeaderValue::from_str(&spoken).ok().filter(|spoken| !spoken.is_empty()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, spoken);
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Makes a backend's headers those of the answer to the client.
pub(in crate::rest) fn back(headers: &mut HeaderMap) {
    strip(headers);
    CORS.iter().for_each(|name| drop(headers.remove(name)));
}

/// Whether these are of a page that can be read.
pub(super) fn is_page(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().is_some_and(|media| media.trim() == "text/html")
        && headers.get(CONTENT_ENCODING).is_none()
}
